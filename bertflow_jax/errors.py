"""Every error a user can cause, under one base class, and the one category of warnings.

The text of each names the file, key, row, field or flag at fault and says what to do. The
command-line entry points print that text and exit with code 2; a traceback means a bug of ours.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Iterator

_log = logging.getLogger(__name__)
_SHOWN = 500  # characters of a value in a message


class BertFlowError(Exception):
    """Base class of all errors raised on purpose by bertflow_jax."""


class BertFlowWarning(UserWarning):
    """What may be a mistake, or is computed otherwise than the files ask for.

    A command shows it as a line of its log; in Python `warnings.filterwarnings` decides.
    """


class InputError(BertFlowError, ValueError):
    """A value given by the caller is unusable: a text, an array, an argument."""


class NotFittedError(BertFlowError, ValueError):
    """A post-processor is used before it is fitted."""


class ConfigError(BertFlowError, ValueError):
    """A configuration field or a command-line flag is unknown or has an impossible value."""


class MissingPackageError(ConfigError, ImportError):
    """An optional package is not installed, or not in a version that fits; says what to install."""


class DataError(BertFlowError, ValueError):
    """A data file does not say what it should; the text names file and line."""


class DataNotFoundError(BertFlowError, FileNotFoundError):
    """A file or folder that was asked for is not there."""

    def __str__(self) -> str:
        """Return the message alone: FileNotFoundError would format it as an errno tuple."""
        return str(self.args[0]) if self.args else ""


class WeightsError(BertFlowError, ValueError):
    """An encoder's weight files are damaged, incomplete or do not fit its config."""


class UnsupportedModelError(BertFlowError, ValueError):
    """The encoder is of an architecture or a variant this package does not implement."""


class CheckpointError(BertFlowError, ValueError):
    """A checkpoint is damaged, unfinished or belongs to another encoder or configuration."""


class WorkdirError(BertFlowError, ValueError):
    """An output folder is not empty, not writable or not a folder."""


class TrainingError(BertFlowError, ValueError):
    """Training cannot start or had to stop (a non-finite loss, too few rows)."""


class HubError(BertFlowError, OSError):
    """The Hugging Face Hub refused an upload, or could not be reached for one."""


class ProcessLostError(BertFlowError):
    """Another process of the run has ended, or cannot be reached any more."""


def shown(value: object) -> str:
    """Return a value as messages show it: on one line, and no longer than a line of text."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:  # of an array of any library
        return f"{type(value).__name__} of shape {list(shape)}"
    try:
        text = repr(value)
        if not isinstance(value, str):  # of which a repr is on one line, and blanks count
            text = " ".join(text.split())
    except Exception:  # of a class of the caller's, or an integer of too many digits
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def refusal(error: Exception) -> str:
    """Return why something could not be written: what the system says, or the error's first line.

    Libraries wrap the system's words in their own, some of them in many.
    """
    text = str(error).strip()
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO):
        if os.strerror(number) in text:
            return os.strerror(number)
    return text.splitlines()[0][:_SHOWN] if text else type(error).__name__


@contextlib.contextmanager
def not_hiding(error: BaseException | None) -> Iterator[None]:
    """Warn of a WorkdirError in what ends a context, instead of raising it over `error`."""
    try:
        yield
    except WorkdirError as failed:
        if error is None:
            raise
        _log.warning("%s", failed)
