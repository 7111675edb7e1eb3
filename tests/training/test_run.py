"""A whole run: workdir, resume, restore, refusals. Real encoder, bundled text, a small flow."""

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import shutil

import numpy as np
import pytest
from reference_flows import max_difference

from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.config import (
    CheckpointConfig,
    Config,
    DataConfig,
    EncoderConfig,
    FlowConfig,
    TrainConfig,
)
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    DataNotFoundError,
    InputError,
    WorkdirError,
)
from bertflow_jax.restore import load_run
from bertflow_jax.scores import HELD_OUT, Score
from bertflow_jax.training.metrics import MetricsWriter
from bertflow_jax.training.run import train
from bertflow_jax.workdir import clear_workdir, prepare_workdir
from bertflow_jax.workdir_lock import lock_workdir

LINES = [
    "The cat sleeps on the warm stove.",
    "A dog barks at the postman every morning.",
    "Rain is expected in the hills tonight.",
    "The train to the coast leaves at nine.",
    "She repaired the bicycle in an hour.",
    "Two children build a tower of bricks.",
    "Prices of bread rose again in May.",
    "He forgot his umbrella at the office.",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    (path / "text.txt").write_text("\n".join(LINES), "utf-8")
    return path


def _config(folder, steps, **train_fields):
    return Config(
        encoder=EncoderConfig(path="mini_bert", pooling="first_last"),
        flow=FlowConfig(levels=1, depth=1, width=4),
        data=DataConfig(path=str(folder / "text.txt"), held_out=0.25),
        train=TrainConfig(
            **{
                "steps": steps,
                "batch_size": 4,
                "log_every": 5,
                "tensorboard": False,
                **train_fields,
            }
        ),
        checkpoint=CheckpointConfig(every=10),
        cache_dir=str(folder / "cache"),
    )


@pytest.fixture(scope="module")
def straight(folder):
    """A finished run of 20 steps."""
    train(_config(folder, 20), folder / "straight")
    return folder / "straight"


def test_resume_equals_a_straight_run(folder, straight):
    """10 steps, then --resume to 20: the same bits as 20 steps, and the same metrics."""
    train(_config(folder, 10), folder / "halves")
    train(_config(folder, 20), folder / "halves", resume=True)
    ours, reference = load_run(folder / "halves"), load_run(straight)
    assert ours.step == reference.step == 20
    assert max_difference(ours.flow.variables, reference.flow.variables) == 0.0

    def losses(run):
        lines = map(json.loads, run.metrics_path.read_text().splitlines())
        return {line["step"]: line["bits_per_dim"] for line in lines}

    assert losses(ours) == losses(reference)
    assert sorted(losses(ours)) == [5, 10, 15, 20]


def test_a_checkpoint_of_an_older_version_is_resumed(folder, straight):
    """Its records know neither scores nor checkpoint.keep_best."""
    old = folder / "old"
    shutil.copytree(straight, old)
    shutil.rmtree(old / "checkpoints" / "20")
    files = {
        name: old / "checkpoints" / "10" / name / "metadata"
        for name in ("state", "config", "encoder", "manifest")
    }
    records = {name: json.loads(path.read_text("utf-8")) for name, path in files.items()}
    del records["state"]["records_sha256"], records["state"]["score"]
    del records["config"]["checkpoint"]["keep_best"]
    text = json.dumps(records, sort_keys=True).encode()
    records["state"]["records_sha256"] = hashlib.sha256(text).hexdigest()
    for name, path in files.items():
        path.write_text(json.dumps(records[name]), "utf-8")
    assert load_run(old).step == 10
    train(_config(folder, 20), old, resume=True)
    ours, reference = load_run(old), load_run(straight)
    assert max_difference(ours.flow.variables, reference.flow.variables) == 0.0


def test_the_flow_with_the_lowest_held_out_loss_stays(folder):
    """checkpoint.keep alone deleted it; saves are scored whatever train.eval_every says."""
    config = _config(folder, 20, eval_every=20, learning_rate=0.3)
    config.checkpoint = CheckpointConfig(every=5, keep=1, keep_best=1)
    train(config, folder / "best")
    lines = map(json.loads, (folder / "best" / "metrics.jsonl").read_text().splitlines())
    losses = {
        line["step"]: line["held_out_bits_per_dim"]
        for line in lines
        if "held_out_bits_per_dim" in line
    }
    best = min(losses, key=losses.__getitem__)
    assert sorted(losses) == [5, 10, 15, 20]
    store = CheckpointStore(folder / "best")
    assert best < 20
    assert store.steps() == [best, 20]
    assert store.best() == (best, Score(HELD_OUT, losses[best]))
    assert load_run(store.folder.parent, "best").step == best
    with pytest.raises(InputError, match="must be the number of a step, or 'best'"):
        load_run(store.folder.parent, "newest")
    assert load_run(folder / "best").step == 20
    assert load_run(folder / "best", step=best).step == best


def test_the_checkpoint_says_what_it_is(straight):
    """Config, encoder identity, text manifest and initialisation are there to be read."""
    records = load_run(straight).records
    assert records.config["encoder"]["pooling"] == "first_last"
    assert len(records.encoder["weights_sha256"]) == len(records.manifest["sha256"]) == 64
    assert records.manifest["examples"] == len(LINES)
    assert records.state["actnorm_init"] == {"mode": "data", "rows": 4}
    assert records.state["step"] == 20


def test_f01_restored_flow_gives_the_trained_vectors(folder, straight):
    """Case F01: nothing initialises again after a load, whatever batch comes first."""
    run = load_run(straight)
    u = run.encoder.encode(LINES)
    z = run.flow.transform(u)
    shifted = run.flow.transform(u + 100.0)
    np.testing.assert_array_equal(run.flow.transform(u), z)
    assert np.abs(shifted - z).min() > 1.0
    np.testing.assert_array_equal(load_run(straight).flow.transform(u), z)
    assert load_run(straight, step=10).step == 10
    encoder = SentenceEncoder.from_checkpoint(straight)
    np.testing.assert_allclose(encoder.encode(LINES), z, atol=1e-5)
    assert set(encoder.params) == {"encoder", "flow"}


def test_resume_refuses_another_experiment(folder, straight):
    """Every field that differs is listed; how long and how often may differ."""
    other = _config(folder, 30, learning_rate=0.5)
    other.flow.width = 8
    with pytest.raises(ConfigError) as caught:
        train(other, straight, resume=True)
    assert "flow.width: 4 in the checkpoint, 8 now" in str(caught.value)
    assert "train.learning_rate" in str(caught.value)
    assert "train.steps" not in str(caught.value)


def test_resume_refuses_an_older_step_of_another_run(folder, straight, tmp_path):
    """Bug: only the newest records were compared; where its arrays are damaged an older step goes
    on, whichever run it is of."""
    run = tmp_path / "run"
    shutil.copytree(straight, run)
    train(dataclasses.replace(_config(folder, 10), seed=77), tmp_path / "other")
    shutil.rmtree(run / "checkpoints" / "10")
    shutil.copytree(tmp_path / "other" / "checkpoints" / "10", run / "checkpoints" / "10")
    for path in (run / "checkpoints" / "20" / "flow").rglob("d/*"):
        path.write_bytes(b"")
    before = sorted(run.rglob("*"))
    with pytest.raises(
        ConfigError, match=r"differs from checkpoint 10 .*seed: 77 in the checkpoint"
    ):
        train(_config(folder, 30), run, resume=True)
    assert sorted(run.rglob("*")) == before


def test_resume_refuses_changed_text(folder, straight):
    """The same path with other lines is another experiment."""
    text = folder / "text.txt"
    before = text.read_text("utf-8")
    text.write_text(before.replace("cat", "cow"), "utf-8")
    try:
        with pytest.raises(CheckpointError, match=r"another text: .*sha256"):
            train(_config(folder, 30), straight, resume=True)
    finally:
        text.write_text(before, "utf-8")


def test_another_encoder_is_refused(folder, straight, monkeypatch):
    """The encoder at hand is compared with the stored identity before anything is scored."""
    real = SentenceEncoder.identity
    monkeypatch.setattr(
        SentenceEncoder, "identity", lambda self: {**real(self), "weights_sha256": "0" * 64}
    )
    with pytest.raises(CheckpointError, match="another encoder: weights_sha256"):
        load_run(straight)


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "empty"), ("\n \n", "empty"), ("Only one line.\n", "two")],
)
def test_r01_unusable_text_is_named(folder, content, words, tmp_path):
    """An empty file, blank lines, one sentence: an error that names the file."""
    config = _config(folder, 5)
    config.data.path = str(tmp_path / "bad.txt")
    (tmp_path / "bad.txt").write_text(content, "utf-8")
    with pytest.raises(DataError, match=rf"bad\.txt.*{words}"):
        train(config, tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"encoder": {"path": "./no/such/encoder"}}, DataNotFoundError, "no/such/encoder"),
        ({"encoder": {"pooling": "median"}}, ConfigError, "median.*first_last"),
        ({"data": {"path": "./no/such/text.txt"}}, DataNotFoundError, r"no/such/text\.txt"),
        ({"flow": {"coupling": "spline"}}, ConfigError, r"flow\.coupling='spline'"),
        ({"train": {"batch_size": 0}}, ConfigError, r"train\.batch_size=0"),
        ({"flow": {"levels": 9}}, ConfigError, r"flow\.levels=9"),
    ],
)
def test_mistakes_are_named(folder, tmp_path, change, error, words):
    """Each message names the field or path and says what is possible."""
    config = _config(folder, 5)
    for part, fields in change.items():
        setattr(config, part, dataclasses.replace(getattr(config, part), **fields))
    with pytest.raises(error, match=words):
        train(config, tmp_path / "run")


