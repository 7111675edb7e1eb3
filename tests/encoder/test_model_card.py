"""The README.md of a model: its metadata as the Hub reads it, its scores, and no folders in it."""

import copy
import json
import logging

import numpy as np
import pytest
from huggingface_hub import ModelCard

from bertflow_jax import Compose, Flow, FlowConfig, SentenceEncoder, Standardize, Whitening
from bertflow_jax.config import Config, EncoderConfig
from bertflow_jax.data.tfds_builders.releases import RELEASES
from bertflow_jax.errors import BertFlowError, InputError
from bertflow_jax.flow.glow import init_variables
from bertflow_jax.integrations.card_facts import public
from bertflow_jax.integrations.card_metrics import eval_results
from bertflow_jax.integrations.hub import CardFields
from bertflow_jax.integrations.model_card import make_card


@pytest.fixture
def encoder(bert_folder):
    return SentenceEncoder.from_pretrained(bert_folder(), pooling="mean")


@pytest.fixture
def white(encoder):
    u = encoder.encode(["the dog", "a b", "c d e", "f g h i", "a", "dog . dog"])
    return encoder.with_postprocess(Whitening(k=3).fit(u))


def scores(spearman, pearson):
    return {how: {"spearman": spearman, "pearson": pearson} for how in ("all", "mean", "wmean")}


def results_of(encoder) -> dict:
    """A results.json with STS-B, an undefined SICK-R and QNLI, raw and post-processed."""
    described = encoder.describe()
    postprocess = described.pop("postprocess")
    row = {
        "stsb": {**scores(50.126, 48.5), "subsets": {}, "pairs": 3},
        "sickr": {**scores(None, None), "subsets": {}, "pairs": 2, "reason": "constant"},
        "qnli": {"auc": 71.238, "pairs": 9},
        "average": None,
    }
    worse = copy.deepcopy(row)
    worse["stsb"] |= scores(40.0, 39.0)
    return {
        "model": {
            "workdir": "/secret/runs/mine",
            "step": 7,
            "encoder": {"path": "/secret/bert", **encoder.identity()},
            "flow": None,
            **({} if postprocess is None else {"postprocess": postprocess}),
            "config": Config(encoder=EncoderConfig(path="org/bert")).to_dict(),
            "text": {"path": "/secret/texts/news.txt", "examples": 12, "sha256": "ab" * 32},
        },
        "rows": {"raw": worse, **({} if postprocess is None else {postprocess["name"]: row})},
        "averages": {},
        "mean_random_cosine": {},
        "provenance": {
            "similarity": "cosine",
            "command": ["/secret/evaluate.py"],
            "tasks": {"qnli": {"split": "dev", "sha256": "x", "pairs": 9}},
        },
    }


def test_scores_as_the_hub_reads_them(white):
    """Catches the raw row given as the model's, NaN for what is undefined, and invalid YAML."""
    card = CardFields("apache-2.0", "en", metrics=results_of(white)).card(white, "org/white")
    read = ModelCard(make_card(card))
    found = {
        (
            r.task_type,
            r.dataset_type,
            r.dataset_name,
            r.dataset_split,
            r.metric_type,
        ): r.metric_value
        for r in read.data.eval_results
    }
    assert found == {
        ("semantic-similarity", "stsb", "STS-B", None, "spearman_cosine"): 50.13,
        ("semantic-similarity", "stsb", "STS-B", None, "pearson_cosine"): 48.5,
        ("pair-classification", "qnli", "QNLI", "dev", "auc_cosine"): 71.24,
    }
    cut = results_of(white)
    for row in cut["rows"].values():
        row["qnli"] |= {"split": "dev", "pairs": 9}
    assert {found.dataset_type for found in eval_results(cut, "whitening")} == {"stsb"}
    assert read.data.model_name == "white"
    assert read.data.license == "apache-2.0"
    assert read.data.language == ["en"]
    assert read.data.base_model == "org/bert"
    assert read.data.library_name == "sentence-transformers"
    assert read.data.pipeline_tag == "sentence-similarity"
    assert "bert-flow" not in read.data.tags
    assert "| whitening | **50.13** | n/a | n/a | **71.24** |" in read.text
    assert "| raw | 40.00 | n/a | n/a | **71.24** |" in read.text
    assert "This model is the row `whitening`." in read.text
    assert "| post-processor | `Whitening(k=3)` |" in read.text
    assert "trust_remote_code" not in read.text


def test_scores_of_other_pairs_are_not_published(white):
    """Catches a score of part of a data set that a leaderboard takes for one of the whole."""
    metrics = results_of(white)
    subsets = {name: {"pairs": n} for name, n in RELEASES["sts12"].sizes.items()}
    row = metrics["rows"]["whitening"]
    row["stsb"]["subsets"] = {"dev": {"pairs": 1500}}
    row["sickr"] = {**scores(60.0, 61.0), "subsets": {"test": {"pairs": 499}}}
    row["sts12"] = {**scores(30.0, 31.0), "subsets": subsets}
    row["sts13"] = {**scores(51.42, 52.0), "subsets": {"headlines": {"pairs": 750}}}

    def card():
        return ModelCard(make_card(CardFields(metrics=metrics).card(white, "org/white")))

    found = {r.dataset_type: r.dataset_split for r in card().data.eval_results}
    assert found == {"stsb": "dev", "sts12": None, "qnli": "dev"}
    text = card().text
    assert r"| STS-B\* | SICK-R\* | STS12 | STS13\* | Avg\* | QNLI |" in text
    assert r"\* STS-B: scored on dev: not comparable with scores of test." in text
    assert r"\* STS13: subsets FNWN, OnWN are missing: not comparable" in text
    subsets["MSRvid2"] = {"pairs": 750}
    assert {r.dataset_type for r in card().data.eval_results} == {"stsb", "qnli"}


