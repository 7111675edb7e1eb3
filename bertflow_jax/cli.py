"""The shell around every command: flags, error texts and exit codes.

Exit codes: 0 done; 2 a mistake the user can mend (its text on stderr, no traceback); 75 stopped by
SIGTERM with everything saved, so that the same command goes on (with --resume where it has that
flag; EX_TEMPFAIL); 130 stopped with Ctrl-C. A SIGTERM before there is anything to save ends the
process by that signal, 143 for a shell. Anything else is a bug of ours and shows its traceback.

A command calls `run` before it imports what takes seconds, so that Ctrl-C ends that too.
"""

import contextlib
import importlib.metadata
import logging
import os
import platform
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, TextIO

import absl.logging
from absl import app, flags

from bertflow_jax.errors import BertFlowError, BertFlowWarning, ProcessLostError, WorkdirError
from bertflow_jax.flag_errors import (
    config_places,
    given,
    parse_error,
    refuse_infinite,
    refuse_sections,
)
from bertflow_jax.interrupt import (
    Preempted,
    Terminated,
    die_terminated,
    heeded,
    was_pressed,
    was_terminated,
)
from bertflow_jax.jax_variables import explained, refuse_variables
from bertflow_jax.made_folders import folders_undone
from bertflow_jax.paths import lost_folder
from bertflow_jax.streams import steady_streams
from bertflow_jax.version import __version__

# python -W error is for the user's own code: an old name in a package of others ends no command.
for _kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
    if any(
        action == "error" and issubclass(_kind, kind) for action, _, kind, *_ in warnings.filters
    ):
        warnings.filterwarnings("default", category=_kind, module=r"(?!bertflow_jax\b|__main__)")

flags.DEFINE_bool("version", False, "Print the version and exit.")

_HELP = re.compile(r"--?(h|help\w*|\?)")
_EX_TEMPFAIL = 75  # of sysexits.h: try again
_STOPPING = 2  # seconds in which several processes stop together after Ctrl-C or SIGTERM
_FAILING = 10  # the same after an error: all have met it, or this one alone


def take_command(commands: Mapping[str, str]) -> str:
    """Take the first word off the command line, which names one of several commands.

    The flags that follow are then parsed by `run` as ever. Without a word, --help prints the
    docstring of the program and --version the version; anything else is refused.

    Args:
      commands: name -> anything.
    """
    steady_streams()
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    if word in commands:
        del sys.argv[1]
        return word
    if _HELP.fullmatch(word):
        print((sys.modules["__main__"].__doc__ or "").strip())
        _exit_told()
    if re.fullmatch(r"--?version", word):
        print(version_line())
        _exit_told()
    names = " or ".join(commands)
    later = next((other for other in sys.argv[2:] if other in commands), None)
    if later is not None:
        sys.exit(_report(f"{later} must come first, before {word}"))
    what = f"{word!r} is no command" if word else "no command"
    sys.exit(_report(f"{what}: give {names} as the first word (--help tells of them)"))


def run(main: Callable[[], None], *, computes: bool = True, anywhere: bool = False) -> NoReturn:
    """Parse the command line into absl's FLAGS, call main() and exit.

    Args:
      main: the command.
      computes: with JAX, whose variables are then looked at first.
      anywhere: also without a current folder, where otherwise nothing but help is given.
    """
    steady_streams()
    lost = "" if anywhere else lost_folder()
    if lost and not any(_HELP.fullmatch(word) or word == "--version" for word in sys.argv[1:]):
        sys.exit(_report(lost))
    with heeded():
        app.run(lambda _: _call(main, computes), flags_parser=_parse)
    raise AssertionError("absl's app.run always exits")


def _exit_told() -> NoReturn:
    """Exit after --help or --version, which have printed what was asked for."""
    try:
        sys.stdout.flush()
    except BertFlowError as error:
        sys.exit(_report(str(error)))
    sys.exit(0)


def version_line() -> str:
    """Return the versions of this package, JAX and Python; JAX is not loaded for it."""
    try:
        jax = f"jax {importlib.metadata.version('jax')}"
    except importlib.metadata.PackageNotFoundError:
        jax = "without jax"
    return f"bertflow_jax {__version__} ({jax}, Python {platform.python_version()})"


