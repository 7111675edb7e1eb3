"""STS data as TFDS data sets: made from text files, read back. Each test names the bug it catches."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from sts_made import STSB, write_senteval

from bertflow_jax.config import Config, DataConfig
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.text import load_text
from bertflow_jax.data.tfds_builders.prepare import prepare
from bertflow_jax.errors import (
    BertFlowError,
    ConfigError,
    DataError,
    DataNotFoundError,
    WorkdirError,
)
from bertflow_jax.evaluation.options import EvalOptions, expanded
from bertflow_jax.evaluation.task_loading import load_tasks

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "sts"
TASKS = ("sts16", "stsb", "sickr")
SPLITS = {"sts16": ("test",), "stsb": ("train", "dev", "test"), "sickr": ("train", "dev", "test")}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(text files, TFDS folder) of the made data; no test writes into them."""
    root = tmp_path_factory.mktemp("made")
    text = write_senteval(root / "text")
    prepare(TASKS, root / "tfds", text, check_sizes=False)
    return text, root / "tfds"


def same_task(task, expected):
    assert list(task.subsets) == list(expected.subsets)
    for name, pairs in expected.subsets.items():
        assert task.subsets[name].sentences1 == pairs.sentences1
        assert task.subsets[name].sentences2 == pairs.sentences2
        np.testing.assert_array_equal(task.subsets[name].scores, pairs.scores)
    assert task.notes == expected.notes
    assert task.sha256 == expected.sha256


@pytest.mark.parametrize("task", TASKS)
def test_the_same_task_as_the_text_files(made, task):
    # Bug: TFDS shuffles while it writes, keeps scores as float32, and has no blank score.
    text, folder = made
    for splits in {SPLITS[task], SPLITS[task][-1:]}:
        same_task(load_task(task, f"tfds:{folder}", splits), load_task(task, text, splits))


@pytest.mark.skipif(not REAL.is_dir(), reason="the STS data sets are not at ../shared/sts")
def test_real_releases_pass_the_size_check_and_keep_their_digests(tmp_path):
    # Bug: a published size copied wrongly; sentences changed on their way through TFDS.
    sizes = {"sts13": 1500, "sts16": 1186, "sickr": 9927}
    prepare(tuple(sizes), tmp_path, REAL)
    for task, size in sizes.items():
        splits = SPLITS.get(task, ("test",))
        read = load_task(task, f"tfds:{tmp_path}", splits)
        assert read.pairs == size
        same_task(read, load_task(task, REAL, splits))
    text = load_text(DataConfig(path=f"tfds:{tmp_path}", task="sts16", splits="test"))
    assert text.manifest["examples"] == 9183


@pytest.mark.skipif(not REAL.is_dir(), reason="the STS data sets are not at ../shared/sts")
def test_every_published_size_is_that_of_the_real_files():
    # Bug: a subset's size that only sums up right.
    from bertflow_jax.data.tfds_builders.releases import RELEASES

    for task, release in RELEASES.items():
        if task in ("stsb", "sickr"):
            found = {split: load_task(task, REAL, [split]).pairs for split in release.sizes}
        else:
            found = {name: len(pairs) for name, pairs in load_task(task, REAL).subsets.items()}
        assert found == release.sizes


def test_features_say_what_is_scored(made):
    # Bug: an unscored pair read as 0, which moves every correlation.
    builder = tfds.builder_from_directory(made[1] / "sts16" / "1.0.0")
    rows = list(builder.as_data_source("test"))
    assert [row["scored"] for row in rows] == [True, True, False, True, False, True]
    assert [np.isnan(row["score"]) for row in rows] == [False, False, True, False, True, False]
    assert rows[3]["score"] == np.float32("0.166666666666667")
    assert rows[3]["gold"].decode() == "0.166666666666667"
    assert [row["subset"].decode() for row in rows] == ["answer-answer"] * 3 + ["headlines"] * 3
    assert [row["id"].decode() for row in rows] == ["1", "2", "3"] * 2
    assert rows[3]["sentence1"].decode() == "Zürich votes"


def test_sick_has_its_three_splits_and_its_entailment(made):
    # Bug: the label of another column, or trial pairs in train.
    builder = tfds.builder_from_directory(made[1] / "sickr" / "1.0.0")
    names = builder.info.features["entailment"].names
    found = {
        split: [(row["id"].decode(), names[row["entailment"]]) for row in source]
        for split, source in builder.as_data_source().items()
    }
    assert found == {
        "train": [("1", "NEUTRAL"), ("2", "ENTAILMENT")],
        "validation": [("1", "CONTRADICTION")],
        "test": [("1", "ENTAILMENT"), ("2", "NEUTRAL")],
    }


