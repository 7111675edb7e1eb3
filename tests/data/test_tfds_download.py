"""Downloads of the STS releases, from a server on this machine. Each test names the bug it catches."""

import functools
import hashlib
import http.server
import socket
import threading
import time
import zipfile

import pytest
from sts_made import write_archives, write_senteval

from bertflow_jax.data.sts import load_task
from bertflow_jax.data.tfds_builders.archives import mirrored
from bertflow_jax.data.tfds_builders.prepare import prepare
from bertflow_jax.data.tfds_builders.releases import RELEASES
from bertflow_jax.errors import DataError

SPLITS = {"sts16": ("test",), "stsb": ("train", "dev", "test"), "sickr": ("train", "dev", "test")}


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.fetched.append(self.path)
        super().do_GET()


@pytest.fixture
def server(tmp_path):
    """A server of the made archives: `.url`, `.folder`, `.fetched` (paths that were downloaded)."""
    folder = write_archives(tmp_path / "archives")
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        serving.fetched = []
        serving.folder = folder
        serving.url = f"http://127.0.0.1:{serving.server_port}"
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def fetch(server, tmp_path, *tasks, **options):
    return prepare(tasks, tmp_path / "tfds", mirror=server.url, check_sizes=False, **options)


def test_archives_give_the_task_of_the_text_files(server, tmp_path):
    # Bug: the file names of 2016, the folder inside an archive or one of SICK's three is missed;
    # what an archive holds besides is read as a subset.
    fetch(server, tmp_path, *SPLITS)
    text = write_senteval(tmp_path / "text")
    unpacked = tmp_path / "tfds" / "downloads" / "unpacked"
    for task, splits in SPLITS.items():
        digest = load_task(task, text, splits).sha256
        assert load_task(task, f"tfds:{tmp_path / 'tfds'}", splits).sha256 == digest
        assert load_task(task, unpacked, splits).sha256 == digest
    assert len(server.fetched) == 5


def test_a_second_preparation_downloads_nothing(server, tmp_path):
    # Bug: every try fetches again, so that it fails where the network is gone.
    fetch(server, tmp_path, "sickr")
    first = list(server.fetched)
    fetch(server, tmp_path, "sickr", overwrite=True)
    assert server.fetched == first
    server.shutdown()
    server.server_close()
    fetch(server, tmp_path, "sickr", overwrite=True)


def test_sizes_of_downloads_are_checked(server, tmp_path):
    # Bug: the check only for files fetched by hand.
    with pytest.raises(
        DataError, match=r"not the published stsb.*train 2 .*anew, delete .*downloads/stsb"
    ):
        prepare(["stsb"], tmp_path / "tfds", mirror=server.url)


def test_a_missing_archive_names_its_address(server, tmp_path):
    # Bug: a traceback of the downloader; the other archives of the release fetched in vain.
    (server.folder / "sick_trial.zip").unlink()
    with pytest.raises(DataError, match=r"/sick_trial\.zip: the host answers 404 .*--manual_dir"):
        fetch(server, tmp_path, "sickr")
    assert not (tmp_path / "tfds" / "sickr").exists()
    assert server.fetched == []


def test_a_host_that_is_not_there_is_told_at_once(tmp_path):
    # Bug: TFDS tries such a host ten times, waiting longer each time: three minutes of silence.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    waits = []
    real = time.sleep
    time.sleep = waits.append
    try:
        with pytest.raises(DataError, match=r"zip: not reached \(\[Errno \d+\] [^()]*\)\."):
            prepare(["sts16"], tmp_path / "tfds", mirror=url)
    finally:
        time.sleep = real
    assert sum(waits) < 1


