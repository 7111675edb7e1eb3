"""Export an encoder as one compiled function: a folder that runs without bertflow_jax.

A fitted flow on its encoder, from a train.py run:
  python -m bertflow_jax.export --workdir=runs/demo --output=exported
An encoder without a flow, or with --flow=FOLDER of one that was imported or saved by itself:
  python -m bertflow_jax.export --encoder=mini_bert --pooling=mean --output=exported

Then, on any machine with `pip install jax flatbuffers tokenizers`:
  python exported/load.py "A man is playing a guitar."

The folder holds the function for every platform of --platforms (no such device is needed here), its
parameters, the tokenizer and the loader; its README.md explains them.
"""

# Before the imports, which take seconds: Ctrl-C is heeded without them.
from bertflow_jax.interrupt import end_at_once

if __name__ == "__main__":
    end_at_once()

from absl import flags

from bertflow_jax import cli, model_flags
from bertflow_jax.errors import ConfigError
from bertflow_jax.export.places import PLATFORMS, check_platforms, place_of

_OUTPUT = flags.DEFINE_string("output", None, "Folder to write: not there yet, or empty.")
_PLATFORMS = flags.DEFINE_list(
    "platforms", list(PLATFORMS), "What it can run on: some of cpu, cuda, tpu, rocm."
)
_NORMALIZE = flags.DEFINE_bool("normalize", False, "Scale every vector to length 1.")
flags.adopt_module_key_flags(model_flags)


def main() -> None:
    """Export as the flags say."""
    output = _OUTPUT.value or ""
    if not output.strip():
        raise ConfigError("--output=FOLDER is missing: the folder to write")
    spec = model_flags.encoder_spec()
    check_platforms(_PLATFORMS.value, "--platforms")
    folder = place_of(output)
    encoder = spec.load()
    # Imported here so that a wrong flag is reported without the seconds that loading JAX takes.
    from bertflow_jax.export.artifact import export_encoder

    manifest = export_encoder(encoder, folder, _PLATFORMS.value, normalize=_NORMALIZE.value)
    size = sum(file["bytes"] for file in manifest["files"].values())
    print(f"{manifest['dimension']} dimensions, {size / 2**20:.0f} MiB: {folder}")
    print(f"try: python {folder / 'load.py'} 'A text.'")


if __name__ == "__main__":
    cli.run(main)