@pytest.mark.parametrize("mode", ["cached", "online"])
def test_too_many_levels_are_refused_before_anything_is_embedded(
    folder, tmp_path, monkeypatch, mode
):
    """Bug: flow.levels=20 was refused after the whole text had been embedded."""
    config = _config(folder, 5, mode=mode)
    config.flow = dataclasses.replace(config.flow, levels=20)
    monkeypatch.setattr(SentenceEncoder, "encode", lambda *a, **k: pytest.fail("it embeds"))
    with pytest.raises(ConfigError, match=r"flow\.levels=20: the last level .* use fewer levels"):
        train(config, tmp_path / "run")


def test_c04_workdir_rules(tmp_path):
    """Non-empty without a word, both words, a file, a blank name: errors before any work."""
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").write_text("keep me")
    with pytest.raises(WorkdirError, match=r"full is not empty.*--resume.*--overwrite"):
        prepare_workdir(full, resume=False, overwrite=False)
    assert (full / "notes.txt").exists()
    with pytest.raises(ConfigError, match="exclude each other"):
        prepare_workdir(full, resume=True, overwrite=True)
    with pytest.raises(WorkdirError, match="is a file"):
        prepare_workdir(full / "notes.txt", resume=False, overwrite=False)
    with pytest.raises(WorkdirError, match="blank"):
        prepare_workdir(" ", resume=False, overwrite=False)
    with pytest.raises(WorkdirError, match="no folder of this machine"):
        prepare_workdir("s3://bucket/run", resume=False, overwrite=False)  # made ./s3:/bucket/run
    for name in ("notes.txt", "checkpoints/weights.pt"):
        (full / name).parent.mkdir(exist_ok=True)
        (full / name).write_text("keep me")
        with pytest.raises(WorkdirError, match=r"--overwrite would delete a folder that is no run"):
            prepare_workdir(full, resume=False, overwrite=True)
    (full / "checkpoints" / "20").mkdir()
    assert prepare_workdir(full, resume=False, overwrite=True) == full
    assert (full / "notes.txt").exists()  # only emptied once the new run can start
    link = tmp_path / "link"
    link.symlink_to(full)
    clear_workdir(link)
    assert list(full.iterdir()) == []
    assert link.is_symlink()