@pytest.mark.parametrize("task", TASKS)
def test_flow_text_is_that_of_the_text_files_and_reads_no_label(made, task, monkeypatch):
    # Bug: the fit sees gold scores; the unscored pairs of 2016 are left out.
    decoded = set()
    original = tfds.features.FeaturesDict.deserialize_example_np

    def spy(self, *args, **kwargs):
        decoded.update(self.keys())
        return original(self, *args, **kwargs)

    monkeypatch.setattr(tfds.features.FeaturesDict, "deserialize_example_np", spy)
    text, folder = made
    fields = {"task": task, "splits": ",".join(SPLITS[task])}
    prepared = load_text(DataConfig(path=f"tfds:{folder}", **fields))
    plain = load_text(DataConfig(path=str(text), **fields))
    assert prepared.examples == plain.examples
    own = ("path", "format")
    assert {k: v for k, v in prepared.manifest.items() if k not in own} == {
        k: v for k, v in plain.manifest.items() if k not in own
    }
    assert prepared.manifest["format"] == "tfds"
    assert decoded == {"sentence1", "sentence2", "subset"}


def test_neither_making_nor_reading_needs_tensorflow(tmp_path):
    # Bug: PartialDecoding imports TensorFlow, which fails without it and takes seconds with it;
    # every command pays for the import of TFDS.
    write_senteval(tmp_path / "text")
    code = """
import sys
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.tfds_builders.prepare import prepare
assert "tensorflow_datasets" not in sys.modules
prepare(["sickr"], "tfds", "text", check_sizes=False)
print(load_task("sickr", "tfds:tfds", ("test",)).pairs, "tensorflow" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "2 False\n", done.stderr


def test_another_number_of_pairs_is_refused(tmp_path):
    # Bug: half a release, or another one, prepared under the published name.
    text = write_senteval(tmp_path / "text")
    with pytest.raises(DataError, match=r"sickr.*train 2 instead of 4500.*--nocheck_sizes"):
        prepare(["sickr"], tmp_path / "tfds", text)
    with pytest.raises(
        DataError, match=r"answer-answer 2 instead of 254, headlines 2 .*plagiarism 0 "
    ):
        prepare(["sts16"], tmp_path / "tfds", text)
    assert {path.name for path in (tmp_path / "tfds").iterdir()} == {".lock"}


def test_an_interrupted_run_keeps_the_finished_ones_and_goes_on(tmp_path, monkeypatch):
    # Bug: half a data set counted as one; everything made again; what was killed stays on disk.
    from bertflow_jax.data.tfds_builders.builders import StsBenchmark

    text = write_senteval(tmp_path / "text")

    def stop(self, rows):
        yield 0, self._example(rows[0])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StsBenchmark, "_generate_examples", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(TASKS, tmp_path / "tfds", text, check_sizes=False)
    assert {path.name for path in (tmp_path / "tfds").iterdir()} == {".lock", "sts16"}
    first = (tmp_path / "tfds" / "sts16" / "1.0.0" / "dataset_info.json").stat().st_mtime_ns
    (tmp_path / "tfds" / ".unfinished-killed" / "stsb").mkdir(parents=True)
    written = prepare(TASKS, tmp_path / "tfds", text, check_sizes=False)
    assert list(written) == list(TASKS)
    assert (written["sts16"] / "dataset_info.json").stat().st_mtime_ns == first
    assert {path.name for path in (tmp_path / "tfds").iterdir()} == {".lock", *TASKS}


def test_overwrite_replaces_and_a_failed_one_keeps_the_old(tmp_path):
    # Bug: the old data set deleted before the new one is there.
    text, out = write_senteval(tmp_path / "text"), tmp_path / "tfds"
    prepare(["sickr"], out, text, check_sizes=False)
    before = load_task("sickr", f"tfds:{out}").sha256
    path = text / "SICK" / "SICK_test_annotated.txt"
    good = path.read_text()
    path.write_text(good.replace("4.7", "4.8"))
    prepare(["sickr"], out, text, check_sizes=False)
    assert load_task("sickr", f"tfds:{out}").sha256 == before
    prepare(["sickr"], out, text, check_sizes=False, overwrite=True)
    after = load_task("sickr", f"tfds:{out}").sha256
    assert after == load_task("sickr", text).sha256 != before
    path.write_text(good.replace("4.7", "47"))
    with pytest.raises(DataError, match=r"SICK_test_annotated\.txt, line 2: gold score '47'"):
        prepare(["sickr"], out, text, check_sizes=False, overwrite=True)
    assert load_task("sickr", f"tfds:{out}").sha256 == after


def test_another_entailment_label_names_its_line(tmp_path):
    # Bug: SICK without its labels, or with shifted columns, prepared as if it had them.
    text = write_senteval(tmp_path / "text")
    path = text / "SICK" / "SICK_trial.txt"
    path.write_text(path.read_text().replace("CONTRADICTION", "A_contradicts_B"))
    with pytest.raises(DataError, match=r"SICK_trial\.txt, line 2: entailment label 'A_contra"):
        prepare(["sickr"], tmp_path / "tfds", text, check_sizes=False)


def copy_of(made, tmp_path):
    import shutil

    shutil.copytree(made[1], tmp_path / "tfds")
    return tmp_path / "tfds"


def test_damaged_files_are_named(made, tmp_path):
    # Bug: a C++ error without a path, or pairs missing without a word.
    folder = copy_of(made, tmp_path)
    (record,) = (folder / "sickr" / "1.0.0").glob("*test*")
    record.write_bytes(record.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"sickr/1\.0\.0 cannot be read as a TFDS data set"):
        load_task("sickr", f"tfds:{folder}")
    with pytest.raises(DataError, match=r"--overwrite makes it anew"):
        prepare(["sickr"], folder, made[0])
    (folder / "stsb" / "1.0.0" / "dataset_info.json").write_text("{")
    with pytest.raises(DataError, match=r"stsb/1\.0\.0/dataset_info\.json: not valid JSON"):
        load_task("stsb", f"tfds:{folder}")


def test_another_file_format_is_told(made, tmp_path):
    # Bug: NotImplementedError, or an import of TensorFlow, for data that someone made with it.
    folder = copy_of(made, tmp_path)
    path = folder / "stsb" / "1.0.0" / "dataset_info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"fileFormat": "tfrecord"}))
    with pytest.raises(DataError, match=r'prepared as tfrecord.*file_format="array_record"'):
        load_task("stsb", f"tfds:{folder}")


def test_what_is_not_there_is_named(made, tmp_path):
    # Bug: KeyError, or TFDS's own list of everything it knows.
    folder = made[1]
    cases = [
        ("sts17", f"tfds:{folder}", ("test",), "unknown STS task 'sts17'"),
        ("sts12", f"tfds:{folder}", ("test",), "holds no prepared sts12"),
        ("sts12", "tfds:", ("test",), "name the folder of prepared data after tfds:"),
        ("stsb", f"tfds:{tmp_path}", ("test",), "glue/stsb"),
        ("stsb", f"tfds:{folder}", ("trian",), "--splits=trian: stsb has no split"),
    ]
    for task, data_dir, splits, message in cases:
        with pytest.raises(BertFlowError) as caught:
            load_task(task, data_dir, splits)
        assert message in str(caught.value)
    with pytest.raises(DataNotFoundError):
        load_task("sts12", f"tfds:{folder}")
    with pytest.raises(
        ConfigError, match=r"data\.path=tfds:.*leave data\.columns and data\.format"
    ):
        load_text(DataConfig(path=f"tfds:{folder}", format="tsv"))


def write_glue(folder):
    """Write glue/stsb with the features of TFDS's own builder; its split test has no scores."""
    from tensorflow_datasets.text.glue import Glue

    class Made(Glue, skip_registration=True):
        name = "glue"
        url_infos = None

        def _split_generators(self, dl_manager):
            return {
                name: self._generate_examples(STSB[split], split == "test")
                for name, split in {"train": "train", "validation": "dev", "test": "test"}.items()
            }

        def _generate_examples(self, rows, hidden):
            for idx, (first, second, gold) in enumerate(rows):
                label = -1.0 if hidden else np.float32(gold)
                # TFDS's builder is shuffled by its keys, which are strings.
                yield (
                    f"key{-idx}",
                    {
                        "sentence1": first,
                        "sentence2": second,
                        "label": label,
                        "idx": idx,
                    },
                )

    builder = Made(config="stsb", data_dir=folder, file_format="array_record")
    tfds.display_progress_bar(enable=False)
    builder.download_and_prepare()
    return folder


