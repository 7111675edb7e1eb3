"""What could leave wrong vectors or ids behind with exit code 0: kills, other jobs, changed input."""

import json
import os
import signal

import numpy as np
import pytest

from bertflow_jax import embed_partial
from bertflow_jax.data.rows import RowFile, open_rows
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.embed_job import EmbedJob, run_job
from bertflow_jax.errors import BertFlowError, ConfigError, DataError, WorkdirError
from bertflow_jax.output_locks import same_job, sole_writer

WINDOW = 8


class Kill(BaseException):
    """What nothing in the code under test may catch."""


def _small_windows(encoder):
    stream = encoder.encode_stream
    encoder.encode_stream = lambda *args, **kwargs: stream(*args, **kwargs, window=WINDOW)
    return encoder


@pytest.fixture
def encoders(bert_folder):
    """Two encoders whose vectors differ."""
    made = (SentenceEncoder.from_pretrained(bert_folder(f"enc{i}", seed=i)) for i in (0, 1))
    return [_small_windows(encoder) for encoder in made]


def texts(count):
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice([*"abcdefgh", "the", "dog"], n)) for n in rng.integers(0, 9, count)]


@pytest.fixture
def job(tmp_path):
    def make(output, count=30, **fields):
        path = tmp_path / "in.txt"
        if not path.exists():
            path.write_text("".join(f"{text}\n" for text in texts(count)))
        return EmbedJob(open_rows(path), tmp_path / output, batch_size=4, **fields)

    return make


def _kill_at(monkeypatch, module, name, when=lambda *args: True):
    """Make a function of a module die in front of its work, and mend it again afterwards."""
    real = getattr(module, name)

    def killed(*args, **kwargs):
        if when(*args):
            monkeypatch.setattr(module, name, real)
            raise Kill
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, killed)


def _check_parts(folder, encoder, count):
    index = json.loads((folder / "index.json").read_text())
    assert index["encoder"] == encoder.describe()
    whole = np.concatenate([np.load(folder / part["file"]) for part in index["parts"]])
    np.testing.assert_allclose(whole, encoder.encode(texts(count)), atol=1e-5)


@pytest.mark.parametrize("place", ["rename", "sidecar", "clean"])
def test_a_kill_while_a_part_gets_its_name(encoders, job, monkeypatch, place):
    """The part of an older job passed for the new one's: its sidecar was written first."""
    first, second = encoders
    parts = job("parts", shard_rows=20)
    run_job(first, parts)
    if place == "rename":
        _kill_at(monkeypatch, os, "replace", lambda _, to: str(to).endswith("00000-of-00002.npy"))
    elif place == "sidecar":
        _kill_at(
            monkeypatch, embed_partial, "write_json_whole", lambda to, _: "part" in to.name[:4]
        )
    else:
        _kill_at(monkeypatch, embed_partial, "_delete")
    with pytest.raises(Kill):
        run_job(second, parts)
    assert run_job(second, parts) == 30
    _check_parts(parts.output, second, 30)


def test_an_index_of_mixed_parts(encoders, job, monkeypatch):
    """index.json of the older job stayed while the parts below it were replaced."""
    parts = job("parts", shard_rows=10)
    run_job(encoders[0], parts)
    assert (parts.output / "index.json").exists()
    _kill_at(
        monkeypatch,
        embed_partial.PartialPart,
        "append",
        lambda part, _: "00002" in str(part.vectors),
    )
    _kill_at(monkeypatch, os, "replace", lambda _, to: str(to).endswith("part-00001-of-00003.npy"))
    with pytest.raises(Kill):
        run_job(encoders[1], parts)
    assert not (parts.output / "index.json").exists()
    monkeypatch.undo()
    run_job(encoders[1], parts)
    _check_parts(parts.output, encoders[1], 30)
    # A part that is gone: the index goes before it is made again, and comes back with it.
    (parts.output / "part-00001-of-00003.npy").unlink()
    with monkeypatch.context() as patched:
        _kill_at(patched, embed_partial.PartialPart, "finish")
        with pytest.raises(Kill):
            run_job(encoders[1], parts)
    assert not (parts.output / "index.json").exists()
    run_job(encoders[1], parts)
    _check_parts(parts.output, encoders[1], 30)


