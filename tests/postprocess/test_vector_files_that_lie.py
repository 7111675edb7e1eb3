"""Files of vectors that change, or hold something else than they say. Each test names the bug."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import NATSV, Reduce, Standardize, Whitening
from bertflow_jax.errors import DataError, InputError
from bertflow_jax.postprocess import Center, vector_files
from bertflow_jax.postprocess.fit_files import FitOptions, run_fit_files
from bertflow_jax.postprocess.vector_files import open_vectors

D = 6


def rows(n=100, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D)).astype(np.float32)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Blocks of 7 rows in a folder of their own."""
    monkeypatch.setattr(vector_files, "_BLOCK_ROWS", 7)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, vectors):
    if path.endswith(".npy"):
        np.save(path, vectors)
    else:
        pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        made = pyarrow.table({"vector": pyarrow.array(list(vectors))})
        pytest.importorskip("pyarrow.parquet").write_table(made, path, row_group_size=10)


def replace(path):
    """As a job does that ends: another file of the same name and shape."""
    write(f"new-{path}", rows(seed=1))
    os.replace(f"new-{path}", path)


def overwrite(path):
    """The same file with other numbers, its size and all its names kept."""
    content = Path(path).read_bytes()
    state = os.stat(path)
    with open(path, "r+b") as file:
        file.write(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))


def remove(path):
    os.remove(path)


@pytest.mark.parametrize("change", [replace, overwrite, remove])
@pytest.mark.parametrize("path", ["v.npy", "v.parquet"])
@pytest.mark.parametrize("after", [0, 3])
def test_a_file_that_changes_while_it_is_read(path, change, after):
    """Bug: rows of the old file followed by rows of the new one, both of the same shape."""
    write(path, rows())
    vectors, read = open_vectors(Path(path)), []
    if not after:
        change(path)

    def read_all():
        for block in vectors.blocks():
            read.append(block.vectors)
            if len(read) == after:
                change(path)

    with pytest.raises(DataError, match=f"{path} changed while it was read; start again"):
        read_all()
    np.testing.assert_array_equal(np.concatenate([rows(0), *read]), rows()[: 7 * after])


def test_a_file_that_changes_while_a_block_is_copied(monkeypatch):
    """Bug: the last block, after which nothing is mapped that could tell."""
    np.save("v.npy", rows(5))
    vectors = open_vectors(Path("v.npy"))
    mapped = vectors.mapped

    def late():
        array = mapped()
        replace("v.npy")
        return array

    monkeypatch.setattr(vectors, "mapped", late)
    with pytest.raises(DataError, match=r"v\.npy changed while it was read"):
        next(vectors.blocks())


def write_parts(*listed):
    """A folder of two parts of 50 rows, and an index of these (file, start, stop)."""
    os.mkdir("parts")
    for i in range(2):
        np.save(f"parts/part-{i}.npy", rows()[50 * i : 50 * (i + 1)])
    parts = [{"file": f"part-{i}.npy", "start": start, "stop": stop} for i, start, stop in listed]
    Path("parts/index.json").write_text(json.dumps({"parts": parts}))


@pytest.mark.parametrize("n", [30, 51])
@pytest.mark.parametrize("i", [0, 1])
def test_a_part_of_other_rows_than_its_index_says(i, n):
    """Bug: all later rows under the numbers of other texts."""
    write_parts((0, 0, 50), (1, 50, 100))
    blocks = open_vectors(Path("parts")).blocks()
    np.testing.assert_array_equal(np.concatenate([b.vectors for b in blocks]), rows())
    np.save(f"parts/part-{i}.npy", rows(n))
    words = rf"part-{i}\.npy holds {n} vectors, parts/index\.json says 50"
    with pytest.raises(DataError, match=words):
        open_vectors(Path("parts"))


def test_a_part_that_is_listed_twice():
    """Bug: the rows of one part in the place of another's."""
    write_parts((0, 0, 50), (0, 50, 100))
    with pytest.raises(DataError, match=r"index\.json lists part-0\.npy twice"):
        open_vectors(Path("parts"))


@pytest.mark.parametrize("name", ["\ud800.npy", "a\0.npy"])
def test_a_part_that_no_file_can_be_called(name):
    """The fuzz run's find: UnicodeEncodeError for half of a surrogate pair."""
    write_parts((0, 0, 50))
    Path("parts/index.json").write_text(
        json.dumps({"parts": [{"file": name, "start": 0, "stop": 50}]})
    )
    with pytest.raises(DataError, match=r"index\.json lists no parts that follow each other"):
        open_vectors(Path("parts"))