def test_glue_stsb_is_read_in_the_order_of_its_files(tmp_path, made, monkeypatch):
    # Bug: pairs in the order of TFDS's hashes; 4.25 read as 4.25 but 1.6 as 1.60000002384.
    monkeypatch.setitem(
        STSB, "train", [(f"a{i}", f"b{i}", f"{i / 8 + 0.1:.3f}") for i in range(30)]
    )
    text = write_senteval(tmp_path / "text")
    folder = write_glue(tmp_path / "tfds")
    splits = ("train", "dev")
    same_task(load_task("stsb", f"tfds:{folder}", splits), load_task("stsb", text, splits))
    with pytest.raises(DataError, match=r"GLUE publishes no gold scores.*label -1.*--tasks=stsb"):
        load_task("stsb", f"tfds:{folder}", ("test",))
    fields = {"task": "stsb", "splits": "train,dev,test"}
    prepared = load_text(DataConfig(path=f"tfds:{folder}", **fields))
    assert prepared.examples == load_text(DataConfig(path=str(text), **fields)).examples
    # The release itself has the scores of its test split, and so goes before GLUE's.
    prepare(["stsb"], folder, text, check_sizes=False)
    same_task(load_task("stsb", f"tfds:{folder}"), load_task("stsb", text))


def test_evaluation_takes_tfds_paths(made, monkeypatch):
    # Bug: the prefix lost where ~ is expanded, or a relative folder.
    monkeypatch.chdir(made[1].parent)
    for data_dir in ("tfds:tfds", f"tfds:{made[1]}"):
        options = expanded(EvalOptions(encoder="mini_bert", tasks=TASKS, data_dir=data_dir))
        for task in load_tasks(options):
            same_task(task, load_task(task.name, made[0]))