def test_overwrite_never_deletes_where_one_stands(tmp_path, monkeypatch):
    """--workdir=. --overwrite would empty the current folder."""
    (tmp_path / "below").mkdir()
    (tmp_path / "metrics.jsonl").touch()
    monkeypatch.chdir(tmp_path / "below")
    with pytest.raises(WorkdirError, match=rf"--overwrite would delete {tmp_path / 'below'}"):
        prepare_workdir(tmp_path, resume=False, overwrite=True)


def test_c04_a_failed_start_leaves_the_old_run(folder, straight):
    """A typo in data.path with --overwrite must not cost the finished run."""
    config = _config(folder, 5)
    config.data.path = "./no/such.txt"
    with pytest.raises(DataNotFoundError):
        train(config, straight, overwrite=True)
    assert load_run(straight).step == 20


def test_a_relative_encoder_folder_is_found_from_anywhere(folder, tmp_path, monkeypatch):
    """The checkpoint names the encoder by its absolute path, and its config is part of it."""
    SentenceEncoder.from_pretrained("mini_bert").save_pretrained(tmp_path / "models" / "enc")
    monkeypatch.chdir(tmp_path)
    config = _config(folder, 2)
    config.encoder.path = "models/enc"
    train(config, tmp_path / "run")
    monkeypatch.chdir("/")
    assert load_run(tmp_path / "run").step == 2
    settings = tmp_path / "models" / "enc" / "config.json"
    settings.write_text(settings.read_text("utf-8").replace('"gelu"', '"relu"'), "utf-8")
    with pytest.raises(CheckpointError, match="another encoder: hidden_act was 'gelu', is 'relu'"):
        load_run(tmp_path / "run")


