"""Rows fitted for an evaluation. Each test names the bug it catches."""

import dataclasses

import numpy as np
import pytest

from bertflow_jax.config import Config, DataConfig, EncoderConfig, FlowConfig, TrainConfig
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.text import TextCorpus, load_text
from bertflow_jax.errors import ConfigError
from bertflow_jax.evaluation import sources
from bertflow_jax.evaluation.fitted_rows import (
    FitTexts,
    _mean,
    check_rows,
    load_fit_texts,
    score_rows,
)
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.evaluation.run import run_evaluation
from bertflow_jax.evaluation.table import format_table
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate_task
from bertflow_jax.postprocess import NATSV, Compose, Standardize, Whitening
from bertflow_jax.postprocess.spec import make_postprocessor

DIMS = 8
SMALL = Config(
    encoder=EncoderConfig(pooling="first_last"),
    flow=FlowConfig(levels=1, depth=1, width=8),
    train=TrainConfig(steps=12, batch_size=8, tensorboard=False),
)


class Numbers:
    """Gives every sentence a vector of its own, whatever batch it comes in."""

    processor = None

    def encode(self, sentences, **_):
        rows = [np.random.default_rng(list(text.encode())).normal(size=DIMS) for text in sentences]
        return (np.asarray(rows) * np.arange(1, DIMS + 1) + 3).astype(np.float32)

    def identity(self):
        return {"pooling": "numbers"}


@pytest.fixture
def data_dir(tmp_path):
    """STS-B with three splits of 20, 6 and 9 pairs, and STS12 with two subsets."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data" / "STSBenchmark"
    folder.mkdir(parents=True)
    for split, count in (("train", 20), ("dev", 6), ("test", 9)):
        lines = [
            f"g\tf\ty\ti\t{rng.uniform(0, 5):.2f}\t{split} a{i % 5}\t{split} b{i}"
            for i in range(count)
        ]
        (folder / f"sts-{split}.csv").write_text("\n".join(lines) + "\n")
    year = tmp_path / "data" / "STS" / "STS12-en-test"
    year.mkdir(parents=True)
    for subset, count in (("MSRpar", 8), ("MSRvid", 12)):
        (year / f"STS.input.{subset}.txt").write_text(
            "".join(f"{subset} a{i}\t{subset} b{i}\n" for i in range(count))
        )
        (year / f"STS.gs.{subset}.txt").write_text(
            "".join(f"{rng.uniform(0, 5):.2f}\n" for _ in range(count))
        )
    return str(tmp_path / "data")


@pytest.fixture
def numbers(monkeypatch):
    monkeypatch.setattr(sources, "_load_encoder", lambda options: Numbers())


def options(data_dir, tmp_path, **fields):
    given = {
        "data_dir": data_dir, "encoder": "numbers", "tasks": ("stsb", "sts12"), "report": False,
        "output": str(tmp_path / "out"), "cache_dir": str(tmp_path / "cache"), "config": SMALL,
    }  # fmt: skip
    return EvalOptions(**{**given, **fields})


def expected(data_dir, task, fit_task, splits, processor):
    """Score by hand: every occurrence of every sentence of the fit's text counts."""
    corpus = load_fit_texts(fit_task, splits, [task], data_dir).corpora[task]
    occurrences = [text for example in corpus.examples for text in example]
    processor.fit(Numbers().encode(occurrences))
    scored = load_task(task, data_dir)
    return evaluate_task(scored, lambda texts: processor.transform(Numbers().encode(texts)))


@pytest.mark.usefixtures("numbers")
def test_target_rows_are_fitted_on_each_tasks_own_text(data_dir, tmp_path):
    """Catches one fit for all tasks, a fit on the scored split alone, and repeats left out."""
    results = run_evaluation(options(data_dir, tmp_path, rows=("standardize", "whitening:3:0.5")))
    for task, splits in (("stsb", ("train", "dev", "test")), ("sts12", ())):
        for row, processor in (
            ("standardize", Standardize()),
            ("whitening:3:0.5", Whitening(3, 0.5)),
        ):
            by_hand = expected(data_dir, task, task, splits, processor)
            assert results["rows"][row][task]["wmean"] == by_hand["wmean"]
    fitted = results["model"]["fitted"]["text"]
    assert fitted["stsb"]["examples"] == 35
    assert fitted["sts12"]["examples"] == 20


