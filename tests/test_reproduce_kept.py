"""What a reproduction keeps: never a score of other settings or data. Each test names its bug."""

import json
import logging
import signal
from pathlib import Path

import pytest
from paper_made import SMALL, fit_folder, options, write_all, write_stsb

from bertflow_jax.interrupt import Interrupt, heeded
from bertflow_jax.reproduce import scoring
from bertflow_jax.reproduce.options import recipe_config
from bertflow_jax.reproduce.rows import task_config
from bertflow_jax.reproduce.run import reproduce
from bertflow_jax.reproduce.tables import STS_COLUMNS, TABLES, TARGET
from bertflow_jax.restore import load_run


def with_set(data_dir, tmp_path, *rows, **changed):
    """Flags of a small run of table 5, some fields of the configs set to other values."""
    overrides = SMALL | {"cache_dir": str(tmp_path / "cache")}
    overrides |= {name.replace("__", "."): value for name, value in changed.items()}
    return options(data_dir, tmp_path, 5, *rows, overrides=overrides)


def test_a_target_row_is_scored_on_all_seven_tasks(tmp_path):
    """Catches splits of STS-B asked of a year, which has its test text alone."""
    data_dir = write_all(tmp_path)
    found = reproduce(options(data_dir, tmp_path / "out", 2, "base_flow_target"))
    assert (found["skipped"], found["missing"]) == ({}, {})
    assert tuple(found["rows"]["base_flow_target"]) == STS_COLUMNS
    fits = tmp_path / "out" / "base_flow_target"
    manifests = {
        task: load_run(fit_folder(fits, task)).records.manifest for task in ("stsb", "sts14")
    }
    assert manifests["stsb"]["splits"] == ["train", "dev", "test"]
    assert (manifests["sts14"]["splits"], manifests["sts14"]["examples"]) == (["test"], 10)


@pytest.mark.parametrize("table", [2, 3, 4])
def test_every_target_row_takes_the_splits_of_its_task(table):
    """Catches a large or NLI row with the splits of another task."""
    rows = [row for row in TABLES[table].rows if row.fit == TARGET]
    assert len(rows) == 2
    for row in rows:
        config = recipe_config(row.recipe, {})
        for task in TABLES[table].tasks:
            data = task_config(options("data", Path("out"), table), row, config, task).data
            years = task.startswith("sts1")
            assert (data.task, data.path) == (task, "data")
            assert data.splits == ("test" if years else "train,dev,test")


def test_a_longer_fit_is_never_taken_for_a_shorter(tmp_path):
    """Catches one workdir for two settings: the longer fit's score under the shorter's name."""
    data_dir = write_stsb(tmp_path)
    scores = {}
    for steps in ("3", "40", "3"):
        found = reproduce(with_set(data_dir, tmp_path, "flow_target", train__steps=steps))
        score = found["rows"]["flow_target"]["stsb"]["ours"]
        assert scores.setdefault(steps, score) == score
        (tmp_path / "table5" / "flow_target.stsb.json").unlink()
    assert scores["3"] != scores["40"]
    # A setting that may not differ on --resume gets a fit of its own too.
    found = reproduce(with_set(data_dir, tmp_path, "flow_target", flow__width="5"))
    assert found["skipped"] == {}


def test_replaced_data_give_new_scores(tmp_path):
    """Catches a score of data that are no longer there, kept for the path they had."""
    data_dir = write_stsb(tmp_path)
    chosen = options(data_dir, tmp_path / "out", 5, "raw", "standardize")
    before = reproduce(chosen)["rows"]
    write_stsb(tmp_path, seed=5)
    after = reproduce(chosen)["rows"]
    fresh = reproduce(options(data_dir, tmp_path / "fresh", 5, "raw", "standardize"))["rows"]
    assert after == fresh
    assert after["raw"] != before["raw"]


