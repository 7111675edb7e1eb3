"""Labelled pairs: every format, what is left out, and what is refused with file, line and value."""

import gzip
import json

import numpy as np
import pytest

from bertflow_jax.config import Config, TrainConfig
from bertflow_jax.data.nli import LABELS
from bertflow_jax.data.supervision import load_dev_pairs, load_training_pairs
from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError
from bertflow_jax.supervision_config import SupervisionConfig
from bertflow_jax.training.supervised_run import _warn_without_dev

E, N, C = (LABELS.index(name) for name in ("entailment", "neutral", "contradiction"))
ROWS = [
    ("A man sleeps.", "A person rests.", "entailment"),
    ('He said "no.', "NA", "neutral"),
    ("Two dogs run.", "Nothing moves.", "-"),
    ("It rains.", "It is dry.", "contradiction"),
]
SNLI_HEADER = (
    "gold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
    "sentence2_parse\tsentence1\tsentence2\tcaptionID\tpairID\tlabel1\tlabel2"
)
MNLI_HEADER = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
    "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label"
)
SICK5 = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"


def load(path, **fields):
    return load_training_pairs(SupervisionConfig(path=str(path), **fields), "siamese")


def jsonl(rows, names=("sentence1", "sentence2", "gold_label")):
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


def files():
    """Name -> content of the same four pairs as every kind of file has them."""
    snli = "\n".join(
        "\t".join([gold, "( a", "( b", "(R", "(R", one, two, "c#0", "p1", gold, ""])
        for one, two, gold in ROWS
    )
    mnli = "\n".join(
        "\t".join([str(i), "7", "7e", "fiction", "(", "(", "(", "(", one, two, gold, gold])
        for i, (one, two, gold) in enumerate(ROWS)
    )
    allnli = "\n".join(f"train\tSNLI\tx.txt\t{a}\t{b}\t{gold}" for a, b, gold in ROWS)
    csv = '"He said ""no."'
    return {
        "snli_1.0_train.jsonl": jsonl(ROWS),
        "premise.jsonl": jsonl(ROWS, ("premise", "hypothesis", "label")),
        "snli_1.0_train.txt": f"{SNLI_HEADER}\n{snli}\n",
        "train.tsv": f"{MNLI_HEADER}\n{mnli}\n",
        "AllNLI.tsv": "split\tdataset\tfilename\tsentence1\tsentence2\tlabel\n"
        + f"dev\tSNLI\tx.txt\tother\tother\tneutral\n{allnli}\n",
        "pairs.csv": "sentence1,sentence2,label\n"
        + "\n".join(
            f"{csv if one.startswith('He') else one},{two},{gold}" for one, two, gold in ROWS
        )
        + "\n",
    }


@pytest.mark.parametrize("name", list(files()))
@pytest.mark.parametrize("compressed", [False, True])
def test_the_same_pairs_from_every_format(tmp_path, name, compressed):
    """Catches a column read in the wrong place, quotes that swallow lines, NA turned into NaN."""
    content = files()[name].encode()
    path = tmp_path / (f"{name}.gz" if compressed else name)
    path.write_bytes(gzip.compress(content) if compressed else content)
    pairs = load(path)
    assert pairs.sentences1 == ["A man sleeps.", 'He said "no.', "It rains."]
    assert pairs.sentences2 == ["A person rests.", "NA", "It is dry."]
    assert pairs.targets.tolist() == [E, N, C]
    assert pairs.manifest["without_gold"] == 1
    assert pairs.manifest["classes"] == {"entailment": 1, "neutral": 1, "contradiction": 1}


def test_several_files_are_one_set(tmp_path):
    """SNLI and MultiNLI together, in the order given."""
    for name, content in files().items():
        (tmp_path / name).write_text(content)
    pairs = load(f"{tmp_path}/snli_1.0_train.jsonl,{tmp_path}/premise.jsonl")
    assert pairs.targets.tolist() == [E, N, C, E, N, C]
    assert pairs.manifest["without_gold"] == 2


