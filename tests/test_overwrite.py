"""--overwrite of a folder in which not everything can be deleted. Each test names the bug."""

import os
import tempfile
from pathlib import Path

import pytest
from unprivileged import as_a_user

from bertflow_jax import cli
from bertflow_jax.errors import WorkdirError
from bertflow_jax.workdir import check_inputs_outside, clear_workdir, prepare_workdir

FILES = ("metrics.jsonl", "notes/a", "checkpoints/4/state/s", "checkpoints/9/state/s")


@pytest.fixture
def run():
    """The folder of a run, of the user who is to be refused."""
    with as_a_user(), tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve() / "run"
        for name in FILES:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("x")
        yield folder
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("checkpoints/9/state", 0o555, "{0}/s cannot be deleted ({0} is read-only), so nothing"),
        ("checkpoints", 0o555, "{0}/4 cannot be deleted ({0} is read-only), so nothing was"),
        ("checkpoints/9/state", 0o666, "{0}/s cannot be deleted ({0} is read-only), so nothing"),
        ("checkpoints/9", 0o333, "{0} cannot be deleted (Permission denied), so nothing was"),
        ("notes", 0o000, "{0} cannot be deleted (Permission denied), so nothing was; mend that"),
    ],
)
def test_nothing_is_deleted_where_not_all_can_be(run, name, mode, said):
    """metrics.jsonl and a step were gone when a read-only folder ended the deletion."""
    (run / name).chmod(mode)
    for act in (
        lambda: prepare_workdir(run, resume=False, overwrite=True),
        lambda: clear_workdir(run),
    ):
        with pytest.raises(WorkdirError) as caught:
            act()
        assert str(caught.value).startswith(f"--workdir={run}")
        assert said.format(run / name) in str(caught.value)
    (run / name).chmod(0o755)
    assert left(run) == sorted(FILES)


def test_the_row_of_the_page(run, capsys):
    """A message that has changed."""
    page = Path(__file__).parents[1] / "docs" / "errors.md"
    given = "| a run with a read-only folder, and --overwrite |"
    (row,) = [line for line in page.read_text("utf-8").splitlines() if given in line]
    (run / "checkpoints").chmod(0o555)
    assert cli._call(lambda: prepare_workdir(run, resume=False, overwrite=True)) == 2
    said = row.split("`")[1].replace("…run", str(run))
    assert capsys.readouterr().err == f"error: {said}\n"


def test_a_folder_of_checkpoints_that_cannot_be_listed(run):
    """A PermissionError of pathlib, with and without --overwrite and --resume."""
    (run / "checkpoints").chmod(0o000)
    for overwrite in (False, True):
        with pytest.raises(WorkdirError, match=r"is not empty|checkpoints cannot be .*denied"):
            prepare_workdir(run, resume=False, overwrite=overwrite)
    (run / "metrics.jsonl").unlink()
    (run / "notes" / "a").rename(run / "metrics.jsonl")
    (run / "notes").rmdir()
    with pytest.raises(WorkdirError, match=f"^{run}/checkpoints cannot be read: Permission denied"):
        prepare_workdir(run, resume=False, overwrite=False)


def test_what_can_be_deleted_is(run):
    """A refusal of an empty folder that is read-only, or of what a link leads to."""
    (run / "notes" / "a").unlink()
    (run / "notes").chmod(0o555)
    fixed = run.parent / "fixed"
    fixed.mkdir()
    (fixed / "mine").touch()
    fixed.chmod(0o555)
    (run / "link").symlink_to(fixed)
    try:
        clear_workdir(prepare_workdir(run, resume=False, overwrite=True))
        assert list(run.iterdir()) == []
        assert (fixed / "mine").exists()
    finally:
        fixed.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can be two users")
def test_a_sticky_folder_with_a_file_of_another(run):
    """Found out half way, as with a folder that is read-only."""
    (run / "notes").chmod(0o1777)
    run.parent.chmod(0o755)
    os.seteuid(0)
    os.chown(run / "notes" / "a", 12345, 12345)
    os.chown(run / "notes", 12345, 12345)
    os.seteuid(65534)
    with pytest.raises(WorkdirError, match=f"{run}/notes/a .*belongs to another user.* sticky"):
        clear_workdir(run)
    os.seteuid(0)
    os.chown(run / "notes", 65534, 65534)
    os.chown(run / "notes" / "a", 65534, 65534)
    os.seteuid(65534)
    assert left(run) == sorted(FILES)


@pytest.mark.parametrize("other", ["elsewhere.tsv", "run/notes/a", "none", " "])
def test_an_input_in_a_list_is_no_less_an_input(run, other):
    """Files of pairs, several in one field, were deleted: there is no file of the whole name."""
    (run.parent / "elsewhere.tsv").touch()
    mine = f"{run}/notes/a"
    for given in (f"{run.parent}/{other},{mine}", f"{mine}, {run.parent}/{other}"):
        with pytest.raises(WorkdirError, match=f"{run} --overwrite would delete data.path={mine}$"):
            check_inputs_outside(run, {"encoder.path": "mini_bert", "data.path": given})
    check_inputs_outside(run, {"data.path": f"{run.parent}/elsewhere.tsv,{run.parent}/none"})


def test_a_comma_in_the_name_of_a_file(run):
    """A file that is there is meant as a whole, and is no list."""
    (run.parent / "x,run").mkdir()
    check_inputs_outside(run, {"data.path": f"{run.parent}/x,run"})
    (run / "a,b.txt").touch()
    with pytest.raises(WorkdirError, match=r"would delete data\.path=.*/run/a,b\.txt$"):
        check_inputs_outside(run, {"data.path": f"{run}/a,b.txt"})
