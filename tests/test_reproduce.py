"""The tables of the paper from recipe to comparison. Each test names the bug it catches."""

import json

import numpy as np
import pytest

from bertflow_jax.errors import ConfigError
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.evaluation.run import run_evaluation
from bertflow_jax.reproduce import scoring
from bertflow_jax.reproduce.options import Options, recipe_config, with_field
from bertflow_jax.reproduce.run import reproduce
from bertflow_jax.reproduce.tables import TABLES
from bertflow_jax.restore import load_run

SMALL = {
    "encoder.max_length": "16",
    "flow.levels": "1",
    "flow.depth": "1",
    "flow.width": "4",
    "train.steps": "3",
    "train.mode": "cached",
    "train.tensorboard": "false",
}
WORDS = ["the dog sleeps", "a cat eats fish", "bread is baked", "trains leave early", "we sing"]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """STS-B alone, of 16 pairs a split."""
    root = tmp_path_factory.mktemp("data")
    (root / "STSBenchmark").mkdir()
    rng = np.random.default_rng(0)
    for split in ("train", "dev", "test"):
        lines = [
            f"g\tf\ty\t{i}\t{rng.uniform(0, 5):.2f}\t{WORDS[i % 5]} {split}\t{WORDS[i % 3]} {i}"
            for i in range(16)
        ]
        (root / "STSBenchmark" / f"sts-{split}.csv").write_text("\n".join(lines) + "\n")
    return str(root)


def options(data_dir, output, table, *rows, **fields):
    given = {
        "data_dir": data_dir,
        "encoders": {"base": "mini_bert"},
        "overrides": SMALL | {"cache_dir": str(output / "cache")},
        "output": str(output),
    }
    return Options(table, rows, **{**given, **fields})


def scored(data_dir, tmp_path, **fields):
    """Scores of an ordinary evaluation of the same encoder."""
    return run_evaluation(
        EvalOptions(
            encoder="mini_bert", pooling="mean", max_length=16, data_dir=data_dir, tasks=("stsb",),
            output=str(tmp_path / "eval"), cache_dir=str(tmp_path / "cache"), report=False, **fields,
        )
    )["rows"]  # fmt: skip


def test_calibration_baselines_are_those_of_an_evaluation(data_dir, tmp_path, capsys):
    """Catches another pooling, text or length, and a difference of the wrong sign."""
    rows = ("raw", "natsv_1", "standardize_natsv_6", "flow_target")
    found = reproduce(options(data_dir, tmp_path, 5, *rows))
    expected = scored(data_dir, tmp_path, rows=("natsv:1", "standardize+natsv:6"))
    for ours, row in zip(rows, ("raw", "natsv:1", "standardize+natsv:6"), strict=False):
        cell = found["rows"][ours]["stsb"]
        assert cell["ours"] == pytest.approx(expected[row]["stsb"]["all"]["spearman"])
        assert cell["difference"] == pytest.approx(cell["ours"] - cell["published"])
    assert found["rows"]["raw"]["stsb"]["published"] == 47.29
    assert found["skipped"] == {}
    run = load_run(tmp_path / "base_flow_target" / "stsb-mean")
    flow = run_evaluation(
        EvalOptions(
            workdir=str(tmp_path / "base_flow_target" / "stsb-mean"), data_dir=data_dir,
            tasks=("stsb",), output=str(tmp_path / "flow"), report=False,
        )
    )["rows"]["flow"]  # fmt: skip
    assert found["rows"]["flow_target"]["stsb"]["ours"] == flow["stsb"]["all"]["spearman"]
    assert run.records.manifest["splits"] == ["train", "dev", "test"]
    table = (tmp_path / "table5.md").read_text()
    cell = found["rows"]["natsv_1"]["stsb"]
    assert f"| natsv_1 | {cell['ours']:.2f} |" in table
    assert f"| published | {51.79} |".replace("| p", "|   p") in table
    assert f"{cell['difference']:+.2f}" in capsys.readouterr().out


def test_started_again_it_goes_on(data_dir, tmp_path, monkeypatch):
    """Catches cells computed twice, and a kept score used for another recipe."""
    chosen = options(data_dir, tmp_path, 5, "raw", "standardize")
    first = reproduce(chosen)
    cut = tmp_path / "table5" / "standardize.stsb.json"
    cut.write_text(cut.read_text()[:40])
    computed = []
    score = scoring.score_task
    monkeypatch.setattr(
        scoring, "score_task", lambda cell: computed.append(cell.row.name) or score(cell)
    )
    again = reproduce(chosen)
    assert computed == ["standardize"]
    assert again["rows"] == first["rows"]
    shorter = SMALL | {"encoder.max_length": "5", "cache_dir": str(tmp_path / "cache")}
    other = reproduce(options(data_dir, tmp_path, 5, "raw", overrides=shorter))
    assert computed == ["standardize", "raw"]
    assert other["rows"]["raw"]["stsb"]["ours"] != first["rows"]["raw"]["stsb"]["ours"]


