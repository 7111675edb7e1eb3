"""GLUE from TFDS, prepared by TFDS's own builder. Each test names the bug it catches."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tensorflow_datasets.core.download import download_manager
from tensorflow_datasets.text import glue as tfds_glue

from bertflow_jax.data.glue import load_glue_task
from bertflow_jax.errors import DataError, DataNotFoundError

ROOT = Path(__file__).parents[2]
QNLI = "index\tquestion\tsentence\tlabel"
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
STSB = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """(GLUE's files, the same data prepared by TFDS): eight pairs a split, so that TFDS shuffles."""
    root = tmp_path_factory.mktemp("glue")
    source, folder = root / "source", root / "tfds"

    def write(name, header, row, unlabelled):
        (source / name).mkdir(parents=True, exist_ok=True)
        for split in ("train", "dev", "test"):
            rows = [header, *(row(f"{split} {k}", k) for k in range(8))]
            if split == "test" and unlabelled:
                rows = [line.rpartition("\t")[0] for line in rows]
            (source / name / f"{split}.tsv").write_text("\n".join(rows) + "\n", "utf-8")

    names = ("entailment", "not_entailment")
    write("QNLI", QNLI, lambda text, k: f'{k}\t"é {text}?\t"{text}" it is\t{names[k % 2]}', True)
    write("QQP", QQP, lambda text, k: f"{k}\t1\t2\t{text} a?\t{text} b?\t{k % 2}", True)
    write("STS-B", STSB, lambda t, k: f"{k}\tg\tf\t1\t2\tn\tn\t{t}\t{t} b\t{k / 10 + 2:.3f}", True)
    write("MRPC", MRPC, lambda text, k: f"{k % 2}\t{text}\t0\t{text} a\t{text} b", False)
    dev_ids = "".join(f"dev {k}\t0\n" for k in range(8))
    (root / "dev_ids.tsv").write_text(dev_ids)
    rows = [
        (source / "MRPC" / f"{split}.tsv").read_text().split("\n", 1) for split in ("train", "dev")
    ]
    (root / "msr.txt").write_text("\ufeff" + MRPC + "\n" + rows[0][1] + rows[1][1], "utf-8")
    mrpc = {"dev_ids": root / "dev_ids.tsv", "train": root / "msr.txt"}
    mrpc["test"] = source / "MRPC" / "test.tsv"
    # TFDS looks the path up through a package that it does not ask for; reading never needs it.
    tfds_glue.Glue.code_path = None
    with pytest.MonkeyPatch.context() as patch:
        # Nothing is downloaded: the builder is given the files it would have fetched.
        manager = download_manager.DownloadManager
        patch.setattr(manager, "download_and_extract", lambda self, url: str(source))
        patch.setattr(manager, "download", lambda self, urls: mrpc)
        for task in ("qnli", "qqp", "stsb", "mrpc"):
            builder = tfds_glue.Glue(config=task, data_dir=folder, file_format="array_record")
            builder.download_and_prepare()
    del tfds_glue.Glue.code_path
    return source, folder


@pytest.mark.parametrize("task", ["qnli", "qqp", "stsb", "mrpc"])
@pytest.mark.parametrize("split", ["train", "dev"])
def test_tfds_gives_the_pairs_of_the_files(prepared, task, split):
    # Bug: QNLI's label 0, entailment, as negative; TFDS's shuffled order; float32 scores such as
    # 2.5999999; bytes as text.
    source, folder = prepared
    found = load_glue_task(task, f"tfds:{folder}", [split])
    assert found.sha256 == load_glue_task(task, source, [split]).sha256
    assert found.pairs == 8


def test_labels_held_back_are_an_error_and_dev_the_default(prepared):
    # Bug: TFDS's -1 taken for a label; MRPC's test has none in TFDS.
    for task in ("qnli", "qqp", "stsb", "mrpc"):
        with pytest.raises(DataError, match=rf"glue/{task}, split test, idx \d: no label"):
            load_glue_task(task, f"tfds:{prepared[1]}", ["test"])
        assert list(load_glue_task(task, f"tfds:{prepared[1]}").subsets) == ["dev"]


def test_tensorflow_is_not_imported(prepared):
    # Bug: seconds of loading, and a dependency that nothing else has.
    program = f"""
import sys
from bertflow_jax.data.glue import load_glue_task
assert "tensorflow_datasets" not in sys.modules
print(load_glue_task("qnli", {f"tfds:{prepared[1]}"!r}).pairs)
assert "tensorflow_datasets" in sys.modules and "tensorflow" not in sys.modules
"""
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert answer.stdout == "8\n", answer.stderr


def test_missing_and_damaged_data_are_told(prepared, tmp_path):
    # Bug: a download started, or a RuntimeError of a reader with no file name in it.
    with pytest.raises(DataNotFoundError, match=r"holds no prepared glue/qnli .*array_record"):
        load_glue_task("qnli", f"tfds:{tmp_path}")
    folder = tmp_path / "glue" / "qnli" / "2.0.0"
    folder.mkdir(parents=True)
    for path in (prepared[1] / "glue" / "qnli" / "2.0.0").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    data = next(folder.glob("glue-validation.array_record*"))
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(DataError, match=r"tfds:.*glue/qnli cannot be read \(.*prepare it again"):
        load_glue_task("qnli", f"tfds:{tmp_path}")
    (folder / "dataset_info.json").write_text("{")
    with pytest.raises(
        DataError, match=r"glue/qnli/.*dataset_info\.json: not valid JSON.*prepare it again"
    ):
        load_glue_task("qnli", f"tfds:{tmp_path}")


def test_a_format_for_tensorflow_is_told(prepared, tmp_path):
    # Bug: NotImplementedError with a traceback.
    folder = tmp_path / "glue" / "qnli" / "2.0.0"
    folder.mkdir(parents=True)
    for path in (prepared[1] / "glue" / "qnli" / "2.0.0").iterdir():
        text = path.read_bytes().replace(b'"array_record"', b'"tfrecord"')
        (folder / path.name.replace("array_record", "tfrecord")).write_bytes(text)
    with pytest.raises(DataError, match=r"format that only TensorFlow reads.*array_record"):
        load_glue_task("qnli", f"tfds:{tmp_path}")