@pytest.mark.usefixtures("numbers")
def test_rows_fitted_on_one_task_for_all(data_dir, tmp_path):
    """Catches --fit or --fit_splits that are read and not used."""
    rows = ("standardize+natsv:2",)
    chosen = options(data_dir, tmp_path, rows=rows, fit="stsb", fit_splits=("train",))
    results = run_evaluation(chosen)
    for task in ("stsb", "sts12"):
        by_hand = expected(data_dir, task, "stsb", ("train",), Compose([Standardize(), NATSV(2)]))
        assert results["rows"][rows[0]][task]["all"] == by_hand["all"]
    assert results["model"]["fitted"]["text"]["sts12"]["splits"] == ["train"]


@pytest.mark.usefixtures("numbers")
def test_seeds_give_means_and_spreads(data_dir, tmp_path):
    """Catches a spread over n, a mean of one seed, and baselines fitted once a seed."""
    chosen = options(data_dir, tmp_path, rows=("center", "flow"), seeds=("0", "1", "5"))
    results = run_evaluation(chosen)
    flow = results["rows"]["flow"]
    scores = [run["sts12"]["wmean"]["spearman"] for run in flow["seeds"].values()]
    assert list(flow["seeds"]) == ["0", "1", "5"]
    assert len(set(scores)) == 3
    assert flow["sts12"]["wmean"]["spearman"] == pytest.approx(np.mean(scores))
    assert flow["spread"]["sts12"]["wmean"] == pytest.approx(np.std(scores, ddof=1))
    assert flow["average"] == pytest.approx(np.mean([r["average"] for r in flow["seeds"].values()]))
    averages = [run["average"] for run in flow["seeds"].values()]
    assert flow["spread"]["average"]["wmean"] == pytest.approx(np.std(averages, ddof=1))
    cell = f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}"
    assert cell in format_table(results)
    assert cell.split(" ")[0] in (tmp_path / "out" / "table.md").read_text()
    assert flow["sts12"]["pairs"] == 20
    assert "seeds" not in results["rows"]["center"]
    alone = run_evaluation(dataclasses.replace(chosen, rows=("flow",), seeds=("5",)))
    assert alone["rows"]["flow"]["stsb"] == flow["seeds"]["5"]["stsb"]


@pytest.mark.slow
def test_a_flow_row_is_the_flow_that_train_py_fits(tmp_path):
    """Catches pairs fitted as single sentences, another order or another seed."""
    from bertflow_jax.training.run import train

    train(dataclasses.replace(SMALL, seed=3, cache_dir=str(tmp_path / "c")), tmp_path / "run")
    results = run_evaluation(
        EvalOptions(workdir=str(tmp_path / "run"), rows=("flow",), seeds=("3",), report=False)
    )
    own, refitted = results["rows"]["flow"], results["rows"]["flow, fitted here"]
    assert own["everyday"] == refitted["everyday"]
    assert own["everyday"] != results["rows"]["raw"]["everyday"]


def test_the_table_of_an_undefined_score():
    """Catches a mean that skips a seed without a score, and NaN."""
    corpus = TextCorpus([("a", "b"), ("c", "d"), ("e", "f")], {"path": "x"})
    texts = "abcdef"
    raw = SentenceTable({t: i for i, t in enumerate(texts)}, Numbers().encode(texts))
    task = load_task("everyday")
    pairs = dataclasses.replace(
        task.subsets["everyday"], sentences1=["a"], sentences2=["b"], scores=np.ones(1)
    )
    one = dataclasses.replace(task, subsets={"everyday": pairs})
    rows, _ = score_rows(
        EvalOptions(rows=("flow",), seeds=("0", "1")),
        SMALL,
        raw,
        FitTexts({"everyday": corpus}),
        [one],
    )
    assert rows["flow"]["everyday"]["all"]["spearman"] is None
    assert "fewer than two" in rows["flow"]["everyday"]["all"]["reason"]
    assert rows["flow"]["spread"]["everyday"]["all"] is None


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_reason_of_a_later_seed_is_kept(order):
    """Catches null without a reason where the first seed has a score."""
    good = {"all": {"spearman": 50.0, "pearson": 40.0}, "pairs": 9}
    bad = {"all": {"spearman": None, "pearson": None, "reason": "equal"}, "pairs": 9}
    found = _mean([(good, bad)[i] for i in order])
    assert found == {"all": {"spearman": None, "pearson": None, "reason": "equal"}, "pairs": 9}