def test_columns_and_label_names_of_the_users_own(tmp_path):
    """By name and by number; names of the classes in another order and in capitals."""
    path = tmp_path / "mine.tsv"
    path.write_text("id\tq\ta\tverdict\n1\tx\ty\tNO\n2\tz\tw\tyes\n")
    fields = {"columns": "q, a", "label_column": "verdict", "label_names": "yes,maybe,no"}
    pairs = load(path, **fields)
    assert (pairs.sentences1, pairs.sentences2) == (["x", "z"], ["y", "w"])
    assert pairs.targets.tolist() == [C, E]
    path.write_text("1\tx\ty\t2\n2\tz\tw\t0\n")
    pairs = load(path, columns="1,2", label_column="3", label_names="0,1,2")
    assert pairs.targets.tolist() == [C, E]


@pytest.mark.parametrize(
    ("name", "content", "fields", "words"),
    [
        (
            "a.jsonl",
            jsonl([("x", "y", "entailment"), ("x", "y", "maybe")]),
            {},
            r"a\.jsonl, line 2: unknown label 'maybe'.*label_names",
        ),
        ("a.tsv", "sentence1\tsentence2\tlabel\nx\ty\t1\n", {}, r"line 2: unknown label '1'"),
        ("a.tsv", "sentence1\tsentence2\tlabel\nx\ty\t\n", {}, r"line 2: unknown label ''"),
        ("a.tsv", "sentence1\tsentence2\tlabel\nx\ty\n", {}, r"line 2: 2 columns.*has 3"),
        ("a.tsv", "sentence1\tsentence2\tlabel\nx\ty\tz\tneutral\n", {}, r"line 2: 4 columns"),
        (
            "a.tsv",
            "q\ta\tlabel\nx\ty\tneutral\n",
            {},
            r"line 1: no column of the sentences.*q, a, label.*supervision\.columns",
        ),
        (
            "a.tsv",
            "sentence1\tsentence2\tgrade\n",
            {},
            r"line 1: no column of the label.*supervision\.label_column",
        ),
        ("a.tsv", "sentence1\tsentence2\tlabel\n", {"label_column": "gold"}, r"no column 'gold'"),
        ("a.tsv", "sentence1\tsentence2\tlabel\nx\ty\t-\n", {}, "no pair with a label"),
        ("a.jsonl", "{broken\n", {}, r"line 1: not JSON"),
        ("a.jsonl", "[1]\n", {}, r"line 1: an object"),
        ("a.jsonl", jsonl([("x", None, "neutral")]), {}, r"line 1: 'sentence2' is null"),
        ("a.jsonl", jsonl([("x", "y", None)]), {}, r"line 1: 'gold_label' is null"),
        (
            "a.jsonl",
            jsonl([("x", "y", "neutral")]) + '{"sentence1": "x"}\n',
            {},
            r"line 2: no key 'sentence2'",
        ),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, fields, words):
    """Each message names the file, the line and what is wrong with it."""
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=words):
        load(tmp_path / name, **fields)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"path": "./none.jsonl"}, DataNotFoundError, r"supervision\.path=none\.jsonl"),
        ({"path": "{dir}/x.dat"}, ConfigError, r"supervision\.format to tsv, csv or jsonl"),
        ({"path": "{dir}", "format": "tsv"}, ConfigError, r"format=tsv but .* is a folder"),
        ({"path": "{dir}/x.dat,{dir}"}, ConfigError, "a folder stands alone"),
        (
            {"path": "{dir}", "task": "snli"},
            DataNotFoundError,
            r"'snli' is not prepared.*tfds build snli",
        ),
        ({"path": "{dir}", "task": "stsb"}, ConfigError, "only sickr has entailment"),
    ],
)
def test_bad_sources_are_named(tmp_path, fields, error, words):
    (tmp_path / "x.dat").write_text("")
    fields = {k: v.replace("{dir}", str(tmp_path)) for k, v in fields.items()}
    with pytest.raises(error, match=words):
        load_training_pairs(SupervisionConfig(**fields), "siamese")


def _sick(folder):
    folder.mkdir()
    (folder / "SICK_train.txt").write_text(
        f"{SICK5}\n1\ta dog\ta cat\t1\tNEUTRAL\n2\ta man\ta boy\t5\tENTAILMENT\n"
        "3\tit rains\tit is dry\t3\tCONTRADICTION\n"
    )
    (folder / "SICK_trial.txt").write_text(f"{SICK5}\n4\tone\ttwo\t2.0\tNEUTRAL\n")
    return folder