def test_what_cannot_be_had_is_skipped_with_the_reason(data_dir, tmp_path, monkeypatch):
    """Catches a run that ends at the first missing encoder, and rows dropped in silence."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = reproduce(
        options(data_dir, tmp_path, 3, "base_nli_first_last", "large_nli_flow_target")
    )
    assert found["rows"] == {}
    assert "--encoders=base_nli=FOLDER" in found["skipped"]["base_nli_first_last"]
    found = reproduce(options(data_dir, tmp_path, 2, "base_first_last", "base_flow_nli"))
    assert "no data of sickr" in found["skipped"]["base_first_last"]
    assert "--nli" in found["skipped"]["base_flow_nli"]
    found = reproduce(options(data_dir, tmp_path, 5, "raw", encoders={}))
    assert "bert-base-uncased" in found["skipped"]["raw"]
    assert json.loads((tmp_path / "table5.json").read_text())["skipped"] == found["skipped"]


def test_edit_distance_and_word_frequency(data_dir, tmp_path):
    """Catches the test split in place of dev, and gold taken for a row of the encoder."""
    found = reproduce(options(data_dir, tmp_path, 6, "gold", "bert"))
    dev = run_evaluation(
        EvalOptions(
            encoder="mini_bert", pooling="first_last", max_length=16, data_dir=data_dir,
            tasks=("stsb",), splits=("dev",), analyses=("edit_distance",), report=False,
            output=str(tmp_path / "eval"), cache_dir=str(tmp_path / "cache"),
        )
    )["analyses"]["edit_distance"]["stsb"]["words"]["rows"]  # fmt: skip
    for ours, row in (("gold", "gold"), ("bert", "raw")):
        assert found["rows"][ours]["stsb"]["ours"] == dev[row]["distance"]["spearman"]
    words = reproduce(options(None, tmp_path, 1, "[100, 500)"))["rows"]["[100, 500)"]
    assert words["norm"]["words"] == 400
    assert 0.5 < words["norm"]["ours"] < 1.5
    assert words["distance"]["published"] == 0.93


def test_a_siamese_encoder_is_trained_for_its_rows(data_dir, tmp_path):
    """Catches rows with NLI scored with the encoder that was not trained."""
    nli = tmp_path / "nli.tsv"
    names = ("entailment", "neutral", "contradiction")
    nli.write_text(
        "gold_label\tsentence1\tsentence2\n"
        + "".join(f"{names[i % 3]}\t{WORDS[i % 5]}\t{WORDS[i % 2]} {i}\n" for i in range(12))
    )
    path = scoring.train_nli_encoder(options(data_dir, tmp_path, 3, nli=str(nli)), "base_nli")
    trained = scoring.encoder_of(with_field(recipe_config("base_mean", {}), "encoder.path", path))
    plain = scoring.encoder_of(
        with_field(recipe_config("base_mean", {}), "encoder.path", "mini_bert")
    )
    assert trained[1]["weights_sha256"] != plain[1]["weights_sha256"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"table": 7}, "tables here are 1, 2, 3, 4, 5, 6"),
        ({"rows": ("x",)}, "no row x; its rows are raw, standardize"),
        ({"encoders": {"small": "x"}}, "unknown small"),
        ({"overrides": {"train.step": "1"}}, "unknown config field"),
        ({"overrides": {"train.steps": "many"}}, "must be of type int"),
    ],
)
def test_wrong_flags(tmp_path, fields, message):
    chosen = Options(**{"table": 5, "output": str(tmp_path), **fields})

    def use():
        chosen.chosen()
        recipe_config("base_mean", chosen.overrides)

    with pytest.raises(ConfigError, match=message):
        use()


def test_the_published_scores_are_the_papers():
    """Against paper.md: catches a column shifted by one."""
    rows = {row.name: row.published for row in TABLES[2].rows}
    assert (rows["base_flow_target"]["stsb"], rows["base_flow_target"]["sts16"]) == (70.72, 75.37)
    assert (rows["large_flow_nli"]["sickr"], rows["base_mean"]["sts12"]) == (64.62, 49.07)
    nli = {row.name: row.published for row in TABLES[4].rows}
    assert (nli["base_nli_flow_target"]["qnli"], nli["large_nli_flow_nli"]["qnli"]) == (
        76.17,
        74.19,
    )