def test_another_corpus_gives_new_counts(tmp_path):
    """Catches the words of a corpus that was replaced."""
    corpus = tmp_path / "words.txt"
    norms = []
    for words in (
        "the a dog man woman house water road tree child music food book car",
        "and of city day night hand door work game school team year time people",
    ):
        corpus.write_text(f"{words}\n" * 5)
        chosen = options(None, tmp_path, 1, "(0, 100)", corpus=str(corpus))
        norms.append(reproduce(chosen)["rows"]["(0, 100)"]["norm"]["ours"])
    assert norms[0] != norms[1]


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: kept | {"score": 99.0},  # edited
        lambda kept: kept | {"score": "47"},
        lambda kept: kept | {"details": []},
        lambda kept: {"key": kept["key"]},
        lambda kept: [kept],
    ],
)
def test_a_damaged_score_is_computed_again(tmp_path, damage, caplog):
    """Catches an edited score believed, and a KeyError or TypeError over a damaged one."""
    chosen = options(write_stsb(tmp_path), tmp_path, 5, "raw")
    first = reproduce(chosen)["rows"]
    file = tmp_path / "table5" / "raw.stsb.json"
    file.write_text(json.dumps(damage(json.loads(file.read_text()))))
    with caplog.at_level(logging.WARNING):
        assert reproduce(chosen)["rows"] == first
    assert "raw.stsb.json is not used" in caplog.text
    caplog.clear()
    assert reproduce(chosen)["rows"] == first
    assert "not used" not in caplog.text


def test_a_folder_in_the_place_of_a_score(tmp_path):
    """Catches an IsADirectoryError."""
    chosen = options(write_stsb(tmp_path), tmp_path, 5, "raw")
    (tmp_path / "table5" / "raw.stsb.json").mkdir(parents=True)
    assert reproduce(chosen)["rows"]["raw"]["stsb"]["ours"] is not None


def test_details_do_not_replace_the_score(tmp_path, monkeypatch):
    """Catches a detail called "ours" that is shown in place of the score."""
    details = {"ours": 1.0, "published": 2.0, "difference": 3.0}
    score = {"score": 50.0, "details": details}
    monkeypatch.setattr(scoring, "score_task", lambda cell: score)
    cell = reproduce(options(write_stsb(tmp_path), tmp_path, 5, "raw"))["rows"]["raw"]["stsb"]
    assert (cell["ours"], cell["published"]) == (50.0, 47.29)
    assert cell["difference"] == pytest.approx(2.71)


def test_earlier_rows_of_the_same_settings_stay(tmp_path):
    """Catches a table that forgets its rows when fewer are asked for, or mixes two settings."""
    data_dir = write_stsb(tmp_path)
    both = reproduce(options(data_dir, tmp_path, 5, "raw", "standardize"))
    one = reproduce(options(data_dir, tmp_path, 5, "natsv_1"))
    assert list(one["rows"]) == ["raw", "standardize", "natsv_1"]
    assert one["rows"]["raw"] == both["rows"]["raw"]
    other = reproduce(with_set(data_dir, tmp_path, "raw", encoder__max_length="5"))
    assert list(other["rows"]) == ["raw"]


def test_the_table_says_what_made_it(tmp_path):
    """Catches a table whose numbers nobody can get again."""
    found = reproduce(options(write_stsb(tmp_path), tmp_path, 5, "raw"))
    text = (tmp_path / "table5.md").read_text()
    made = found["made"]["raw"]
    assert made["encoder"]["path"] == "mini_bert"
    weights = made["encoder"]["weights_sha256"][:12]
    assert f"| raw | mini_bert | {weights} | mean | {made['seed']} |" in text
    assert "train.steps=3" in text
    assert found["provenance"]["version"] in text
    assert found["date"] in text


def test_ctrl_c_in_the_last_steps_of_a_fit(tmp_path, monkeypatch, caplog):
    """Catches a Ctrl-C that the loop saw too late: the run went on, or ended in tracebacks."""

    def last_steps(config, workdir, **_):
        (workdir / "checkpoints" / "7").mkdir(parents=True)
        with Interrupt():
            signal.raise_signal(signal.SIGINT)

    def never(workdir):
        raise AssertionError("a checkpoint is read after Ctrl-C")

    monkeypatch.setattr(scoring, "train", last_steps)
    monkeypatch.setattr(scoring, "load_run", never)
    chosen = options(write_stsb(tmp_path), tmp_path, 5, "flow_target")
    with heeded(), pytest.raises(KeyboardInterrupt):
        reproduce(chosen)
    assert "stopped in row flow_target, task stsb, step 7 is saved" in caplog.text