def test_sick_has_classes_and_scores(tmp_path):
    """SICK's relatedness goes from 1 to 5: (score - 1) / 4, not score / 5."""
    folder = _sick(tmp_path / "SICK")
    config = SupervisionConfig(path=str(tmp_path), task="sickr")
    pairs = load_training_pairs(config, "siamese")
    assert pairs.targets.tolist() == [N, E, C]
    scored = load_training_pairs(config, "regression")
    np.testing.assert_allclose(scored.targets, [0.0, 1.0, 0.5])
    dev, metric = load_dev_pairs(config, "siamese")
    assert metric == "spearman"
    np.testing.assert_allclose(dev.targets, [0.25])
    dev, metric = load_dev_pairs(
        SupervisionConfig(path=str(folder), task="sickr", dev_metric="accuracy"), "siamese"
    )
    assert (metric, dev.targets.tolist()) == ("accuracy", [N])
    # The file by itself, columns by its header; it has no dev part.
    alone = SupervisionConfig(path=str(folder / "SICK_train.txt"))
    assert load_training_pairs(alone, "siamese").targets.tolist() == [N, E, C]
    assert load_dev_pairs(alone, "siamese") == (None, "none")
    with pytest.raises(ConfigError, match=r"dev_metric=spearman needs a dev set.*dev_path"):
        load_dev_pairs(SupervisionConfig(path=alone.path, dev_metric="spearman"), "siamese")


def test_stsb_scores_are_fifths(tmp_path):
    """label / 5, by split."""
    folder = tmp_path / "STSBenchmark"
    folder.mkdir()
    for split, score in (("train", "2.5"), ("dev", "5.000")):
        (folder / f"sts-{split}.csv").write_text(f"g\tf\ty\t1\t{score}\tone {split}\ttwo\n")
    config = SupervisionConfig(path=str(tmp_path), task="stsb")
    pairs = load_training_pairs(config, "regression")
    assert (pairs.sentences1, pairs.targets.tolist()) == (["one train"], [0.5])
    dev, metric = load_dev_pairs(config, "regression")
    assert (metric, dev.sentences1, dev.targets.tolist()) == ("spearman", ["one dev"], [1.0])


def test_scores_of_a_file(tmp_path):
    """A range of its own; a score outside is named."""
    path = tmp_path / "s.tsv"
    path.write_text("sentence1\tsentence2\tscore\nx\ty\t-1\nx\ty\t3\n")
    config = SupervisionConfig(path=str(path), score_range="-1,3")
    assert load_training_pairs(config, "regression").targets.tolist() == [0.0, 1.0]
    for bad in ("nan", "NA", "3.5", "1_0", ""):
        path.write_text(f"sentence1\tsentence2\tscore\nx\ty\t{bad}\n")
        with pytest.raises(DataError, match=rf"line 2: score '{bad}' is not a number from -1 to 3"):
            load_training_pairs(config, "regression")


def test_allnli_dev_split_comes_from_the_same_file(tmp_path):
    (tmp_path / "AllNLI.tsv").write_text(files()["AllNLI.tsv"])
    dev, metric = load_dev_pairs(SupervisionConfig(path=str(tmp_path / "AllNLI.tsv")), "siamese")
    assert (metric, dev.sentences1, dev.targets.tolist()) == ("accuracy", ["other"], [N])


def test_real_sick(shared):
    """The published sizes, and the labels counted with cut | sort | uniq -c."""
    config = SupervisionConfig(path=str(shared / "sts"), task="sickr")
    pairs = load_training_pairs(config, "siamese")
    assert pairs.manifest["classes"] == {
        "entailment": 1299,
        "neutral": 2536,
        "contradiction": 665,
    }
    assert len(load_dev_pairs(config, "siamese")[0]) == 500


SPLIT_FILES = {
    "quoted.csv": '"split","sentence1","sentence2","label"\n'
    '"train","a","b","neutral"\n"dev","c","d","neutral"\n',
    "blank.jsonl": "\n  \n" + '{"split": "train", "sentence1": "a", "sentence2": "b", "label": "neutral"}\n'
    '{"split": "dev", "sentence1": "c", "sentence2": "d", "label": "neutral"}\n',
    "plain.tsv": "split\tsentence1\tsentence2\tlabel\ntrain\ta\tb\tneutral\ndev\tc\td\tneutral\n",
}  # fmt: skip


