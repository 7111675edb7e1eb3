"""Paths as users write them."""

import errno
import hashlib
import os
import stat
from pathlib import Path

from bertflow_jax.errors import ConfigError, WorkdirError, shown


def user_path(path: str | os.PathLike[str], name: str, *, reading: bool = True) -> Path:
    """Return the path with a leading `~` or `~user` expanded.

    Args:
      path: as given by the user.
      name: of the flag, field or argument it comes from, for the message.
      reading: whether what is there is read, and so must be readable; who writes sees for itself.

    Raises:
      ConfigError: no path at all, `-`, one that no file can have, `~user` of an unknown user; what
        is to be read may not be.
    """
    if isinstance(path, str) and path == "-":
        raise ConfigError(
            f"{name}=-: standard input is not read, and standard output not written; name a file "
            "or folder (./- for one of that name)"
        )
    try:
        expanded = Path(path)
        if not os.fspath(path).startswith("~"):
            if str(expanded).startswith("~"):  # of ./~, which is no home folder
                expanded = expanded.absolute()
        elif expanded.parts[0] == "~":
            expanded = home_folder() / Path(*expanded.parts[1:])
        else:
            expanded = expanded.expanduser()
    except TypeError as error:
        raise ConfigError(
            f"{name}={shown(path)}: a path is needed, not {type(path).__name__}"
        ) from error
    except RuntimeError as error:
        raise ConfigError(
            f"{name}={path}: the home folder that ~ stands for is not known; write the path out "
            "(./~ for a name that starts with ~)"
        ) from error
    try:
        os.fsencode(expanded)
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{name}={shown(path)}: a path cannot hold half of a surrogate pair"
        ) from error
    if "\0" in str(expanded):
        raise ConfigError(f"{name}={shown(path)}: a path cannot hold a zero byte")
    if reading:
        refuse_unreadable(expanded, f"{name}={path}")
    return expanded


def can_be_path(text: str) -> bool:
    """Whether a text, as of a JSON file, can name a file: no zero byte, no half of a surrogate."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def is_utf8(path: str) -> bool:
    """Whether all bytes of a path of this machine were text."""
    try:
        path.encode()
    except UnicodeEncodeError:  # the bytes that Python could not decode
        return False
    return True


def refuse_unreadable(path: Path, given: str) -> None:
    """Raise ConfigError, which begins with `given`, where a file or folder may not be read.

    Of a folder that cannot be listed nothing would be found in it, and of a path below one that
    cannot be searched nothing at all: both would be reported as absent, or end with a traceback.
    What is not there is another's to tell.
    """
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            os.scandir(path).close()
            os.stat(f"{path}/.")
        elif stat.S_ISREG(mode) and not may(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except PermissionError as error:
        # A relative name may be no path but one of the Hub's, of which any folder will do.
        if path.is_absolute() or may(os.curdir, os.X_OK):
            raise ConfigError(
                f"{given} cannot be read: {error.strerror}{_shut(path)}; mend its permissions (a "
                "folder needs r and x), or name another"
            ) from error
    except OSError:
        return


def _shut(path: Path) -> str:
    """Return which folder above a path cannot be searched, for a message; "" for none."""
    for folder in reversed(path.absolute().parents):
        if os.path.isdir(folder) and not may(folder, os.X_OK):
            return f" (in {folder})"
    return ""


def may(path: str | os.PathLike[str], what: int) -> bool:
    """Whether this process may do something (os.R_OK, ...) with what is at a path."""
    return os.access(path, what, effective_ids=os.access in os.supports_effective_ids)


def file_kind(path: Path) -> str:
    """Return `file`, `folder`, `other` (a pipe, a device), `absent`, or what forbids to look.

    `Path.is_file` raises where the name is too long, and calls a pipe no file.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "absent"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def wrong_kind(path: Path) -> str | None:
    """Return what stands where a file is needed: `a folder`, `a pipe or a device`, or `unreadable`
    with the reason; None for a file, and where nothing is.
    """
    kind = file_kind(path)
    named = {"file": None, "absent": None, "folder": "a folder", "other": "a pipe or a device"}
    return named.get(kind, f"unreadable ({kind})")


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file, as `sha256sum` gives it; raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def output_path(path: str | os.PathLike[str], name: str) -> Path:
    """Return `user_path` of what is to be written; a Path would make a local folder "gs:" of a URL.

    Raises:
      WorkdirError: an address.
      ConfigError: as `user_path`.
    """
    if "://" in str(path):
        raise WorkdirError(f"{name}={path} is no file of this machine, and no other is written")
    return user_path(path, name, reading=False)


def is_device(path: Path) -> bool:
    """Return whether a path is of a device, such as /dev/zero, which may never end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def open_to_others(folder: Path) -> str:
    """Return why what lies in a folder may be another user's, or "" where it is this user's own.

    A cached program is run, and cached numbers are believed. To the superuser a folder of another
    user is one that was handed over, as a cache that a container is given.
    """
    try:
        status = os.stat(folder)
    except OSError:
        return ""
    if status.st_mode & stat.S_IWOTH:
        return "every user of this machine can write there"
    if os.geteuid() not in (0, status.st_uid) and status.st_uid != 0:
        return "it belongs to another user"
    return ""


def lost_folder() -> str:
    """Return why relative paths lead nowhere, and what to do; "" where there is a current folder.

    A shell stays in a folder that another process has deleted, or made anew under the same name.
    """
    try:
        os.getcwd()
    except OSError as error:
        return (
            f"the current folder is not there any more ({error.strerror}); go to one that is: "
            'cd "$PWD" where it was made anew, else cd to another'
        )
    return ""


def home_folder() -> Path:
    """Return the user's home folder, as HOME or else the system names it; it may not be there.

    Raises:
      RuntimeError: HOME is empty or relative, or nothing names one.
    """
    # Of an empty HOME pathlib makes the root of the file system, of a relative one the current
    # folder.
    given = os.environ.get("HOME")
    if given is not None and not os.path.isabs(given):
        raise RuntimeError(f"HOME={given}")
    return Path.home()


def default_cache_dir() -> Path:
    """Return the user's cache folder for this package ($XDG_CACHE_HOME or ~/.cache).

    A relative XDG_CACHE_HOME is ignored, as its specification says.

    Raises:
      ConfigError: the user has no home folder, as in a container without a user of that number, or
        one that is not there.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "bertflow_jax"
    try:
        home = home_folder()
        if file_kind(home) != "folder":
            raise RuntimeError(f"{home} is no folder")
    except RuntimeError as error:
        raise ConfigError(
            f"the home folder, where computed things are kept, is not known ({error}); set "
            "XDG_CACHE_HOME, or HOME, to a folder, as an absolute path"
        ) from error
    return home / ".cache" / "bertflow_jax"


def compilation_cache_dir() -> Path | None:
    """Return the folder of compiled programs that the environment names; None for none at all.

    BERTFLOW_COMPILATION_CACHE names it, or is `off` (or 0, no, false); without it, it lies in the
    user's cache folder.

    Raises:
      ConfigError: as `user_path` and `default_cache_dir`.
    """
    folder = os.environ.get("BERTFLOW_COMPILATION_CACHE", "").strip()
    if folder.lower() in ("off", "0", "no", "false"):
        return None
    if folder:
        return user_path(folder, "BERTFLOW_COMPILATION_CACHE", reading=False)
    return default_cache_dir() / "xla"