def test_resume_without_a_checkpoint_is_an_error(folder, tmp_path):
    """--resume must not silently start from nothing."""
    with pytest.raises(DataNotFoundError, match="no checkpoint in"):
        train(_config(folder, 5), tmp_path / "fresh", resume=True)


def test_resume_of_a_run_killed_before_its_first_checkpoint_starts_anew(folder, tmp_path, caplog):
    """A job that is always started with --resume ended for good."""
    workdir = tmp_path / "killed"
    workdir.mkdir()
    (workdir / "metrics.jsonl").write_text('{"step": 3, "bits_per_dim": 1.0}\n')
    train(_config(folder, 5), workdir, resume=True)
    assert "it starts anew" in caplog.text
    lines = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    assert [line["step"] for line in lines] == [5]


def _fails_while_embedding(error, config, workdir, monkeypatch, **flags):
    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(SentenceEncoder, "encode", fail)
        with pytest.raises(type(error)):
            train(config, workdir, **flags)


def test_resume_of_a_run_killed_while_it_embedded_starts_anew(
    folder, straight, tmp_path, monkeypatch, caplog
):
    """Bug: it had left no trace but a lock, so that --resume of a requeued job was refused."""
    config = dataclasses.replace(_config(folder, 20), cache_dir=str(tmp_path / "cache"))
    workdir = tmp_path / "killed"
    _fails_while_embedding(KeyboardInterrupt(), config, workdir, monkeypatch)
    # A job may be killed twice.
    _fails_while_embedding(KeyboardInterrupt(), config, workdir, monkeypatch, resume=True)
    train(config, workdir, resume=True)
    assert caplog.text.count("it starts anew") == 2
    ours, theirs = load_run(workdir).flow.variables, load_run(straight).flow.variables
    assert max_difference(ours, theirs) == 0.0


def test_a_run_that_is_refused_after_its_start_leaves_no_trace(folder, tmp_path, monkeypatch):
    """What stays is what --resume goes on from; a refusal would come again."""

    config = dataclasses.replace(_config(folder, 5), cache_dir=str(tmp_path / "cache"))
    _fails_while_embedding(DataError("no vectors"), config, tmp_path / "run", monkeypatch)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.parametrize("mode", ["cached", "online"])
def test_a_batch_that_cannot_be_divided_is_refused_before_anything_is_embedded(
    folder, tmp_path, monkeypatch, mode
):
    """Bug: a large text was embedded for hours first."""
    made = _config(folder, 5, mode=mode, batch_size=64, accumulate=16)
    config = dataclasses.replace(made, cache_dir=str(tmp_path / "cache"))
    monkeypatch.setattr(SentenceEncoder, "encode", lambda *a, **k: pytest.fail("it embeds"))
    with pytest.raises(ConfigError, match=r"train\.accumulate=16 must divide the batch of"):
        train(config, tmp_path / "run")


def test_two_runs_in_one_workdir(folder, tmp_path):
    """Both once ended well, and the checkpoints of one of them were gone."""
    with lock_workdir(tmp_path), pytest.raises(WorkdirError, match="in use by another run"):
        train(_config(folder, 1), tmp_path)
    train(_config(folder, 1), tmp_path)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_used_without(tmp_path, monkeypatch, caplog, code):
    """On a shared disk that has none every run was refused as one in use by another."""

    def flock(handle, kind):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    with lock_workdir(tmp_path):
        assert "is not locked" in caplog.text


