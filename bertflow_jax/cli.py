"""The shell around every command: flags, error texts and exit codes.

Exit codes: 0 done, 2 a mistake the user can mend (its text on stderr, no traceback), 130 stopped
with Ctrl-C. Anything else is a bug of ours and shows its traceback.
"""

import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn

import absl.logging
from absl import app, flags

from bertflow_jax.errors import BertFlowError


def run(main: Callable[[], None]) -> NoReturn:
    """Parse the command line into absl's FLAGS, call main() and exit."""
    app.run(lambda _: _call(main), flags_parser=_parse)
    raise AssertionError("absl's app.run always exits")


def _call(main: Callable[[], None]) -> int:
    # The program's own messages are shown; JAX's and matplotlib's only from warnings on.
    logging.getLogger("bertflow_jax").setLevel(logging.INFO)
    try:
        main()
    except BertFlowError as error:
        return _report(str(error))
    except OSError as error:
        # ml_collections raises this at the first use of a config file that it could not load.
        if not str(error).startswith("Configuration is not available"):
            raise
        return _report(str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        # Not sys.exit: JAX's threads may be inside a device call, and taking the interpreter down
        # under them sometimes ends in a segmentation fault instead of this code.
        os._exit(130)
    return 0


def _parse(argv: list[str]) -> list[str]:
    # absl would raise an unset verbosity to INFO, which lets JAX and matplotlib talk. Set first, so
    # that the user's own wins.
    quiet = f"--verbosity={absl.logging.WARNING}"
    try:
        rest = flags.FLAGS([argv[0], quiet, *argv[1:]])[1:]
    except flags.Error as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(str(error))
    except KeyError as error:
        # An unknown field of a config flag; any other KeyError is a bug and keeps its traceback.
        if "not found on dataclass" not in str(error):
            raise
        _refuse(str(error.args[0]))
    except SystemExit:
        # Only --help and its kin exit while parsing, with 1; help that was asked for is no failure.
        sys.exit(0)
    if rest:
        _refuse(
            f"unexpected argument {rest[0]!r}: every option is --name=value, and a switch is "
            "--name or --noname"
        )
    return argv


def _refuse(text: str) -> NoReturn:
    sys.exit(_report(f"{text} (--help lists the flags)"))


def _report(text: str) -> int:
    print(f"error: {text}", file=sys.stderr)
    return 2
