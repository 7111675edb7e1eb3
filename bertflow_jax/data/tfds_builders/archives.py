"""Fetching the archives of a release: through TFDS's download manager, unpacked by Python itself.

TFDS unpacks archives with TensorFlow's file functions, so `download_and_extract` fails where
TensorFlow is not installed; its downloads do not need it.
"""

import logging
import lzma
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bertflow_jax.data.json_files import read_json_object
from bertflow_jax.data.lines import read_lines
from bertflow_jax.data.sts_files import folder_name
from bertflow_jax.data.tfds_builders import UNFINISHED
from bertflow_jax.errors import DataError
from bertflow_jax.made_folders import make_folder
from bertflow_jax.output_places import check_ways, refuse_link

_LOG = logging.getLogger(__name__)
_PATIENCE = 30.0  # seconds until a silent host counts as not there
# RuntimeError: an encrypted member; NotImplementedError, one of its kinds: an unknown compression.
_UNREADABLE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
)
_LARGEST = 2**28  # bytes; the releases have a few million
_NO_HEAD = (403, 405, 501)  # answers of hosts that only know GET


def mirrored(url: str, mirror: str) -> str:
    """Return where an archive is fetched from: the mirror's file of the same name, or `url`."""
    return f"{mirror.rstrip('/')}/{url.rpartition('/')[2]}" if mirror else url


def read_checksums(path: Path) -> dict[str, Any]:
    """Return address -> tfds UrlInfo of a file of lines `address<TAB>bytes<TAB>sha256<TAB>name`.

    Raises:
      DataError, DataNotFoundError: naming file and line.
    """
    from tensorflow_datasets.core.download.checksums import UrlInfo
    from tensorflow_datasets.core.utils import Size

    infos = {}
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split("\t")
        good = len(fields) == 4 and re.fullmatch("[0-9]{1,18}", fields[1], re.ASCII)
        if not good or not re.fullmatch("[0-9a-fA-F]{64}", fields[2]):
            raise DataError(
                f"{path}, line {number}: address, bytes, sha256 and file name are needed, "
                "separated by tabs (--checksums)"
            )
        infos[fields[0]] = UrlInfo(
            size=Size(int(fields[1])), checksum=fields[2].lower(), filename=fields[3]
        )
    return infos


def fetch(dl_manager: Any, task: str, urls: Sequence[str], folder: str) -> Path:
    """Download archives, or take them from an earlier download, and unpack them into one folder.

    Args:
      dl_manager: tfds.download.DownloadManager.
      task: whose archives they are.
      urls: of .zip or .tar.gz files.
      folder: of the data inside the archives; "" where they lie at the top.

    Returns:
      The data in SentEval's layout: `unpacked/`, in the folder of downloads, holds the task under
      its name there, and so can be read like any other folder of STS data.

    Raises:
      DataError: naming the address: not reached, refused, another checksum than the registered
        one, or an archive that cannot be unpacked (then it is deleted, so that the next run
        fetches it anew).
    """
    downloads = Path(dl_manager.download_dir)
    target = downloads / "unpacked" / folder_name(task)
    check_ways(target.parent, str(target))
    refuse_link(target, str(target))
    for url in urls:
        if not _is_downloaded(downloads / task, url):
            _LOG.info("%s: downloading %s", task, url)
            _check_reachable(url)
    paths = [Path(_download(dl_manager, url)) for url in urls]
    make_folder(target.parent)
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=target.parent) as temporary:
        for url, path in zip(urls, paths, strict=True):
            unpack(url, path, Path(temporary))
        data = Path(temporary) / folder
        if not data.is_dir():
            raise _failed(
                ", ".join(urls),
                f"the archive holds no folder {folder} (to download it anew, delete "
                f"{downloads / task})",
            )
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(data, target)
    return target.parent


def _is_downloaded(folder: Path, url: str) -> bool:
    # Beside each download TFDS notes the addresses it came from.
    return any(url in read_json_object(note).get("urls", ()) for note in folder.glob("*.INFO"))


def _check_reachable(url: str) -> None:
    """Ask for the header first: TFDS itself would try a host that is not there for minutes."""
    import requests

    try:
        answer = requests.head(url, timeout=_PATIENCE, allow_redirects=True)
    except requests.RequestException as error:
        # Around the reason the libraries lay their own: each names the address, and its pools.
        reason: BaseException = error
        while reason.__context__ is not None:
            reason = reason.__context__
        why = " ".join(str(reason).split())  # of a host that speaks no HTTP it ends with a line end
        raise _failed(url, f"not reached ({why})") from error
    if answer.status_code >= 400 and answer.status_code not in _NO_HEAD:
        raise _failed(url, f"the host answers {answer.status_code} {answer.reason}")


def _download(dl_manager: Any, url: str) -> Any:
    import requests
    from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError
    from tensorflow_datasets.core.download.util import DownloadError

    try:
        return dl_manager.download(url)
    except NonMatchingChecksumError as error:
        raise _failed(url, f"the file is not the registered one: {error}") from error
    except (requests.RequestException, DownloadError, OSError) as error:
        raise _failed(url, str(error)) from error


def unpack(url: str, path: Path, target: Path) -> None:
    """Unpack an archive into a folder, below which everything stays.

    Args:
      url: where it came from, for messages.
      path: of the archive, .zip or .tar.gz.
      target: the folder.

    Raises:
      DataError: it cannot be unpacked; then it is deleted.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                _check_size(member.file_size for member in archive.infolist())
                archive.extractall(target)
        else:
            with tarfile.open(path) as archive:
                _check_size(member.size for member in archive)
                archive.extractall(target, filter="data")
    except _UNREADABLE as error:
        # The note beside it too: TFDS refuses another content for a noted address.
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.INFO").unlink(missing_ok=True)
        raise _failed(url, f"what came cannot be unpacked ({error}); it is deleted") from error


def _check_size(sizes: Iterable[int]) -> None:
    """Raise ValueError once the unpacked files together are larger than any release."""
    total = 0
    for size in sizes:
        total += size
        if total > _LARGEST:
            raise ValueError(f"its files have more than {_LARGEST} bytes, as no release has")


def _failed(url: str, what: str) -> DataError:
    return DataError(
        f"{url}: {what}. Try again, name another place of the same archives with --mirror=URL, or "
        "fetch the files by hand and give --manual_dir=DIR"
    )