@pytest.mark.parametrize("output", ["out.npy", "parts"])
def test_two_jobs_on_one_output(encoders, job, output):
    """The second one ended with exit code 0 and rows of the first in its file."""
    first, second = encoders
    stream, refused = first.encode_stream, []

    def with_another(*args, **kwargs):
        for window in stream(*args, **kwargs):
            with pytest.raises(WorkdirError, match="is being written by another job") as caught:
                run_job(second, job(output))
            refused.append(caught)
            with pytest.raises(WorkdirError, match="is being written by another job"):
                run_job(_small_windows(SentenceEncoder(first.encoder)), job(output))
            yield window

    first.encode_stream = with_another
    run_job(first, job(output))
    assert len(refused) == 4
    path = job(output).output
    path = path if output == "out.npy" else path / "part-00000-of-00001.npy"
    np.testing.assert_allclose(
        np.load(path), second.__class__(first.encoder).encode(texts(30)), atol=1e-5
    )
    first.encode_stream = stream
    assert run_job(second, job(output)) == 30
    assert not list(path.parent.glob(".*"))


def test_parts_of_another_job_are_told(encoders, job, caplog):
    """Shards with other settings: no index, "written when every part is there", and all were."""
    run_job(encoders[0], job("parts", processes=2))
    run_job(encoders[0], job("parts", processes=2, process=1, normalize=True))
    folder = job("parts").output
    assert not (folder / "index.json").exists()
    told = "of another job (part-00000-of-00002.npy was made with another normalize)"
    assert caplog.text.count(told) == 2  # before the work and after it
    caplog.clear()
    run_job(encoders[0], job("parts", processes=2, process=1))
    # The part that is replaced is named, before; the folder is whole afterwards.
    assert "holds 1 part(s) of another job (part-00001-of-00002.npy" in caplog.text
    assert "are there, but" not in caplog.text
    _check_parts(folder, encoders[0], 30)


def test_processes_of_one_job_share_a_folder(encoders, job):
    """A lock that kept another job out would keep the fellow processes out as well."""
    first = encoders[0]
    fellow = _small_windows(SentenceEncoder(first.encoder))
    stream = first.encode_stream

    def with_fellow(*args, **kwargs):
        windows = list(stream(*args, **kwargs))
        run_job(fellow, job("parts", process=1, processes=2))
        return iter(windows)

    first.encode_stream = with_fellow
    run_job(first, job("parts", process=0, processes=2))
    _check_parts(job("parts").output, fellow, 30)
    assert not list(job("parts").output.glob(".*"))


def test_locks(tmp_path):
    """A file left by a kill is no lock; a deleted lock file holds nobody out, and nobody in."""
    path = tmp_path / ".lock"
    with same_job(path, "one", "--output=x"):
        left = path.read_bytes()
    path.write_bytes(left)
    with same_job(path, "two", "--output=x"), same_job(path, "two", "--output=x"):
        with (
            pytest.raises(WorkdirError, match=r"--output=x is being written"),
            same_job(path, "three", "--output=x"),
        ):
            pass
        assert path.read_text().split() == ["bertflow_jax", "made", "two"]
    assert not path.exists()
    with sole_writer(path, "--output=x"):
        with pytest.raises(WorkdirError), sole_writer(path, "--output=x"):
            pass
        assert path.exists()
    assert not path.exists()


@pytest.mark.parametrize("output", ["out.npy", "out.parquet", "parts"])
def test_an_input_replaced_by_as_many_rows(encoders, job, tmp_path, monkeypatch, output):
    """New texts went under the digest of the old ones, with exit code 0."""
    survey = RowFile.survey

    def replaced(rows):
        known = survey(rows)
        rows.path.write_text("".join(f"{text}\n" for text in reversed(texts(30))))
        return known

    made = job(output)
    monkeypatch.setattr(RowFile, "survey", replaced)
    with pytest.raises(DataError, match=r"in\.txt changed while it was read: rows 0 to 29"):
        run_job(encoders[0], made)
    assert not list(tmp_path.rglob("part-*.npy"))
    assert not (tmp_path / output).is_file()


@pytest.mark.parametrize("change", ["longer", "shorter", "gone"])
def test_an_input_that_grows_shrinks_or_goes(encoders, tmp_path, monkeypatch, change):
    """512 rows are what is checked at once: rows behind whole blocks are seen too."""
    path, lines = tmp_path / "in.txt", ["a\n"] * 1024
    path.write_text("".join(lines))
    survey = RowFile.survey

    def changed(rows):
        known = survey(rows)
        path.write_text("".join([*lines, "b\n"] if change == "longer" else lines[:512]))
        if change == "gone":
            path.unlink()
        return known

    monkeypatch.setattr(RowFile, "survey", changed)
    encoders[0].encode_stream = SentenceEncoder(encoders[0].encoder).encode_stream
    words = r"in\.txt: no such file" if change == "gone" else r"in\.txt changed while it was read"
    with pytest.raises(BertFlowError, match=words) as caught:
        run_job(encoders[0], EmbedJob(open_rows(path), tmp_path / "out.npy", batch_size=64))
    assert "cannot be written" not in str(caught.value)
    assert not (tmp_path / "out.npy").exists()