@pytest.mark.parametrize("name", SPLIT_FILES)
@pytest.mark.parametrize("own", [False, True])
def test_dev_pairs_are_no_training_pairs(tmp_path, name, own):
    """A quoted header or a blank first line hid the column `split`: dev was the whole file."""
    path = tmp_path / name
    path.write_text(SPLIT_FILES[name])
    config = SupervisionConfig(path=str(path), dev_path=str(path) if own else "")
    assert load_training_pairs(config, "siamese").sentences1 == ["a"]
    assert load_dev_pairs(config, "siamese")[0].sentences1 == ["c"]


def test_dev_of_two_files_of_which_one_has_splits(tmp_path):
    """One dev file without the column made every row of the other one dev, training rows too."""
    (tmp_path / "a.tsv").write_text(SPLIT_FILES["plain.tsv"])
    (tmp_path / "b.tsv").write_text("sentence1\tsentence2\tlabel\ne\tf\tneutral\n")
    both = f"{tmp_path / 'a.tsv'},{tmp_path / 'b.tsv'}"
    config = SupervisionConfig(path=str(tmp_path / "a.tsv"), dev_path=both)
    assert load_dev_pairs(config, "siamese")[0].sentences1 == ["c", "e"]


def test_a_sentence_split_is_no_column(tmp_path):
    """Columns by number: there is no header in which `split` could stand."""
    path = tmp_path / "a.tsv"
    path.write_text("split\tb\tneutral\nc\td\tneutral\n")
    config = SupervisionConfig(path=str(path), columns="0,1", label_column="2")
    assert load_training_pairs(config, "siamese").sentences1 == ["split", "c"]
    assert load_dev_pairs(config, "siamese") == (None, "none")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "a.jsonl",
            SPLIT_FILES["blank.jsonl"] + '{"sentence1": "e", "sentence2": "f", "label": "neutral"}',
            r"a\.jsonl, line 5: no key 'split'",
        ),
        (
            "b.jsonl",
            '{"sentence1": "e", "sentence2": "f", "label": "neutral"}' + SPLIT_FILES["blank.jsonl"],
            r"b\.jsonl, line 3: a key 'split', unlike the first line",
        ),
        (
            "c.jsonl",
            '{"sentence1": "e", "sentence2": "f", "label": "neutral", "split": null}',
            r"c\.jsonl, line 1: its 'split' is null",
        ),
        (
            "d.tsv",
            SPLIT_FILES["plain.tsv"] + "\te\tf\tneutral\n",
            r"d\.tsv, line 4: its 'split' is",
        ),
        (
            "e.tsv",
            "sentence1\tsentence2\tlabel\tsplit\na\tb\tneutral\n",
            r"e\.tsv, line 2: its 'split' is",
        ),
    ],
)
def test_a_row_without_a_split_is_named(tmp_path, name, text, words):
    """Such a row was trained on and was dev too."""
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=words):
        load_training_pairs(SupervisionConfig(path=str(tmp_path / name)), "siamese")


def test_the_assumed_score_range_is_said(tmp_path, caplog):
    """Scores from 0 to 1 were taken for fifths without a word."""
    path = tmp_path / "s.tsv"
    path.write_text("sentence1\tsentence2\tscore\nx\ty\t0.9\n")
    load_training_pairs(SupervisionConfig(path=str(path)), "regression")
    assert "s.tsv: its scores are taken to go from 0 to 5" in caplog.text
    assert "supervision.score_range" in caplog.text
    caplog.clear()
    load_training_pairs(SupervisionConfig(path=str(path), score_range="0,1"), "regression")
    assert not caplog.text


def test_patience_without_a_dev_set_is_said(caplog):
    """patience=3 on a file without splits trained to the end without a word."""
    config = Config(supervision=SupervisionConfig(patience=3), train=TrainConfig(eval_every=20))
    _warn_without_dev(config, None)
    assert "supervision.patience=3 and train.eval_every=20 does nothing" in caplog.text
    assert "supervision.dev_path" in caplog.text
    caplog.clear()
    _warn_without_dev(Config(), None)
    assert not caplog.text
