"""Files of vectors that change, or hold something else than they say. Each test names the bug."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax.errors import DataError
from bertflow_jax.postprocess import vector_files
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
