"""Labelled pairs from flags to results.json, table and report. Each test names the bug it catches."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as sk

from bertflow_jax.data.glue import BinaryTask, load_glue_task
from bertflow_jax.data.sts import ScoredPairs, StsTask
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.errors import BertFlowError, ConfigError, DataError, DataNotFoundError
from bertflow_jax.evaluation import sources
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.evaluation.plot_data import plot_rows
from bertflow_jax.evaluation.plots import effect_figure, similarity_limits
from bertflow_jax.evaluation.published import PUBLISHED
from bertflow_jax.evaluation.report import write_report
from bertflow_jax.evaluation.results import build_results
from bertflow_jax.evaluation.run import run_evaluation
from bertflow_jax.evaluation.table import format_table
from bertflow_jax.evaluation.task_loading import load_tasks
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate

ROOT = Path(__file__).parents[2]
QNLI = "index\tquestion\tsentence\tlabel"
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
MRPC = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
PAIRS = [
    ("How is bread made?", "Bread is made of flour, water and salt.", 1),
    ("How is bread made?", "The train leaves at noon.", 0),
    ("When does the train leave?", "The train leaves at noon.", 1),
    ("When does the train leave?", "How is the dog today?", 0),
    ("Where does the dog sleep?", "A dog sleeps on the sofa.", 1),
    ("Where does the dog sleep?", "Where is the salt?", 0),
]


def evaluate_py(cwd, *args):
    return subprocess.run(
        [sys.executable, str(ROOT / "evaluate.py"), *args],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", "utf-8")


@pytest.fixture
def data_dir(tmp_path):
    """The pairs as QNLI and QQP (dev) and as MRPC (train, and four of them as test); an STS-B."""
    root = tmp_path / "data"
    names = ("not_entailment", "entailment")
    pairs = list(enumerate(PAIRS))
    write(root / "QNLI/dev.tsv", QNLI, *(f"{k}\t{a}\t{b}\t{names[y]}" for k, (a, b, y) in pairs))
    write(root / "QNLI/test.tsv", QNLI.removesuffix("\tlabel"), "0\tA\tB")
    qqp = [f"{k}\t1\t2\t{a}\t{b}\t{y}" for k, (a, b, y) in pairs]
    write(root / "QQP/dev.tsv", QQP, *qqp, "9\t1\t2\tcut in two")
    mrpc = [f"{y}\t{k}\t0\t{a}\t{b}" for k, (a, b, y) in pairs]
    write(root / "MRPC/msr_paraphrase_train.txt", MRPC, *mrpc)
    write(root / "MRPC/msr_paraphrase_test.txt", MRPC, *mrpc[:4])
    write(
        root / "STSBenchmark/sts-test.csv",
        *(f"g\tf\ty\t{k}\t{k}\t{a}\t{b}" for k, (a, b, _) in pairs),
    )
    return str(root)


def reference(similarity):
    """(similarities, labels) of PAIRS under mini_bert, computed apart from the evaluation."""
    encoder = SentenceEncoder.from_pretrained("mini_bert", pooling="mean")
    a, b = (encoder.encode([pair[side] for pair in PAIRS]).astype(float) for side in (0, 1))
    if similarity == "cosine":
        values = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    else:
        values = -np.abs(a - b).sum(1)
    return values, np.array([pair[2] for pair in PAIRS])


def test_from_command_to_scores(data_dir, tmp_path):
    # Bug: the flag recorded but another similarity computed; AUC in the average; the wrong split;
    # MRPC's thresholds chosen on the pairs that are scored.
    args = ["--encoder=mini_bert", f"--data_dir={data_dir}", "--tasks=qqp,stsb,qnli,mrpc"]
    answer = evaluate_py(tmp_path, *args, "--output=out", "--similarity=manhattan")
    assert answer.returncode == 0, answer.stderr
    found = json.loads((tmp_path / "out/results.json").read_text("utf-8"))
    assert found["provenance"]["similarity"] == "manhattan"
    row = found["rows"]["raw"]
    values, labels = reference("manhattan")
    expected = 100 * sk.roc_auc_score(labels, values)
    assert 0 < expected < 100
    assert row["qnli"]["auc"] == row["qqp"]["auc"] == pytest.approx(expected)
    assert row["mrpc"]["auc"] == pytest.approx(100 * sk.roc_auc_score(labels[:4], values[:4]))
    assert (row["qnli"]["pairs"], row["qnli"]["positives"], row["mrpc"]["pairs"]) == (6, 3, 4)
    assert (row["qnli"]["split"], row["qnli"]["threshold_from"]) == ("dev", "dev")
    assert (row["mrpc"]["split"], row["mrpc"]["threshold_from"]) == ("test", "train")
    best = max(np.mean((values >= t) == labels) for t in [*values, np.inf])
    assert row["qnli"]["accuracy"] == pytest.approx(100 * best)
    threshold = row["mrpc"]["accuracy_threshold"]
    assert np.mean((values >= threshold) == labels) == pytest.approx(best)
    right = np.mean((values[:4] >= threshold) == labels[:4])
    assert row["mrpc"]["accuracy"] == pytest.approx(100 * right)
    assert row["average"] == row["stsb"]["all"]["spearman"] == found["averages"]["raw"]["all"]
    table = answer.stdout.splitlines()
    assert table[0] == (
        "Spearman x 100 of the negative Manhattan distance, wmean over subsets; QNLI, MRPC, QQP: "
        "AUC x 100"
    )
    assert table[1].split() == ["STS-B*", "QNLI*", "MRPC*", "QQP*"]  # a few pairs
    assert table[2].split()[2] == f"{expected:.2f}"
    origin = found["provenance"]["tasks"]
    assert origin["mrpc"]["thresholds"]["split"] == "train"
    assert origin["mrpc"]["thresholds"]["pairs"] == 6
    assert "1 line with a wrong number of columns skipped" in origin["qqp"]["notes"][1]
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert "Negative Manhattan distance against gold score" in page


def options(data_dir, tmp_path, /, **fields):
    defaults = {"data_dir": data_dir, "encoder": "mini_bert", "output": str(tmp_path / "out")}
    return EvalOptions(**{**defaults, **fields})


def test_a_run_of_binary_tasks_alone(data_dir, tmp_path, capsys):
    # Bug: an average of nothing (NaN, or an error) where no task has a correlation.
    figure = tmp_path / "effect.svg"
    found = run_evaluation(options(data_dir, tmp_path, tasks=("qnli", "qqp"), figure=str(figure)))
    row = found["rows"]["raw"]
    assert (row["average"], row["reason"]) == (None, "no wmean score of any task")
    assert found["averages"]["raw"] == {"all": None, "mean": None, "wmean": None}
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "AUC x 100 of the cosine"
    assert table[1].split() == ["QNLI*", "QQP*"]
    values, labels = reference("cosine")
    assert row["qnli"]["auc"] == pytest.approx(100 * sk.roc_auc_score(labels, values))
    auc = f"{row['qnli']['auc']:.2f}"
    assert table[2].split() == ["raw", auc, auc]
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert f"The AUC of QNLI is {auc}." in page
    assert "Cosine by label" in page
    assert "Labelled pairs" in page
    assert "Every subset" not in page
    assert ">label 1</text>" in figure.read_text("utf-8")
    assert f">raw: AUC {row['qnli']['auc']:.1f}</text>" in figure.read_text("utf-8")


CONFLICTS = [
    ({"similarity": "angle"}, ConfigError, "--similarity=angle: must be one of cosine, dot, eucl"),
    ({"tasks": ("rte",)}, ConfigError, "unknown rte; known are stsb"),
    ({"data_dir": None}, ConfigError, "--tasks=qnli needs --data_dir=DIR"),
    ({"splits": ("test",)}, DataError, "QNLI/test.tsv, line 2: no label"),
    ({"splits": ()}, DataError, "--splits=: qnli has no split"),
    ({"splits": ("all",)}, DataError, "--splits=all: qnli has no split 'all'"),
    ({"data_dir": "."}, DataNotFoundError, "holds no data of qnli (looked for"),
    ({"data_dir": "tfds:."}, DataNotFoundError, "holds no prepared glue/qnli"),
]


@pytest.mark.parametrize(("fields", "kind", "message"), CONFLICTS)
def test_mistakes_are_found_before_a_model_is_loaded(
    data_dir, tmp_path, monkeypatch, fields, kind, message
):
    # Bug: found after minutes of loading and encoding.
    for source in ("encoder_source", "workdir_source"):
        monkeypatch.setattr(sources, source, lambda *args: pytest.fail("a model was loaded"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as caught:
        run_evaluation(options(data_dir, tmp_path, **{"tasks": ("qnli",), **fields}))
    assert message in str(caught.value)
    assert isinstance(caught.value, BertFlowError)


def test_command_line_mistakes_exit_with_2(data_dir, tmp_path):
    # Bug: a traceback, or another similarity than the one that was misspelt.
    for arguments, message in [
        (["--similarity=angle"], "--similarity=angle"),
        (["--tasks=qnli", f"--data_dir={data_dir}", "--splits=test"], "no label"),
    ]:
        answer = evaluate_py(tmp_path, "--encoder=mini_bert", *arguments)
        assert answer.returncode == 2, answer.stderr
        assert answer.stderr.startswith("error: ")
        assert message in answer.stderr
        assert "Traceback" not in answer.stderr


def test_tasks_that_are_there_are_named(data_dir):
    # Bug: a folder of GLUE alone, and a complaint about STS-B that does not say what to do.
    shutil.rmtree(Path(data_dir) / "STSBenchmark")
    with pytest.raises(DataNotFoundError, match=r"no data of stsb.*give --tasks=qnli,mrpc,qqp for"):
        load_tasks(EvalOptions(data_dir=data_dir))
    with pytest.raises(DataNotFoundError) as error:
        load_tasks(EvalOptions(data_dir=data_dir, tasks=("stsb",)))
    assert "--tasks=" not in str(error.value)


def test_splits_overrides_the_default(data_dir, tmp_path):
    # Bug: test scored whatever was asked for.
    asked = options(data_dir, tmp_path, tasks=("mrpc",), splits=("train",), report=False)
    row = run_evaluation(asked)["rows"]["raw"]["mrpc"]
    assert (row["split"], row["pairs"], row["threshold_from"]) == ("train", 6, "train")


def pairs(name, cosines, labels):
    return ScoredPairs(
        name, ["1"] * len(labels), [str(c) for c in cosines], np.array(labels, float)
    )


def binary_task(cosines, labels, name="qnli"):
    found = pairs("dev", cosines, labels)
    return BinaryTask(name, {"dev": found}, threshold_pairs=found, threshold_from="dev")


def embed(sentences):
    cosines = np.array([float(text) for text in sentences])
    return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)


def results_of(*tasks, similarity="cosine"):
    raw = SentenceTable.build(tasks, embed)
    tables = {"raw": raw, "flow": raw.map(np.negative)}
    rows = evaluate(tasks, tables, similarity)
    model = {"encoder": {"path": "p", "pooling": "mean"}, "flow": None}
    results = build_results(model, rows, tasks, 0, dict.fromkeys(rows), similarity=similarity)
    return results, plot_rows(tasks[0], tables, rows, similarity=similarity)


GOOD = binary_task([0.1, 0.2, 0.2, 0.7], [0, 1, 0, 1])
FIRST = StsTask("stsb", {"test": pairs("test", [0.1, 0.5, 0.9], [0, 3, 2])})
SECOND = StsTask("sts12", {"test": pairs("test", [0.1, 0.9], [1, 2])})


def test_the_average_is_over_correlations_and_stands_before_the_auc():
    # Bug: Spearman and AUC averaged, or the AUC read under Avg.
    results, _ = results_of(GOOD, SECOND, FIRST)
    assert results["rows"]["raw"]["average"] == pytest.approx(75)
    lines = format_table(results, "wmean", PUBLISHED).splitlines()
    assert lines[1].split() == ["STS-B*", "STS12*", "Avg*", "QNLI*"]
    assert lines[2].split() == ["raw", "50.00", "100.00", "75.00", "87.50"]
    base = next(line for line in lines if line.startswith("BERT-base-NLI first_last (Li"))
    assert base.split()[-4:] == ["78.03", "68.37", "73.20", "70.30"]
    large = next(line for line in lines if line.startswith("BERT-large-NLI first_last (Li"))
    assert large.split()[-1] == "70.41"


def test_published_rows_without_a_shown_task_are_left_out():
    # Bug: rows of blanks, of QNLI alone in a table of STS and the reverse.
    sts = format_table(results_of(FIRST)[0], published=PUBLISHED)
    assert "BERT-large-NLI first_last (Li" not in sts
    assert (
        sum(
            "Li et al." in line
            for line in format_table(results_of(GOOD)[0], published=PUBLISHED).splitlines()
        )
        == 6
    )


def test_one_class_is_null_in_file_table_and_report(tmp_path):
    # Bug: NaN in results.json; a crash in the report after the scores.
    results, rows = results_of(binary_task([0.1, 0.2], [1, 1]))
    json.dumps(results, allow_nan=False)
    assert results["rows"]["raw"]["qnli"]["reason"] == "all labels are 1"
    table = format_table(results).splitlines()
    assert table[2].split() == ["raw", "n/a"]
    assert "QNLI, raw: all labels are 1" in table
    write_report(tmp_path / "report.html", results, rows, "qnli")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "At least one AUC is undefined" in page
    assert "QNLI, raw: all labels are 1." in page


def test_the_report_tells_accuracy_threshold_and_its_split(tmp_path):
    # Bug: an accuracy without saying where its threshold is from.
    results, rows = results_of(GOOD)
    write_report(tmp_path / "report.html", results, rows, "qnli")
    page = (tmp_path / "report.html").read_text("utf-8")
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t", page[page.index("Labelled pairs") :])
    start = cells.index("QNLI dev, raw")
    # Above 0.45 are three of four right; F1 is highest from the midpoint of .1 and .2: 4 / 5.
    assert cells[start : start + 9] == [
        "QNLI dev, raw", "4", "2", "87.50", "75.00", "80.00", "0.45", "0.15", "dev",
    ]  # fmt: skip
    assert "upper bounds" in page


@pytest.mark.parametrize(
    ("task", "similarity"),
    [(GOOD, "euclidean"), (FIRST, "euclidean"), (binary_task([0.5, 0.5], [0, 1]), "cosine")],
)
def test_figures_of_any_similarity(tmp_path, task, similarity):
    # Bug: distances drawn on the axis of a cosine, where no point is visible.
    _, rows = results_of(task, similarity=similarity)
    low, high = similarity_limits(rows)
    values = np.concatenate([row.similarities for row in rows])
    assert low < values.min() <= values.max() < high
    effect_figure(tmp_path / "effect.svg", rows, "pairs")
    name = {"euclidean": "negative Euclidean distance", "cosine": "cosine"}[similarity]
    assert f">{name}</text>" in (tmp_path / "effect.svg").read_text("utf-8")


def test_sentences_of_the_threshold_split_are_embedded_once_with_the_rest(data_dir):
    # Bug: KeyError for a sentence of the other split, or a second pass of the encoder.
    task = load_glue_task("mrpc", data_dir)
    calls = []

    def count(sentences):
        calls.append(sentences)
        return np.random.default_rng(0).normal(size=(len(sentences), 3))

    evaluate([task], {"raw": SentenceTable.build([task], count)})
    assert len(calls) == 1
    assert set(calls[0]) == {text for a, b, _ in PAIRS for text in (a, b)}