@pytest.mark.parametrize("rest", ["array", "byte"])
def test_bytes_behind_the_array(rest):
    """Bug: the second of two arrays that were saved into one file was left out."""
    with open("v.npy", "wb") as file:
        np.save(file, rows())
        if rest == "array":
            np.save(file, rows(7))
        else:
            file.write(b"\n")
    count = 1 if rest == "byte" else 128 + 7 * D * 4
    words = rf"v\.npy holds {count} bytes behind its array of shape \[100, 6\]; save one array"
    with pytest.raises(DataError, match=words):
        open_vectors(Path("v.npy"))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", "CF")
def test_a_file_that_ends_with_its_array_is_read(version, order):
    """Bug: the length of the header miscounted, and every such file refused."""
    with open("v.npy", "wb") as file:
        np.lib.format.write_array(file, np.array(rows(), order=order), version=version)
    blocks = open_vectors(Path("v.npy")).blocks()
    np.testing.assert_array_equal(np.concatenate([block.vectors for block in blocks]), rows())


@pytest.mark.parametrize("path", ["v.npy", "v.parquet"])
@pytest.mark.parametrize(
    "method", ["whitening", "standardize", "center", "natsv", "reduce", "flow"]
)
@pytest.mark.parametrize("value", [1e100, -1e39, 1e308])
def test_a_number_beyond_float32(here, path, method, value):
    """Bug: a fit decided by one damaged row, or an error after it that names no file."""
    far = rows().astype(np.float64)
    far[23, 2] = value
    write(path, far)
    settings = {"k": 2} if method == "reduce" else {"steps": 1} if method == "flow" else {}
    said = rf"{path}, row 23: holds {value:g}, beyond float32".replace("+", r"\+")
    with pytest.raises(DataError, match=said):
        run_fit_files(FitOptions(method, path, "model", settings=settings))
    assert not list((here / "model").glob("*.json"))


def test_a_row_that_its_own_fit_cannot_map(here):
    """Bug: refused once the map was saved, by its number in a sample."""
    far = np.full((9, D), -3.3e38)
    far[6] = 3.3e38  # 5.9e38 from the mean
    np.save("v.npy", far)
    with pytest.raises(DataError, match=r"v\.npy, row 6: what center makes of it is beyond float3"):
        run_fit_files(FitOptions("center", "v.npy", "model"))
    assert not list((here / "model").glob("*.json"))


@pytest.mark.parametrize("kind", [Center, Standardize, Whitening, NATSV, lambda: Reduce(2)])
def test_float32_bounds_what_is_fitted_and_mapped(kind):
    """Bug: as above, from Python. The largest number of float32 is one."""
    u = rows().astype(np.float64)
    good = kind().fit(u)
    for largest in (1e39, float(np.finfo(np.float32).max) * 1.001):
        far = u.copy()
        far[23, 2] = -largest
        for call in (kind().fit, good.transform):
            with pytest.raises(InputError, match="embedding row 23 is not finite as float32"):
                call(far)
    u[23, 2] = np.finfo(np.float32).max
    assert kind().fit(u).features == D


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("left", [1, 100])
def test_a_file_that_is_cut_short(here, version, left):
    """Bug: "mmap length is greater than file size"."""
    with open("v.npy", "wb") as file:
        np.lib.format.write_array(file, rows(), version=version)
    size = os.path.getsize("v.npy")
    os.truncate("v.npy", size - left)
    said = (
        rf"v\.npy is cut short: it has {size - left} bytes, and {size} are needed for the array "
        r"float32\[100, 6\] of its header; copy it again, or write it anew$"
    )
    with pytest.raises(DataError, match=said):
        open_vectors(Path("v.npy"))
    os.truncate("v.npy", 30)  # within the header
    with pytest.raises(DataError, match=r"v\.npy cannot be read as \.npy: EOF"):
        open_vectors(Path("v.npy"))


def test_a_part_that_is_cut_short(here):
    """Bug: as above."""
    (here / "parts").mkdir()
    np.save("parts/0.npy", rows())
    index = {"parts": [{"file": "0.npy", "start": 0, "stop": 100}]}
    (here / "parts" / "index.json").write_text(json.dumps(index))
    os.truncate("parts/0.npy", 1000)
    with pytest.raises(DataError, match=r"parts/0\.npy is cut short: it has 1000 bytes, and 2528"):
        open_vectors(Path("parts"))