def test_ids_that_change_after_the_texts_were_read(encoders, tmp_path, monkeypatch):
    """The ids are read in a pass of their own: new ones stood beside the old texts' vectors."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "in.tsv"
    path.write_text("i\tt\n" + "".join(f"{i}\ta\n" for i in range(20)))
    rows = open_rows(path, column="t", id_column="i")
    from bertflow_jax import embed_job

    write = embed_job.write_parquet

    def changed(*args):
        path.write_text("i\tt\n" + "".join(f"{i + 1}\ta\n" for i in range(20)))
        write(*args)

    monkeypatch.setattr(embed_job, "write_parquet", changed)
    with pytest.raises(DataError, match="changed while it was read"):
        run_job(encoders[0], EmbedJob(rows, tmp_path / "out.parquet", batch_size=4))
    assert not (tmp_path / "out.parquet").exists()


def test_output_that_is_the_input(tmp_path):
    """The vectors replaced the texts they were made of."""
    pytest.importorskip("pyarrow")
    (tmp_path / "d.npy").write_text("a\n")
    (tmp_path / "link.npy").symlink_to(tmp_path / "d.npy")
    (tmp_path / "there").symlink_to(tmp_path)
    for name in ("part-00000-of-00001.npy", "index.json", "mine.txt", ".lock"):
        (tmp_path / name).write_text("a\n")
    partial = tmp_path / ".out.npy.partial" / "vectors.npy"
    partial.parent.mkdir()
    partial.write_text("a\n")
    for source, output in [
        ("d.npy", "d.npy"),
        ("link.npy", "d.npy"),
        ("d.npy", "link.npy"),
        ("d.npy", "there/d.npy"),
        ("part-00000-of-00001.npy", "."),
        ("there/index.json", "."),
        (".lock", "there"),
        (".out.npy.partial/vectors.npy", "out.npy"),
    ]:
        rows = open_rows(tmp_path / source, "txt")
        with pytest.raises(ConfigError, match="would overwrite --input"):
            EmbedJob(rows, tmp_path / output).check()
    for name in ("index.json", ".lock"):  # of other software, which is refused by itself
        (tmp_path / name).unlink()
    EmbedJob(open_rows(tmp_path / "mine.txt"), tmp_path).check()
    EmbedJob(open_rows(tmp_path / "d.npy", "txt"), tmp_path / "out2.npy").check()


def _stopped(encoder, job, monkeypatch):
    """Run a job until two windows are written; return the folder of what there is."""
    count = iter(range(9))
    with monkeypatch.context() as patched:
        _kill_at(patched, embed_partial.PartialPart, "append", lambda *_: next(count) == 2)
        with pytest.raises(Kill):
            run_job(encoder, job)
    return job.output.parent / f".{job.output.name}.partial"


DEEP = "[" * 100_000
DAMAGES = {
    "cut": lambda v, _: os.truncate(v, 200),
    "cut in the header": lambda v, _: os.truncate(v, 50),
    "empty": lambda v, _: os.truncate(v, 0),
    "garbage": lambda v, _: v.write_bytes(b"x" * v.stat().st_size),
    "zeros": lambda v, _: v.write_bytes(v.read_bytes()[:128] + bytes(v.stat().st_size - 128)),
    "float64": lambda v, _: np.save(v, np.zeros((30, 16))),
    "wider": lambda v, _: np.save(v, np.zeros((30, 17), np.float32)),
    "folder": lambda v, _: (v.unlink(), v.mkdir()),
    "none": lambda v, _: v.unlink(),
    "record is a folder": lambda _, s: (s.unlink(), s.mkdir()),
    **{
        f"done is {str(done)[:9]}": lambda _, s, done=done: s.write_text(
            s.read_text().replace('"done": 16', f'"done": {done}')
        )
        for done in (24, 31, 99, -8, '"16"', 16.0, "null", "[16]", "9" * 5000, "true", DEEP)
    },
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_partial_is_made_again(encoders, job, monkeypatch, damage):
    """Rows of zeros with exit code 0, or an error at every start until someone deletes it."""
    made = job("out.npy")
    folder = _stopped(encoders[0], made, monkeypatch)
    assert '"done": 16,' in (folder / "done.json").read_text()
    DAMAGES[damage](folder / "vectors.npy", folder / "done.json")
    first_rows, stream = [], encoders[0].encode_stream

    def watched(*args, **kwargs):
        first_rows.append(kwargs.get("first_row"))
        return stream(*args, **kwargs)

    encoders[0].encode_stream = watched
    run_job(encoders[0], made)
    assert first_rows[:1] == [0]
    np.testing.assert_allclose(np.load(made.output), encoders[0].encode(texts(30)), atol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 128, 1000])
def test_a_part_that_is_not_whole_is_not_complete(encoders, job, size):
    """A finished part cut to one byte counted as complete."""
    parts = job("parts", shard_rows=20)
    run_job(encoders[0], parts)
    os.truncate(parts.output / "part-00000-of-00002.npy", size)
    run_job(encoders[0], parts)
    _check_parts(parts.output, encoders[0], 30)


def test_a_sidecar_that_is_no_json(encoders, job):
    """Deep nesting is a RecursionError, 5,000 digits a ValueError: tracebacks."""
    parts = job("parts", shard_rows=20)
    for content in (DEEP, "9" * 5000, '{"rows": ' + "9" * 5000 + "}"):
        run_job(encoders[0], parts)
        (parts.output / "part-00000-of-00002.json").write_text(content)
        (parts.output / "index.json").write_text(content)
    run_job(encoders[0], parts)
    _check_parts(parts.output, encoders[0], 30)


def test_parts_with_cut_texts_are_no_parts_without(encoders, job, tmp_path):
    """--on_overflow=error took over what an earlier run with cut texts had finished."""
    (tmp_path / "in.txt").write_text("a\n" * 10 + "dog " * 60 + "\n" + "b\n" * 19)
    run_job(encoders[0], job("parts", shard_rows=20))
    with pytest.raises(BertFlowError, match="longer than max_length=40"):
        run_job(encoders[0], job("parts", shard_rows=20, on_overflow="error"))


def test_parts_made_without_cutting_serve_where_it_is_allowed(encoders, job):
    """The other way round nothing is to be done again."""
    run_job(encoders[0], job("parts", shard_rows=20, on_overflow="error"))
    encoders[0].encode_stream = lambda *a, **k: pytest.fail("it started again")
    assert run_job(encoders[0], job("parts", shard_rows=20)) == 30


def test_ctrl_c_ends_a_job_after_the_window(encoders, job, monkeypatch):
    """Swallowed by a callback inside JAX, it did nothing; the rows of the window are kept."""
    before = signal.getsignal(signal.SIGINT)
    run_job(encoders[0], job("straight.npy"))
    stream = encoders[0].encode_stream

    def pressed(*args, **kwargs):
        for i, window in enumerate(stream(*args, **kwargs)):
            if i == 1:
                signal.raise_signal(signal.SIGINT)
            yield window

    encoders[0].encode_stream = pressed
    with pytest.raises(KeyboardInterrupt):
        run_job(encoders[0], job("out.npy"))
    state = job("out.npy").output.parent / ".out.npy.partial" / "done.json"
    assert json.loads(state.read_text())["done"] == 2 * WINDOW
    assert signal.getsignal(signal.SIGINT) is before
    encoders[0].encode_stream = stream
    run_job(encoders[0], job("out.npy"))
    assert job("out.npy").output.read_bytes() == job("straight.npy").output.read_bytes()


@pytest.mark.parametrize(
    ("output", "column", "message"),
    [
        ("v.npy", "id", "only a .parquet output"),
        ("parts", "id", "only a .parquet output"),
        ("v.csv", "", "into .npy or"),
    ],
)
def test_outputs_that_would_surprise(tmp_path, output, column, message):
    """Catches ids that are dropped without a word, and a folder called v.csv."""
    path = tmp_path / "in.tsv"
    path.write_text("id\ttext\n1\ta\n")
    job = EmbedJob(open_rows(path, column="text", id_column=column), tmp_path / output)
    with pytest.raises(ConfigError, match=message):
        job.check()


def test_parts_of_another_cut_are_not_left_beside_new_ones(encoders, job):
    """Catches a folder in which part*.npy holds every row twice."""
    first = job("parts", shard_rows=10)
    run_job(encoders[0], first)
    before = sorted(path.name for path in first.output.iterdir())
    with pytest.raises(WorkdirError, match="a job that was cut otherwise"):
        run_job(encoders[0], job("parts", shard_rows=8))
    assert sorted(path.name for path in first.output.iterdir()) == before
