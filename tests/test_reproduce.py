"""The tables of the paper from recipe to comparison. Each test names the bug it catches."""

import pytest
from paper_made import SMALL, WORDS, fit_folder, options, write_stsb

from bertflow_jax.errors import ConfigError, DataNotFoundError
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.evaluation.run import run_evaluation
from bertflow_jax.reproduce import scoring
from bertflow_jax.reproduce.options import Options, recipe_config, with_field
from bertflow_jax.reproduce.run import reproduce
from bertflow_jax.reproduce.sources import Sources
from bertflow_jax.reproduce.tables import TABLES
from bertflow_jax.restore import load_run


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """STS-B alone, of 16 pairs a split."""
    return write_stsb(tmp_path_factory.mktemp("data"))


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
    fitted = fit_folder(tmp_path / "base_flow_target", "stsb-mean")
    run = load_run(fitted)
    flow = run_evaluation(
        EvalOptions(
            workdir=str(fitted), data_dir=data_dir, tasks=("stsb",),
            output=str(tmp_path / "flow"), report=False,
        )
    )["rows"]["flow"]  # fmt: skip
    assert found["rows"]["flow_target"]["stsb"]["ours"] == flow["stsb"]["all"]["spearman"]
    assert run.records.manifest["splits"] == ["train", "dev", "test"]
    table = (tmp_path / "table5.md").read_text()
    cell = found["rows"]["natsv_1"]["stsb"]
    assert f"| natsv_1 | {cell['ours']:.2f} |" in table
    assert f"| published | {51.79} |".replace("| p", "|   p") in table
    printed = capsys.readouterr().out
    assert f"{cell['difference']:+.2f}" in printed
    # 16 pairs a split stand beside scores of 1,379.
    note = "* STS-B: test has 16 scored pairs instead of 1379: not comparable with published scores"
    assert f"\n{note}\n" in printed
    assert f"- \\{note}" in table
    assert "|  | STS-B* |" in table


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


def test_what_cannot_be_had_is_left_out_with_the_reason(data_dir, tmp_path, monkeypatch, capsys):
    """Catches a run that ends at the first missing encoder or task, and cells dropped in silence."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = reproduce(options(data_dir, tmp_path, 2, "base_first_last", "base_flow_nli"))
    assert list(found["rows"]) == ["base_first_last"]
    assert list(found["rows"]["base_first_last"]) == ["stsb"]
    assert "no data of sickr" in found["missing"]["base_first_last"]["sickr"]
    assert "--nli" in found["skipped"]["base_flow_nli"]
    table = (tmp_path / "table2.md").read_text()
    ours = found["rows"]["base_first_last"]["stsb"]["ours"]
    assert f"| base_first_last | {ours:.2f} | -- | -- |" in table
    for text in (table, capsys.readouterr().out):
        assert text.count("no data of sickr") == 1
        assert text.count("give its files with --nli") == 1


def test_a_run_without_any_row_is_an_error_and_leaves_the_table(data_dir, tmp_path):
    """Catches exit 0 with an empty table in place of the one that was there."""
    reproduce(options(data_dir, tmp_path, 5, "raw"))
    before = (tmp_path / "table5.md").read_text()
    lacking = options(data_dir, tmp_path, 5, "raw", encoders={"base": "no-one/has-this-model"})
    with pytest.raises(ConfigError, match="no row of table 5 could be computed") as error:
        reproduce(lacking)
    assert str(error.value).count("no-one/has-this-model") == 1
    assert (tmp_path / "table5.md").read_text() == before
    with pytest.raises(ConfigError, match="encoders=base_nli=FOLDER"):
        reproduce(options(data_dir, tmp_path, 3, "base_nli_first_last", "large_nli_flow_target"))


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
    chosen = options(data_dir, tmp_path, 3, nli=str(nli))
    path = scoring.train_nli_encoder(chosen, "base_nli", Sources(chosen))
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
        ({"encoders": {"base": "./nowhere"}}, "--encoders=base=./nowhere: folder not found"),
        ({"encoders": {"base": "no such name"}}, "not a Hub id"),
        ({"overrides": {"train.step": "1"}}, "unknown config field"),
        ({"overrides": {"train.steps": "many"}}, "must be of type int"),
        ({"overrides": {"train.steps": "-1"}}, "--set.*train.steps=-1: must be >= 0"),
        ({"data_dir": "/nonexistent/folder"}, "--data_dir=/nonexistent/folder: no such folder"),
        ({"nli": "nothing.jsonl"}, "--nli=nothing.jsonl: no such file"),
        ({"corpus": "nothing.txt"}, "--corpus=nothing.txt: no such file"),
    ],
)
def test_wrong_flags(tmp_path, fields, message):
    """Catches a wrong flag that is told as a skipped row, after the encoder was loaded."""
    output = tmp_path / "out"
    with pytest.raises((ConfigError, DataNotFoundError), match=message):
        reproduce(Options(**{"table": 5, "output": str(output), **fields}))
    assert not output.exists()


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