def _call(main: Callable[[], None], computes: bool = True) -> int:
    # The program's own messages are shown; JAX's and matplotlib's only from warnings on.
    logging.getLogger("bertflow_jax").setLevel(logging.INFO)
    try:
        with folders_undone(), _warnings_logged():
            if computes:
                refuse_variables()
            main()
            sys.stdout.flush()
    except BaseException as error:
        if isinstance(error, Preempted):
            _end_stopped("stopped by SIGTERM", _EX_TEMPFAIL)
        # Inside an import Ctrl-C and SIGTERM can come out as an ImportError.
        if isinstance(error, Terminated) or was_terminated():
            die_terminated()
        if isinstance(error, KeyboardInterrupt) or was_pressed():
            _end_stopped("interrupted", 130)
        return _fail(error)
    return 0


@contextlib.contextmanager
def _warnings_logged() -> Iterator[None]:
    """Show warnings of ours as the program's other messages, without the line of code they are of.

    Those of others stay as Python shows them: where they come from is what is to be known of them.
    """
    shown = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, BertFlowWarning):
            shown(message, category, filename, lineno, file, line)
            return
        log = logging.getLogger("bertflow_jax")
        place = (log.name, logging.WARNING, filename, lineno)
        log.handle(log.makeRecord(*place, "%s", (str(message),), None))

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown


def _fail(error: BaseException) -> int:
    """Report an error of ours and return its exit code; raise any other.

    One of several processes does not wait for others that have not failed.
    """
    error = explained(error)
    # Without that module there is one process; loading it loads JAX.
    distributed = sys.modules.get("bertflow_jax.distributed")
    if distributed is not None:
        error = distributed.explained(error)
    # A file or folder that may not be used is the user's to mend, whoever met it.
    if isinstance(error, PermissionError) and error.filename is not None:
        told = WorkdirError(f"{os.fsdecode(error.filename)} cannot be used: {error.strerror}")
        told.__cause__, error = error, told
    ours = isinstance(error, BertFlowError)
    code = _report(str(error)) if ours else 1
    if distributed is not None:
        if isinstance(error, ProcessLostError):
            distributed.let_others_end()  # each hears of it for itself
            _end(code)
        if not distributed.others_are_ending(_FAILING):
            if not ours:
                traceback.print_exception(error)
            _end(code)
    if not ours:
        raise error
    return code


def _end_stopped(text: str, code: int) -> NoReturn:
    print(text, file=sys.stderr)
    distributed = sys.modules.get("bertflow_jax.distributed")
    if distributed is not None:
        distributed.others_are_ending(_STOPPING)
    _end(code)


def _end(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: JAX's threads may be inside a device call, and taking the interpreter down
    # under them sometimes ends in a segmentation fault instead of this code.
    os._exit(code)


def _parse(argv: list[str]) -> list[str]:
    # absl would raise an unset verbosity to INFO, which lets JAX and matplotlib talk. Set first, so
    # that the user's own wins.
    quiet = f"--verbosity={absl.logging.WARNING}"
    # So that --help, which shows the flags of the program itself, shows this one too.
    flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS["version"])
    if "--version" in argv[1:]:
        print(version_line())
        _exit_told()
    try:
        refuse_sections(argv)
        rest = flags.FLAGS([argv[0], quiet, *argv[1:]])[1:]
        refuse_infinite()
        # ml_collections tells of a config file that it could not open at the first use of it.
        if "config" in flags.FLAGS:
            getattr(flags.FLAGS["config"].value, "validate", None)
    except Exception as error:
        # Only absl, ml_collections and the user's own config file run here.
        _refuse(parse_error(error, argv))
    except SystemExit as error:
        if config_places(error):
            _refuse(f"{given(argv)}: the file calls exit({error.code!r}){config_places(error)[-1]}")
        # Else only --help and its kin exit while parsing, with 1; asked for, it is no failure.
        _exit_told()
    if rest:
        _refuse(
            f"unexpected argument {rest[0]!r}: an option is --name=value or --name value, and a "
            "switch --name, --noname or --name=false"
        )
    return argv


def _refuse(text: str) -> NoReturn:
    sys.exit(_report(f"{text} (--help lists the flags)"))


def _report(text: str) -> int:
    print(f"error: {text}", file=sys.stderr)
    return 2
