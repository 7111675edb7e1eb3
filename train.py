"""Fit a BERT-flow: python train.py --config=configs/demo.py --workdir=runs/demo.

Or train the encoder on labelled pairs: --config=configs/siamese_nli.py.
Any field of the config is a flag: --config.train.steps=100 --config.encoder.pooling=first_last;
bertflow_jax/config.py lists and explains them.
"""

# Before the imports, which take seconds: Ctrl-C is heeded without them.
from bertflow_jax.interrupt import end_at_once

if __name__ == "__main__":
    end_at_once()

from pathlib import Path

from absl import flags
from ml_collections import config_flags

from bertflow_jax import cli, distributed_flags
from bertflow_jax.config import Config
from bertflow_jax.errors import ConfigError
from bertflow_jax.remote.address import remote_address
from bertflow_jax.workdir import check_inputs_outside, prepare_workdir

_CONFIG = config_flags.DEFINE_config_file(
    "config",
    help_string="File of the experiment; bertflow_jax/config.py lists what --config.* sets.",
)
_WORKDIR = flags.DEFINE_string(
    "workdir", "", "Folder of checkpoints and metrics, or gs://BUCKET/FOLDER."
)
_RESUME = flags.DEFINE_bool(
    "resume", False, "Go on from the newest good checkpoint of the workdir."
)
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Delete what is in the workdir, and start anew.")
flags.adopt_module_key_flags(distributed_flags)


def main() -> None:
    """Run one experiment and print where it went."""
    if _CONFIG.value is None:
        raise ConfigError("--config is missing: name a file, e.g. --config=configs/demo.py")
    if not isinstance(_CONFIG.value, Config):
        raise ConfigError("--config: get_config() must return a bertflow_jax.config.Config")
    # Checked before the seconds that loading JAX takes.
    config = _CONFIG.value.validate()
    if not flags.FLAGS["workdir"].present:
        raise ConfigError("--workdir is missing: name a folder, e.g. --workdir=runs/demo")
    switches = {"resume": _RESUME.value, "overwrite": _OVERWRITE.value}
    if distributed_flags.join():
        place = remote_address(_WORKDIR.value, "--workdir") or Path(_WORKDIR.value)
    else:
        place = prepare_workdir(_WORKDIR.value, **switches)
    if _OVERWRITE.value:
        check_inputs_outside(place, {"--config": _config_file()})
    if config.objective == "none":
        raise ConfigError(
            "objective=none: nothing is trained; score the encoder with evaluate.py --encoder="
            f"{config.encoder.path} --pooling={config.encoder.pooling}"
        )
    if config.objective != "flow":
        from bertflow_jax.training.supervised_run import train_encoder

        print(train_encoder(config, _WORKDIR.value, **switches, progress=True))
        return
    from bertflow_jax.training.run import train

    result = train(config, _WORKDIR.value, **switches, progress=True)
    held_out = "" if result.held_out is None else f", held-out {result.held_out:.4f} bits/dim"
    print(f"step {int(result.state.step)}{held_out}: {_WORKDIR.value}")


def _config_file() -> str:
    """Return the path of --config without the parameter behind a colon."""
    name = config_flags.get_config_filename(flags.FLAGS["config"])
    return name.partition(":")[0]


if __name__ == "__main__":
    cli.run(main)
