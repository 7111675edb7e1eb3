"""What threads and loops of orbax leave of a failure is not printed, and only that."""

import asyncio
import gc
import logging
import sys

import pytest
from step_faults import data_files, flip, truncate

from bertflow_jax.errors import CheckpointError
from bertflow_jax.interrupt import heeded


def test_hooks_of_the_process_are_left_alone(store, read):
    """A read that succeeds takes its filters away; an error of somebody else is still shown."""
    loggers = [logging.getLogger(name) for name in ("absl", "asyncio")]
    before = sys.unraisablehook, [list(logger.filters) for logger in loggers]
    read(store)
    assert (sys.unraisablehook, [logger.filters for logger in loggers]) == before


def test_results_that_orbax_lost_are_not_printed(store, read, caplog):
    """Bug: a traceback, whenever the rubbish is collected, of the arrays beside the damaged one."""
    for path in data_files(store, 2):
        flip(path)
    with pytest.raises(CheckpointError):
        read(store, 2)
    # As a run is restored: the good read after it took away what the damaged one had left.
    assert read(store)[0] == 1
    gc.collect()  # rubbish of other tests, which is none of this one's
    caplog.clear()  # it warns of the step that it passes over

    async def lose(text):
        asyncio.get_running_loop().create_future().set_exception(ValueError(text))
        gc.collect()

    asyncio.run(lose('DATA_LOSS: Error opening "zarr" driver [tensorstore_spec={}]'))
    # Of a file that was cut: who restored twice saw pages of these.
    asyncio.run(lose("while reading array index. See full TensorStore details: <bound method ...>"))
    asyncio.run(
        lose('OUT_OF_RANGE: Error reading "params.a/0" in OCDBT database at local file "x"')
    )
    asyncio.run(
        lose('NOT_FOUND: Error reading local file "/run/checkpoints/2/flow/d/76038e70101187"')
    )
    assert not caplog.records
    asyncio.run(lose("of somebody else"))
    assert "of somebody else" in caplog.text


def test_a_process_that_restores_often_prints_nothing(store, read, caplog):
    """Bug: of a file that was cut, a traceback of 80 lines at some later restore."""
    for path in data_files(store, 2):
        truncate(path)
    gc.collect()
    caplog.clear()
    for _ in range(5):
        with pytest.raises(CheckpointError):
            read(store, 2)
        assert read(store)[0] == 1
        gc.collect()
    assert {record.name for record in caplog.records} <= {"bertflow_jax.checkpoint_walk"}


class _Fails:
    """Raises where nobody can catch it, as a callback of tensorstore's threads does."""

    def __init__(self, error):
        self._error = error

    def __del__(self):
        raise self._error


def test_what_a_failed_operation_leaves_is_not_printed_after_the_command(store, read, monkeypatch):
    """Bug: the end of a command took the filter away, and late arrays printed tracebacks."""
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: shown.append(str(found.exc_value)))
    for path in data_files(store, 2):
        flip(path)
    for _ in range(2):
        with heeded():
            assert read(store)[0] == 1
        _Fails(RuntimeError("Event loop is closed"))
        _Fails(RuntimeError("of somebody else"))
        # Nor is the command there any more, to which Ctrl-C would be sent once more.
        _Fails(KeyboardInterrupt("of nobody"))
    assert shown == ["of somebody else", "of nobody"] * 2
