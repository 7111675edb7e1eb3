"""Post-processing of vectors from any model, in files.

  python -m bertflow_jax.postprocess fit --method=whitening --input=vectors.npy --output=FOLDER
  python -m bertflow_jax.postprocess apply --model=FOLDER --input=vectors.npy --output=out.npy

fit    fits a flow, whitening, standardize, natsv, center or reduce and saves it
apply  writes the mapped vectors, or with --inverse those mapped back

`fit --help` and `apply --help` list their flags.
"""

# Before the imports, which take seconds: Ctrl-C is heeded without them.
from bertflow_jax.interrupt import end_at_once

if __name__ == "__main__":
    end_at_once()

import importlib

from absl import flags

from bertflow_jax import cli

_COMMANDS = {
    "fit": "bertflow_jax.postprocess.fit_flags",
    "apply": "bertflow_jax.postprocess.apply_flags",
}


def main() -> None:
    """Run the command that the first word names."""
    module = importlib.import_module(_COMMANDS[cli.take_command(_COMMANDS)])
    # --help shows the docstring of this module and the flags it has adopted.
    globals()["__doc__"] = module.__doc__
    flags.adopt_module_key_flags(module)
    cli.run(module.main)


if __name__ == "__main__":
    main()