@pytest.mark.usefixtures("numbers")
def test_fit_splits_do_not_apply_to_a_year(data_dir, tmp_path, caplog, capsys):
    """Catches a year fitted on all its text under the name of a split, without a word."""
    results = run_evaluation(options(data_dir, tmp_path, rows=("center",), fit_splits=("train",)))
    assert "--fit_splits=train does not apply to sts12" in caplog.text
    assert results["model"]["fitted"]["whole_text"] == ["sts12"]
    printed = capsys.readouterr().out
    assert "STS12*" in printed
    assert "* STS12: fitted on all text of the task" in printed
    assert r"STS12\*" in (tmp_path / "out" / "table.md").read_text()
    caplog.clear()
    chosen = options(data_dir, tmp_path, rows=("center",), fit_splits=("train",), tasks=("stsb",))
    run_evaluation(chosen)
    assert "does not apply" not in caplog.text
    assert "fitted on all text" not in capsys.readouterr().out


@pytest.mark.usefixtures("numbers")
def test_the_isotropy_names_its_task(data_dir, tmp_path, capsys):
    """Catches two different mean cosines of random pairs that nothing tells apart."""
    run_evaluation(options(data_dir, tmp_path, rows=("center",), analyses=("isotropy",)))
    printed = capsys.readouterr().out
    assert "(sentences of all tasks)" in printed
    assert "Isotropy of the sentences of STS-B\n" in printed


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rows": ("whiten",)}, "no post-processor 'whiten'; known: center, standardize"),
        ({"rows": ("natsv:0",)}, "row 'natsv:0': k=0"),
        ({"rows": ("natsv:x",)}, "'x' is not a number"),
        ({"rows": ("truncate",)}, "takes 1 number"),
        ({"rows": ("center:3",)}, "takes 0 number"),
        ({"rows": ("center", "center")}, "named twice"),
        ({"rows": ("center", "")}, "is blank"),
        (
            {"rows": ("whitening:4", "center", "whitening:004")},
            "whitening:4 and whitening:004 are the same row",
        ),
        ({"rows": ("whitening:4:1", "whitening:4")}, "are the same row"),
        ({"rows": ("natsv", "natsv:1")}, "natsv and natsv:1 are the same row"),
        ({"rows": ("whitening:all:0", "whitening:all:0.0")}, "are the same row"),
        ({"rows": ("center+flow", "center + flow")}, "are the same row"),
        ({"rows": ("flow",), "seeds": ("0", "00")}, "--seeds=0,00: a seed is named twice"),
        ({"fit": "stsb"}, "give --rows too"),
        ({"rows": ("center",), "fit": "nothing"}, "nor a text file"),
        ({"rows": ("center",), "fit": "run"}, "an encoder has none"),
        ({"rows": ("center",), "seeds": ("a",)}, "integers >= 0"),
        (
            {"rows": ("center",), "fit": __file__, "fit_splits": ("train",)},
            "--fit_splits=train does not apply to --fit=.*no splits",
        ),
        ({"rows": ("center",), "fit": "sts12", "fit_splits": ("dev",)}, "does not apply"),
        ({"rows": ("whitening:0.5",)}, "whitening:all:0.5"),
    ],
)
@pytest.mark.usefixtures("numbers")
def test_wrong_flags(data_dir, tmp_path, fields, message):
    with pytest.raises(ConfigError, match=message):
        run_evaluation(options(data_dir, tmp_path, **fields))


def test_rows_that_differ_are_not_taken_for_the_same():
    """Catches a comparison that leaves out a number, the order or the kind."""
    rows = "center standardize natsv:2 natsv:3 whitening whitening:4 whitening:4:0.5 zca:4 pca:4 "
    rows += "truncate:4 block_mean:4 flow center+flow center+whitening:4 standardize+natsv:2 "
    check_rows((rows + "natsv:2+standardize").split())


def test_names_give_what_they_say():
    """Catches an alpha taken for a k, and PCA where ZCA is named."""
    half = make_postprocessor("whitening:all:0.5", Standardize)
    assert (half.k, half.alpha, half.kind) == (None, 0.5, "pca")
    zca = make_postprocessor("zca:5", Standardize)
    assert (zca.k, zca.alpha, zca.kind) == (5, 1.0, "zca")
    assert make_postprocessor("truncate:3", Standardize).how == "truncate"
    flow = NATSV(2)  # what `flow` means is the caller's
    both = make_postprocessor("whitening + flow", lambda: flow)
    assert both.steps[1] is flow


def test_fit_text_from_a_file(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("one\ntwo\nthree\n")
    texts = load_fit_texts(str(file), (), ["stsb", "sickr"], None)
    assert texts.sentences == ["one", "two", "three"]
    own = load_fit_texts("", (), ["stsb"], None, lambda: load_text(DataConfig()))
    assert own.manifests["stsb"]["path"] == "everyday"
