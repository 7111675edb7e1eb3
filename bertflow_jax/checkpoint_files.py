"""The files of one checkpoint: the only file that imports orbax.

orbax writes under a temporary name (`STEP.orbax-checkpoint-tmp`) and renames the folder when it is
complete. It only ever sees a local disk: see `remote` for workdirs in a bucket.

Where an operation fails, orbax and tensorstore print tracebacks of their threads beside the error
they raise. `_one_message` drops those, and those alone: the error itself is always raised.
"""

import contextlib
import logging
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from bertflow_jax.checkpoint_steps import unfinished
from bertflow_jax.workdir import CHECKPOINTS

_CLOSED = "Event loop is closed"
# Of the arrays after the first one that could not be opened.
_NEVER_BEGUN = r"coroutine '\w*(_array_|serialize)\w*' was never awaited"
# One of them is in whatever tensorstore says of an array: its own name or orbax's, the formats, or
# the path alone of a file that it cannot read.
_THEIR_WORDS = ("orbax", "tensorstore", "ocdbt", "zarr", f"/{CHECKPOINTS}/")


def write_step(path: Path, arrays: Mapping[str, Any], records: Mapping[str, Any]) -> None:
    """Write a checkpoint; a step that is there already is replaced.

    Args:
      path: folder of the step.
      arrays: name of an item -> pytree of numpy arrays.
      records: name -> JSON-safe dict.

    Raises:
      OSError, ValueError: it cannot be written (ValueError is tensorstore's, for a full disk too);
        nothing of it is left.
    """
    items = {name: ocp.args.StandardSave(tree) for name, tree in arrays.items()} | {
        name: ocp.args.JsonSave(value) for name, value in records.items()
    }
    try:
        with _one_message(), _checkpointer() as checkpointer:
            checkpointer.save(path, args=ocp.args.Composite(**items), force=True)
    except BaseException:
        # A full disk needs the room, and nothing else will ever use the half step.
        for left in unfinished(path.parent):
            shutil.rmtree(left, ignore_errors=True)
        raise


def read_records(path: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return records of a checkpoint, by name; raises what orbax raises."""
    items = {name: ocp.args.JsonRestore() for name in names}
    with _one_message(), _checkpointer() as checkpointer:
        found = checkpointer.restore(path, args=ocp.args.Composite(**items))
    return {name: dict(found[name]) for name in items}


def read_arrays(path: Path, target: Mapping[str, Any]) -> dict[str, Any]:
    """Return items of a checkpoint; raises what orbax raises.

    Args:
      path: folder of the step.
      target: name of an item -> pytree of ShapeDtypeStruct (its sharding says where the arrays go)
        or of numpy arrays (whose values do not matter: the item comes back as numpy arrays).
    """
    items = {name: ocp.args.StandardRestore(tree) for name, tree in target.items()}
    with _one_message(), _checkpointer() as checkpointer:
        found = checkpointer.restore(path, args=ocp.args.Composite(**items))
    return {name: found[name] for name in items}


def _checkpointer() -> ocp.Checkpointer:
    if jax.process_count() == 1:
        return ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    # One process reads and writes: orbax must not wait for the others.
    own = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=own, active_processes={own}, barrier_sync_key_prefix=f"process{own}"
    )
    handler = ocp.CompositeCheckpointHandler(
        composite_options=ocp.CompositeOptions(multiprocessing_options=alone)
    )
    return ocp.Checkpointer(handler, multiprocessing_options=alone)


@contextlib.contextmanager
def _one_message() -> Iterator[None]:
    """Drop the tracebacks that threads of orbax and tensorstore print of an error we raise.

    Where the operation fails the filters stay: some of the threads end later, some of the
    coroutines with the interpreter.
    """
    before = sys.unraisablehook
    # Those of an operation that failed before this one are its, and stay.
    added = [
        (logger, dropped)
        for name, dropped in _FILTERS.items()
        if dropped not in (logger := logging.getLogger(name)).filters
    ]
    for logger, dropped in added:
        logger.addFilter(dropped)
    ours = before if isinstance(before, _NoClosedLoop) else _NoClosedLoop(before)
    sys.unraisablehook = ours
    try:
        yield
    except BaseException:
        warnings.filterwarnings("ignore", _NEVER_BEGUN, RuntimeWarning)
        raise
    for logger, dropped in added:
        logger.removeFilter(dropped)
    if sys.unraisablehook is ours:
        sys.unraisablehook = before


class _NoClosedLoop:
    """A hook for exceptions that nobody can catch, which drops those of orbax's ended loops.

    tensorstore completes other arrays after the first error has ended orbax's event loop; and the
    coroutines that were to read them are never resumed.
    """

    def __init__(self, hook: Callable[[Any], Any]):
        self._hook = hook

    def __call__(self, found: Any) -> None:
        closed = isinstance(found.exc_value, RuntimeError) and str(found.exc_value) == _CLOSED
        code = getattr(found.object, "cr_code", None)
        if not closed and (code is None or "orbax" not in code.co_filename):
            self._hook(found)


def _no_thread_traceback(record: logging.LogRecord) -> bool:
    return not ("_SignalingThread" in str(record.msg) and record.exc_info)


def _no_lost_result(record: logging.LogRecord) -> bool:
    """Drop what asyncio says of the arrays beside the first one that could not be read."""
    text = record.getMessage().lower()
    theirs = any(word in text for word in _THEIR_WORDS)
    return not (theirs and "exception was never retrieved" in text)


_FILTERS = {"absl": _no_thread_traceback, "asyncio": _no_lost_result}
