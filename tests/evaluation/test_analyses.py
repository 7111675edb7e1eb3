"""The paper's analyses through evaluate.py. Each test names the bug it catches."""

import json
import types

import numpy as np
import pytest

from bertflow_jax.encoder.pretrained import load_encoder
from bertflow_jax.errors import BertFlowError, ConfigError, DataNotFoundError
from bertflow_jax.evaluation import run, sources
from bertflow_jax.evaluation.analyses import ISOTROPY_TITLES, format_analyses
from bertflow_jax.evaluation.isotropy import MEASURES
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.evaluation.run import run_evaluation

ROWS = [(5, "a man runs", "a man runs fast"), (1, "a man runs", "the dog"), (3, "it", "it is")]


def encode(sentences):
    lengths = np.array([[len(text), text.count(" ") + 1, 1.0] for text in sentences])
    return lengths * [0.1, 1, 1]


@pytest.fixture
def options(tmp_path, monkeypatch):
    """Make options that score a stand-in encoder, whose tokenizer and words are mini_bert's."""
    folder = tmp_path / "data" / "STSBenchmark"
    folder.mkdir(parents=True)
    lines = [f"g\tf\ty\ti\t{gold}\t{first}\t{second}\n" for gold, first, second in ROWS]
    (folder / "sts-test.csv").write_text("".join(lines))
    (tmp_path / "corpus.txt").write_text("the man and a dog\n" * 3)

    def load(options):
        return types.SimpleNamespace(
            encode=encode,
            identity=lambda: {"pooling": "none"},
            encoder=load_encoder("mini_bert"),
            processor=None,
        )

    monkeypatch.setattr(sources, "_load_encoder", load)
    monkeypatch.chdir(tmp_path)

    def make(**fields):
        defaults = {"encoder": "x", "data_dir": "data", "tasks": ("stsb",), "output": "out"}
        return EvalOptions(**{**defaults, "cache_dir": "cache", **fields})

    return make


def written(tmp_path):
    text = (tmp_path / "out" / "results.json").read_text("utf-8")
    return json.loads(text, parse_constant=pytest.fail)


def test_isotropy_is_always_there_and_printed_on_request(options, tmp_path, capsys):
    # Bug: the measures missing without a flag, or another mean cosine than beside the table.
    run_evaluation(options())
    found = written(tmp_path)
    assert "analyses" not in found
    assert set(MEASURES) <= found["isotropy"]["raw"].keys()
    assert found["isotropy"]["raw"]["mean_cosine"] == found["mean_random_cosine"]["raw"]
    assert found["isotropy"]["raw"]["positive_pairs"] == 1
    assert "IsoScore" not in capsys.readouterr().out
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "How evenly the space is used" in page
    assert "Meaning or letters" not in page
    run_evaluation(options(analyses=("isotropy",), report=False))
    shown = f"IsoScore  {found['isotropy']['raw']['isoscore']:.3f}"
    assert shown.split() in [line.split()[:2] for line in capsys.readouterr().out.splitlines()]


def test_every_measure_has_a_title():
    # Bug: a KeyError after the scores were computed.
    assert tuple(ISOTROPY_TITLES) == MEASURES


def test_edit_distance_goes_to_file_terminal_and_report(options, tmp_path, capsys):
    # Bug: the three show different numbers, or the report has no section.
    run_evaluation(options(analyses=("edit_distance",)))
    found = written(tmp_path)["analyses"]
    assert found.keys() == {"edit_distance"}
    # Distances 1, 3, 1 and gold 5, 1, 3: ranks 1.5 3 1.5 and 3 1 2.
    gold = found["edit_distance"]["stsb"]["words"]["rows"]["gold"]["distance"]["spearman"]
    assert gold == pytest.approx(-86.6, abs=0.01)
    lines = capsys.readouterr().out.splitlines()
    assert ["gold", "-86.60"] in [line.split()[:2] for line in lines]
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "Meaning or letters" in page
    assert "<td>-86.60</td>" in page
    assert page.count('alt="Edit distance against similarity of 3 pairs') == 2


def test_word_frequency_with_and_without_a_corpus(options, tmp_path, capsys):
    # Bug: the corpus ignored; a table of a bin without words filled with NaN.
    run_evaluation(options(analyses=("word_frequency",)))
    found = written(tmp_path)["analyses"]["word_frequency"]
    assert (found["order"], found["ranked_words"]) == ("vocabulary", 8187)
    assert "order of the vocabulary, no counts" in capsys.readouterr().out
    run_evaluation(options(analyses=("word_frequency",), corpus="corpus.txt"))
    found = written(tmp_path)["analyses"]["word_frequency"]
    assert (found["order"], found["corpus"]) == ("corpus", "corpus.txt")
    assert found["bins"]["(0, 100)"]["norm"] is None
    assert "15 tokens of corpus.txt" in capsys.readouterr().out
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "5 ranked words in this bin, 10 are needed" in page


def test_scores_are_written_before_an_analysis_fails(options, tmp_path, monkeypatch):
    # Bug: a word list of the wrong encoding loses the scores.
    def fail(*args):
        raise RuntimeError("analysis failed")

    monkeypatch.setattr(run, "run_analyses", fail)
    with pytest.raises(RuntimeError, match="analysis failed"):
        run_evaluation(options(analyses=("edit_distance",)))
    assert written(tmp_path)["rows"]["raw"]["stsb"]["pairs"] == 3
    assert (tmp_path / "out" / "table.md").is_file()


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"analyses": ("isotrpy",)}, ConfigError, "unknown 'isotrpy'; known are isotropy, edit"),
        ({"analyses": ("isotropy", "")}, ConfigError, "--analyses=isotropy,: unknown ''"),
        ({"corpus": "corpus.txt"}, ConfigError, "--corpus is the text that --analyses=word"),
        ({"analyses": ("word_frequency",), "corpus": " "}, ConfigError, "--corpus is blank"),
        (
            {"analyses": ("word_frequency",), "corpus": "no.txt"},
            DataNotFoundError,
            "--corpus=no.txt: no such file",
        ),
    ],
)
def test_mistakes_are_found_before_a_model_is_loaded(options, monkeypatch, fields, kind, message):
    # Bug: found after minutes of encoding.
    for source in ("encoder_source", "workdir_source"):
        monkeypatch.setattr(sources, source, lambda *args: pytest.fail("a model was loaded"))
    with pytest.raises(kind) as caught:
        run_evaluation(options(**fields))
    assert message in str(caught.value)
    assert isinstance(caught.value, BertFlowError)


def test_tables_of_results_without_analyses():
    # Bug: a KeyError where only another analysis was asked for.
    assert format_analyses({"isotropy": {}}, ["edit_distance"]) == ""
