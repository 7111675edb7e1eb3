"""List the commands: python -m bertflow_jax.

Each explains itself: python -m bertflow_jax.embed --help. docs/commands.md has an example of each.
"""

import difflib
import sys

from bertflow_jax import cli
from bertflow_jax.errors import ConfigError

# Command -> what it does, in the order in which they are needed.
COMMANDS = {
    "train.py": "fit a flow on a frozen encoder, or train an encoder on labelled pairs",
    "evaluate.py": "score a run, an encoder or a flow on STS and GLUE pairs",
    "-m bertflow_jax.embed": "embed the rows of a file of any size",
    "-m bertflow_jax.postprocess": "fit and apply a flow, whitening, ... to files of vectors",
    "-m bertflow_jax.integrations.ray_data": "embed a corpus on many machines with Ray Data",
    "-m bertflow_jax.export": "write an encoder as a function that runs without this package",
    "-m bertflow_jax.push": "upload a fitted model to the Hugging Face Hub, with a model card",
    "-m bertflow_jax.convert": "import a flow or encoder of PyTorch or TensorFlow 1",
    "-m bertflow_jax.reproduce": "reproduce a table of the paper, ours beside the published",
    "-m bertflow_jax.data.tfds_builders": "prepare STS data sets for TFDS, without TensorFlow",
    "-m bertflow_jax.doctor": "check versions, devices, caches and the bundled encoder",
}


def main() -> None:
    """Print the list."""
    width = max(map(len, COMMANDS))
    print(cli.version_line())
    for command, purpose in COMMANDS.items():
        print(f"  python {command:<{width}}  {purpose}")
    print("train.py and evaluate.py lie in the repository. --help explains the flags of each.")


def _refuse(given: str) -> None:
    """Say how a command is called whose name is given as an argument, as in `bertflow_jax embed`.

    Raises:
      ConfigError: always.
    """
    names = {command.removesuffix(".py").rpartition(".")[2]: command for command in COMMANDS}
    close = difflib.get_close_matches(given.removesuffix(".py"), names, n=1)
    meant = f": did you mean python {names[close[0]]}?" if close else ""
    raise ConfigError(
        f"{given} is no argument of python -m bertflow_jax, which lists commands{meant}"
    )


if __name__ == "__main__":
    _named = [word for word in sys.argv[1:] if not word.startswith("-")]
    if _named:
        # The flags beside it are those of the command that is meant.
        del sys.argv[1:]
        cli.run(lambda: _refuse(_named[0]), computes=False)
    cli.run(main, computes=False)
