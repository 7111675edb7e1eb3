"""Links among the inputs, and folders of outputs that are in the way; without Ray."""

import os
import shutil

import numpy as np
import pytest

from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError, WorkdirError
from bertflow_jax.integrations.ray_inputs import find_inputs, open_place, read_rows
from bertflow_jax.integrations.ray_manifest import check_output, take_over
from bertflow_jax.integrations.ray_outputs import PIECES, Store
from bertflow_jax.integrations.ray_worker import with_vectors

pyarrow = pytest.importorskip("pyarrow", reason="the files are Parquet")
from pyarrow import parquet  # noqa: E402


@pytest.fixture
def source(tmp_path):
    """A folder with a.parquet and x/b.parquet."""
    (tmp_path / "in" / "x").mkdir(parents=True)
    for name in ("a", "x/b"):
        table = pyarrow.table({"text": [f"row {i}" for i in range(6)]})
        parquet.write_table(table, tmp_path / "in" / f"{name}.parquet")
    return tmp_path / "in"


def names(given):
    return [file.name for file in find_inputs(open_place(str(given), "--input"))[0]]


@pytest.mark.parametrize("glob", ["", "/*.parquet", "/**/*.parquet", "/[a-c].parquet"])
def test_a_link_to_nothing_is_not_passed_over(source, glob):
    """A job that is done, without the rows of a file whose disk is not mounted."""
    (source / "c.parquet").symlink_to("../disk/c.parquet")
    with pytest.raises(
        DataNotFoundError, match=rf"^{source}/c\.parquet is a link to \.\./disk/c\.parquet, which"
    ):
        names(f"{source}{glob}")


def test_links_that_are_no_inputs_do_not_matter(source):
    for name in ("_c.parquet", ".c.parquet", "c.csv", "x/_c.parquet"):
        (source / name).symlink_to("none")
    (source / "_hidden").symlink_to(".")
    (source / "x" / "c.parquet").symlink_to("none")
    assert names(f"{source}/*.parquet") == ["a.parquet"]


@pytest.mark.parametrize("name", [b"\xff.parquet", b"d\xfe/b.parquet"])
@pytest.mark.parametrize("glob", ["", "/**/*.parquet"])
def test_an_input_whose_name_is_no_text_is_named(source, name, glob):
    """A UnicodeDecodeError of pyarrow, which cannot hold such a name."""
    path = os.path.join(os.fsencode(source), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copy(os.fsencode(source / "a.parquet"), path)
    with pytest.raises(DataError, match="the path is not valid UTF-8") as caught:
        names(f"{source}{glob}")
    assert str(caught.value).startswith(os.fsdecode(path))
    if glob == "":
        with pytest.raises(ConfigError, match=r"^--input=.*: the path .* is not valid UTF-8"):
            names(os.fsdecode(os.path.dirname(path) + b"/\xfd"))


def test_other_files_whose_names_are_no_text_do_not_matter(source):
    for name in (b"\xff.csv", b"_\xff.parquet", b"x/.\xfe"):
        shutil.copy(source / "a.parquet", os.path.join(os.fsencode(source), name))
    assert names(source) == ["a.parquet", "x/b.parquet"]
    assert names(f"{source}/*.parquet") == ["a.parquet"]


def test_an_output_that_holds_a_name_that_is_no_text(tmp_path):
    os.mkdir(tmp_path / "out")
    with open(os.fsencode(tmp_path / "out") + b"/\xff", "wb"):
        pass
    with pytest.raises(WorkdirError, match="holds \udcff, which no job"):
        check_output(open_place(str(tmp_path / "out"), "--output"))


def test_links_to_files_and_folders_are_followed(source, tmp_path):
    shutil.move(source / "x", tmp_path / "elsewhere")
    (source / "x").symlink_to(tmp_path / "elsewhere")
    (source / "y.parquet").symlink_to("a.parquet")
    assert names(source) == ["a.parquet", "x/b.parquet", "y.parquet"]


@pytest.mark.parametrize(("link", "to"), [("self", "."), ("x/up", ".."), ("x/far", "../../in")])
def test_a_link_in_a_circle_is_named(source, link, to):
    """Each file forty times, as often as the system follows the link, under forty names."""
    (source / link).symlink_to(to)
    with pytest.raises(DataError, match=rf"^{source}/{link} is a link to {to}, a folder that it"):
        names(source)
    assert names(f"{source}/*.parquet") == ["a.parquet"]


def test_two_links_in_a_circle(source, tmp_path):
    (tmp_path / "other").mkdir()
    (source / "there").symlink_to("../other")
    (tmp_path / "other" / "back").symlink_to("../in")
    with pytest.raises(DataError, match="/there/back is a link to"):
        names(source)


def test_what_pyarrow_says_is_one_line(source):
    """Two lines and a blank one for a page that is damaged."""
    path = source / "a.parquet"
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read as Parquet: [^\n]+$"):
        read_rows(open_place("/", "").filesystem, str(path), ["text"], 0, 6)


def store_of(source):
    place = open_place(str(source.parent / "out"), "--output")
    return Store(place, {"encoder": "one"}, "embedding"), find_inputs(
        open_place(str(source), "--input")
    )[0]


def test_a_folder_where_an_output_goes(source):
    """An hour of embedding, and then "Is a directory"."""
    store, files = store_of(source)
    os.makedirs(store.output(files[0]))
    with pytest.raises(WorkdirError, match=r"out/a\.parquet is a folder, and vectors go there"):
        take_over(store, files, {})
    os.rmdir(store.output(files[0]))
    take_over(store, files, {})


def test_pieces_that_cannot_be_read(source):
    """NotADirectoryError, with a traceback."""
    store, files = store_of(source)
    os.makedirs(f"{store.place.path}/{PIECES}")
    (source.parent / "out" / PIECES / "a.parquet").write_text("a file")
    with pytest.raises(WorkdirError, match=r"_pieces/a\.parquet cannot be read or cleared: "):
        store.pieces(files[0])
    vectors = with_vectors(
        pyarrow.table({"id": range(6)}), np.ones((6, 2), np.float32), "embedding"
    )
    with pytest.raises(WorkdirError, match=r"_pieces/a\.parquet/.* cannot be written: "):
        store.write_piece(files[0], 0, vectors)