def test_a_host_that_speaks_another_protocol_is_one_line(tmp_path):
    # Bug: what it said went into the message with its line end.
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()

        def greet():
            asked, _ = other.accept()
            with asked:
                asked.recv(1000)
                asked.sendall(b"hello\r\n\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(DataError, match=r"zip: not reached \(hello\)\. Try again"):
            prepare(["sts16"], tmp_path / "tfds", mirror=url)
        thread.join()


def test_a_broken_archive_is_fetched_anew(server, tmp_path):
    # Bug: an error page or half an archive stays in the cache and fails for ever.
    path = server.folder / "Stsbenchmark.tar.gz"
    good = path.read_bytes()
    for bad in (good[: len(good) // 2], b"<html>please log in</html>", b""):
        path.write_bytes(bad)
        with pytest.raises(DataError, match=r"Stsbenchmark\.tar\.gz: what came cannot be unpacked"):
            fetch(server, tmp_path, "stsb")
    path.write_bytes(good)
    fetch(server, tmp_path, "stsb")
    assert load_task("stsb", f"tfds:{tmp_path / 'tfds'}").pairs == 2


def test_another_checksum_is_refused(server, tmp_path):
    # Bug: a file of checksums that nothing is compared with.
    name = "STS2016-en-test.zip"
    data = (server.folder / name).read_bytes()
    sums = tmp_path / "checksums.tsv"

    def write(sha):
        sums.write_text(f"{server.url}/{name}\t{len(data)}\t{sha}\t{name}\n")

    write("0" * 64)
    with pytest.raises(DataError, match=rf"{name}: the file is not the registered one"):
        fetch(server, tmp_path, "sts16", checksums=str(sums))
    write(hashlib.sha256(data).hexdigest())
    fetch(server, tmp_path, "sts16", checksums=str(sums))
    sums.write_text("x y z\n")
    with pytest.raises(DataError, match=r"checksums\.tsv, line 1: address, bytes, sha256"):
        fetch(server, tmp_path, "sts16", checksums=str(sums), overwrite=True)


@pytest.mark.parametrize("damage", ["encrypted", "compression"])
def test_an_archive_that_python_cannot_unpack_is_fetched_anew(server, tmp_path, damage):
    # Bug: RuntimeError and NotImplementedError as tracebacks, at every try from the cached file.
    path = server.folder / "STS2016-en-test.zip"
    good = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    bad = bytearray(good)
    central = good.index(b"PK\x01\x02")
    for at in (members[0].header_offset + 6, central + 8):
        if damage == "encrypted":
            bad[at] |= 1  # bit 0 of the flags
        else:
            bad[at + 2] = 99  # the compression method
    path.write_bytes(bad)
    words = {"encrypted": "encrypted", "compression": "compression method"}[damage]
    with pytest.raises(DataError, match=rf"test\.zip: what came cannot be unpacked .*{words}"):
        fetch(server, tmp_path, "sts16")
    path.write_bytes(good)
    fetch(server, tmp_path, "sts16")
    assert load_task("sts16", f"tfds:{tmp_path / 'tfds'}").pairs > 0


def test_a_file_that_the_archive_lacks_names_the_archive(server, tmp_path):
    # Bug: the message named a folder of the cache, not the archive that must be replaced.
    with zipfile.ZipFile(server.folder / "sick_trial.zip", "w") as archive:
        archive.writestr("readme.txt", "r")
    words = r"SICK_trial\.txt.*unpacked from .*/sick_trial\.zip.*anew, delete .*downloads/sickr"
    with pytest.raises(DataError, match=words):
        fetch(server, tmp_path, "sickr")


def test_an_archive_of_something_else_is_told(server, tmp_path):
    # Bug: FileNotFoundError of a temporary folder.
    with zipfile.ZipFile(server.folder / "STS2016-en-test.zip", "w") as archive:
        archive.writestr("other/readme.txt", "r")
    with pytest.raises(DataError, match=r"holds no folder sts2016-english-with-gs-v1\.0.*delete"):
        fetch(server, tmp_path, "sts16")


def test_an_archive_cannot_write_outside_its_folder(server, tmp_path):
    # Bug: ../ in the names of an archive from a mirror overwrites the user's files.
    with zipfile.ZipFile(server.folder / "sick_train.zip", "a") as archive:
        archive.writestr("../../../../escaped.txt", "x")
    fetch(server, tmp_path, "sickr")
    unpacked = tmp_path / "tfds" / "downloads" / "unpacked"
    assert all(unpacked in path.parents for path in tmp_path.rglob("escaped.txt"))


def test_addresses_are_the_organisers():
    # Bug: a mirror's name, or an archive of another year, in the table of releases.
    urls = [url for release in RELEASES.values() for url in release.archives]
    assert len(set(urls)) == 9
    for year in range(2012, 2017):
        (url,) = RELEASES[f"sts{year - 2000}"].archives
        assert url.endswith(f"/STS{year}-en-test.zip")
        assert url.startswith("http://ixa2.si.ehu.eus/stswiki/images/")
        assert mirrored(url, "http://m/x/") == f"http://m/x/STS{year}-en-test.zip"
        assert mirrored(url, "") == url