@pytest.mark.parametrize("what", ["moved", "deleted", "another run", "a link"])
def test_a_run_whose_workdir_is_lost_writes_nothing_to_its_path(
    folder, tmp_path, monkeypatch, what
):
    """Bug: the folder was made anew without a lock, so that two runs wrote into one."""
    workdir, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    write, other = MetricsWriter.write, contextlib.ExitStack()

    def lose(self, step, values):
        write(self, step, values)
        if step != 5:
            return
        workdir.rename(elsewhere)
        if what == "deleted":
            shutil.rmtree(elsewhere)
        elif what == "another run":
            workdir.mkdir()
            other.enter_context(lock_workdir(workdir))
        elif what == "a link":
            (tmp_path / "target").mkdir()
            workdir.symlink_to(tmp_path / "target")

    monkeypatch.setattr(MetricsWriter, "write", lose)
    with other, pytest.raises(WorkdirError, match="moved, deleted or replaced while this run"):
        train(_config(folder, 20), workdir)
    assert not (workdir / "checkpoints").exists()


def test_a_damaged_step_of_another_run_hides_no_whole_one(folder, straight, tmp_path):
    """Bug: the older step was read with the settings of the newer one and called damaged."""
    config = _config(folder, 30)
    config.flow = dataclasses.replace(config.flow, activation="gatu", depth=2)
    train(config, tmp_path / "other")
    shutil.copytree(straight, tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / "30"
    shutil.copytree(tmp_path / "other" / "checkpoints" / "30", newest)
    for path in (newest / "flow").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-5] + b"wrong")
    found, whole = load_run(tmp_path / "run"), load_run(straight)
    assert found.step == whole.step == 20
    assert max_difference(found.flow.variables, whole.flow.variables) == 0.0
    assert found.flow.config == whole.flow.config


def test_overwrite_never_deletes_an_input(tmp_path):
    """--workdir=D --overwrite with the text in D deleted the text."""
    text = tmp_path / "run" / "text.txt"
    text.parent.mkdir()
    text.write_text("\n".join(LINES), "utf-8")
    (text.parent / "metrics.jsonl").touch()
    config = _config(text.parent, 1)
    with pytest.raises(WorkdirError, match=r"--overwrite would delete data\.path="):
        train(config, text.parent, overwrite=True)
    assert text.exists()


def test_overwrite_never_deletes_one_of_several_inputs(tmp_path):
    """--overwrite deleted the files of pairs: only a single one was found in the workdir."""
    places = [tmp_path / "run" / name for name in ("a.tsv", "b.tsv")]
    places[0].parent.mkdir()
    (tmp_path / "run" / "metrics.jsonl").touch()
    for path in places:
        rows = [f"{line}\tno {line}\tneutral" for line in LINES]
        path.write_text("\n".join(["sentence1\tsentence2\tgold_label", *rows]), "utf-8")
    config = _config(places[0].parent, 1)
    named = ",".join(map(str, places))
    config.data = dataclasses.replace(config.data, path=named, format="pairs")
    with pytest.raises(WorkdirError, match=rf"--overwrite would delete data\.path={places[0]}$"):
        train(config, tmp_path / "run", overwrite=True)
    assert all(path.exists() for path in places)


def test_what_a_run_leaves_before_its_first_checkpoint_is_no_run(folder, tmp_path):
    """Stopped that early, neither the same command nor --resume went on."""
    (tmp_path / "metrics.jsonl").write_text("")
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / ".lock").write_text("")
    (tmp_path / "checkpoints" / "4.orbax-checkpoint-tmp").mkdir(parents=True)  # killed in a save
    train(_config(folder, 1), tmp_path)
    with pytest.raises(WorkdirError, match="not empty"):
        train(_config(folder, 1), tmp_path)


def test_a_run_goes_on_from_another_folder(folder, tmp_path, monkeypatch):
    """A relative data.path was refused as another config."""
    monkeypatch.chdir(folder)
    config = _config(folder, 1)
    config.data.path = "text.txt"
    train(config, tmp_path)
    monkeypatch.chdir(tmp_path)
    again = _config(folder, 2)
    again.data.path = str(folder / "text.txt")
    assert int(train(again, tmp_path, resume=True).state.step) == 2
