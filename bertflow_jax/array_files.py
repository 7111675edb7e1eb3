"""Files of arrays: what may be wrong with one before its format matters, and safetensors."""

from pathlib import Path

import numpy as np
import safetensors

from bertflow_jax.data.json_files import LFS_POINTER, broken_link
from bertflow_jax.errors import WeightsError


def first_bytes(path: Path) -> bytes:
    """Return the first 64 bytes, refusing an empty file and a git-lfs pointer."""
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except FileNotFoundError:
        raise WeightsError(f"{path} is missing{broken_link(path)}") from None
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror or error})") from error
    if not start:
        raise WeightsError(f"{path} is empty; {_again(path)}")
    if start.startswith(LFS_POINTER):
        raise WeightsError(
            f"{path} is a git-lfs pointer, not the weights; run `git lfs pull` in its repository"
        )
    return start


def _again(path: Path) -> str:
    """Return what to do about a file that is not whole.

    The Hub's cache consists of links, and takes what one leads to as it is when asked again.
    """
    delete = f"delete {path.resolve()} and " if path.is_symlink() else ""
    return f"{delete}download it again"


def truncated(path: Path, detail: str) -> WeightsError:
    """Return the error of a file that ends too early."""
    size = path.stat().st_size
    return WeightsError(f"{path} is truncated ({size} bytes; {detail}); {_again(path)}")


def damaged(path: Path, detail: object) -> WeightsError:
    """Return the error of a file that holds something else than it should."""
    return WeightsError(f"{path} is damaged ({detail}); {_again(path)}")


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Read a safetensors file into {name: array as stored}.

    Raises WeightsError naming the file that is empty, truncated, damaged or a git-lfs pointer.
    """
    start = first_bytes(path)
    size, header_end = path.stat().st_size, 8 + int.from_bytes(start[:8], "little")
    if start[8:9] == b"{" and header_end > size:
        raise truncated(path, f"its header alone takes {header_end}")
    try:
        with safetensors.safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except AttributeError as error:
        raise damaged(path, f"a tensor type that numpy does not have ({error})") from error
    except safetensors.SafetensorError as error:
        if "not fully covered" in str(error):
            raise truncated(path, "its header describes another size") from error
        raise damaged(path, error) from error