def test_a_run_goes_on_from_another_folder_and_never_deletes_its_text(made, tmp_path, monkeypatch):
    # Bug: tfds:DIR kept relative in the checkpoint; --overwrite deletes the prepared data.
    from bertflow_jax.training import run

    monkeypatch.chdir(made[1].parent)
    config = Config(data=DataConfig(path="tfds:tfds", task="stsb"))
    assert run.absolute_paths(config).data.path == f"tfds:{made[1]}"
    folder = copy_of(made, tmp_path)
    (tmp_path / "metrics.jsonl").touch()
    config.data.path = f"tfds:{folder}"
    with pytest.raises(WorkdirError, match=r"would delete data\.path"):
        run.train(config, tmp_path, overwrite=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--data_dir is missing"),
        (["--data_dir=out", "--tasks=sts12,sts17"], "--tasks: unknown 'sts17'; known are sts12"),
        (["--data_dir=out", "--tasks=stsb,stsb"], "a task is named twice"),
        (["--data_dir=out", "--manual_dir=none"], "--manual_dir=none: no such folder"),
        (["--data_dir=out", "--manual_dir=text"], "holds no data of sts12"),
        (["--data_dir=out", "--manual_dir=text", "--mirror=http://x"], "--mirror is for downloads"),
        (["--data_dir=out", "--tasks=stsb", "--manual_dir=text"], "sts-dev.csv: no such file"),
        (
            ["--data_dir=text/file", "--tasks=sickr", "--manual_dir=text"],
            "--data_dir=text/file is a file",
        ),
    ],
)
def test_mistakes_exit_with_2_and_no_traceback(tmp_path, arguments, words):
    # Bug: a traceback of TFDS, or half a data set left behind.
    text = write_senteval(tmp_path / "text")
    (text / "file").write_text("")
    (text / "STSBenchmark" / "sts-dev.csv").unlink()
    done = run_command(tmp_path, *arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    out = tmp_path / "out"
    assert not out.exists() or {path.name for path in out.iterdir()} == {".lock"}


def run_command(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "bertflow_jax.data.tfds_builders", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_prepares_and_tells_what(tmp_path):
    # Bug: silence for minutes; TFDS's own banner with sizes it does not know.
    write_senteval(tmp_path / "text")
    arguments = ("--tasks=sts16,sickr", "--data_dir=out", "--manual_dir=text", "--nocheck_sizes")
    done = run_command(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "sts16, sickr: read them with --data_dir=tfds:out\n"
    digest = load_task("sts16", tmp_path / "text").sha256
    assert f"sts16: 4 scored pairs, sha256 {digest}" in done.stderr
    assert "2 of 6 pairs have a blank gold score" in done.stderr
    again = run_command(tmp_path, *arguments)
    assert "sts16: 4 scored pairs, already in" in again.stderr


def test_two_runs_do_not_share_a_folder(tmp_path, made):
    # Bug: one run deletes as leftovers what the other is writing.
    from bertflow_jax.workdir_lock import lock_workdir

    (tmp_path / "out").mkdir()
    with (
        lock_workdir(tmp_path / "out"),
        pytest.raises(WorkdirError, match=r"--data_dir=.*in use by another run"),
    ):
        prepare(["sickr"], tmp_path / "out", made[0], check_sizes=False)