def test_no_folder_of_a_machine(white):
    """Catches a user's name or a bucket in a public file."""
    data = {
        "path": "/secret/a.tsv,/secret/b c.tsv",
        "source": "tfds:/secret/prepared",
        "notes": ["~/secret/x", "gs://secret/y", "C:\\secret\\z", "two / three"],
        "splits": {"train": 3, "blank": None},
    }
    config = results_of(white)["model"]["config"]
    config["encoder"]["path"] = "/secret/bert"
    config["objective"] = "joint"
    config["supervision"]["dev_path"] = "/secret/dev.tsv"
    fields = CardFields(metrics=results_of(white), config=config, data=data)
    text = make_card(fields.card(white, None))
    assert "secret" not in text
    assert "| path | a.tsv,b c.tsv |" in text
    assert "| source | tfds:prepared |" in text
    assert "| notes | x, y, z, two / three |" in text
    assert "dev_path dev.tsv" in text
    assert "base_model" not in text
    assert 'from_pretrained("PATH/OF/THIS/FOLDER")' in text
    assert public({"path": None, "n": 3}) == {"path": None, "n": 3}


def test_scores_of_another_model_are_refused(encoder, white, bert_folder, tmp_path, caplog):
    """Catches numbers on a card that its model does not have."""

    def refused(metrics, model=white):
        with pytest.raises(BertFlowError) as caught:
            CardFields(metrics=metrics).card(model, "org/x")
        return str(caught.value)

    other = SentenceEncoder.from_pretrained(bert_folder("other", seed=3), pooling="mean")
    assert "of another encoder (its weights_sha256)" in refused(results_of(white), other)
    pooled = SentenceEncoder.from_pretrained(bert_folder("same"), pooling="cls")
    assert "of another encoder (its pooling)" in refused(results_of(white), pooled)
    refitted = encoder.with_postprocess(
        Whitening(k=3).fit(encoder.encode(["dog", "a", "b c", "d e f", "g h"]))
    )
    assert "metrics are of another whitening" in refused(results_of(refitted))
    assert "metrics have no row 'whitening'" in refused(results_of(encoder))
    old = results_of(white)
    del old["model"]["postprocess"]
    with caplog.at_level(logging.WARNING):
        CardFields(metrics=old).card(white, "org/x")
    assert "do not say which whitening was scored" in caplog.text
    assert "is no results.json of evaluate.py" in refused({"rows": {"raw": {}}, "model": {}})
    assert "is no results.json of evaluate.py" in refused({})
    file = tmp_path / "results.json"
    assert "is missing" in refused(str(file))
    file.write_text("[]")
    assert "a JSON object is expected" in refused(file)
    file.write_text(json.dumps(results_of(white)))
    CardFields(metrics=file).card(white, "org/x")


def test_how_a_flow_was_fitted(encoder):
    """Catches a flow inside a Compose that is overlooked, and defaults that are left out."""
    config = FlowConfig(levels=2, depth=1, width=8)
    flow = Flow.from_variables(config, init_variables(config, 16, 0), 16)
    scale = Standardize().fit(np.random.default_rng(0).normal(size=(9, 16)))
    both = encoder.with_postprocess(Compose([scale, flow]))
    read = ModelCard(make_card(CardFields().card(both, "org/flow"), ["BertFlow"]))
    assert "bert-flow" in read.data.tags
    assert "| flow | levels 2, depth 1, width 8, coupling additive," in read.text
    assert "The text it was fitted on is not recorded here." in read.text
    assert 'SentenceTransformer("org/flow", trust_remote_code=True)' in read.text
    assert "2020.emnlp-main.733" in read.text
    assert "## This folder holds code" in read.text
    assert read.data.eval_results is None


def test_an_encoder_alone_has_no_method_to_cite(encoder):
    text = make_card(CardFields().card(encoder, "org/plain"))
    assert "## Citation" not in text
    assert "## Limits" not in text
    assert "| longest text | 40 tokens" in text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("google-bert/bert-base-uncased", "google-bert/bert-base-uncased"),
        ("bert-base-uncased", "bert-base-uncased"),
        ("mini_bert", None),
        ("/home/me/bert", None),
        ("~/bert", None),
        ("a/b/c", None),
        ("here", None),
    ],
)
def test_the_base_model_is_a_hub_id_or_none(encoder, tmp_path, monkeypatch, path, expected):
    """Catches a folder of a machine that the Hub takes for a model of somebody."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    config = Config(encoder=EncoderConfig(path=path)).to_dict()
    assert CardFields(config=config).card(encoder, "org/x").base_model == expected


@pytest.mark.parametrize(
    "fields", [{"license": ""}, {"language": ["en", "English"]}, {"base_model": "/a/b"}]
)
def test_fields_that_the_hub_refuses(encoder, fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        CardFields(**fields).card(encoder, "org/x")
