"""A run's flow knows its encoder: saved and loaded, it is refused beside another one."""

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax.config import Config, DataConfig, EncoderConfig, FlowConfig, TrainConfig
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder.origin import encoder_origin
from bertflow_jax.errors import BertFlowWarning, CheckpointError, DataNotFoundError, InputError
from bertflow_jax.postprocess import Center, Compose, Flow, load
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import train

ROOT = Path(__file__).resolve().parents[2]
LINES = [f"{count} sparrows sit on the {place}." for count in ["two", "four", "six"]
         for place in ["roof", "fence", "lawn", "wall"]]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("origin")
    (folder / "text.txt").write_text("\n".join(LINES), "utf-8")
    config = Config(
        encoder=EncoderConfig(path="mini_bert", pooling="first_last"),
        flow=FlowConfig(levels=1, depth=1, width=4),
        data=DataConfig(path=str(folder / "text.txt")),
        train=TrainConfig(steps=3, batch_size=4, tensorboard=False),
    )
    train(config, folder / "run")
    return load_run(folder / "run")


@pytest.fixture(scope="module")
def saved(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "flow"
    run.flow.save(folder)
    return folder


def test_the_same_encoder_is_taken_whatever_length_and_type(run, saved):
    """What users choose anew where they embed is no other encoder."""
    encoder = SentenceEncoder.from_pretrained("mini_bert", "first_last", max_length=40)
    vectors = encoder.with_postprocess(load(saved)).encode(LINES)
    expected = run.flow.transform(run.encoder.encode(LINES))
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    other_type = SentenceEncoder.from_pretrained("mini_bert", "first_last", dtype="bfloat16")
    assert other_type.with_postprocess(load(saved)).dimension == encoder.dimension


@pytest.mark.parametrize("wrap", [lambda flow: flow, lambda flow: Compose([flow, Center()])])
def test_another_pooling_is_refused(run, saved, wrap, tmp_path):
    """Bug: --flow without the --pooling of the run gave vectors of no meaning, and no word."""
    wrapped = wrap(load(saved))
    if isinstance(wrapped, Compose):
        wrapped.steps[1].fit(run.flow.transform(run.encoder.encode(LINES)))
    wrapped.save(tmp_path / "again")
    encoder = SentenceEncoder.from_pretrained("mini_bert")
    with pytest.raises(InputError, match=r"another encoder: pooling .*; it is for pooling "):
        encoder.with_postprocess(load(tmp_path / "again"))


def test_other_weights_are_refused(run, saved, tmp_path):
    run.encoder.save_pretrained(tmp_path / "encoder")
    same = SentenceEncoder.from_pretrained(tmp_path / "encoder")
    assert same.with_postprocess(load(saved)).dimension == 256
    origin = encoder_origin(run.encoder.encoder)
    other = {**origin, "weights_sha256": "0" * 64}
    flow = Flow.from_variables(run.flow.config, run.flow.variables, 256, fitted_on=other)
    with pytest.raises(InputError, match=r"another encoder: its weights \(fine-tuned or replaced"):
        same.with_postprocess(flow)


@pytest.mark.parametrize("nested", [False, True])
def test_behind_another_post_processor_it_is_refused(run, saved, tmp_path, nested):
    """Bug: a run's flow took what a Center or a Whitening gives, for the number of dimensions is
    the same: numbers of no meaning, and no word."""
    vectors = run.encoder.encode(LINES)
    flow = Compose([load(saved), Center().fit(vectors)]) if nested else load(saved)
    wrong = Compose([Center().fit(vectors), flow])
    for call in (
        lambda: wrong.transform(vectors),
        lambda: wrong.inverse_transform(vectors),
        wrong.pure,
        lambda: run.encoder.with_postprocess(wrong),
        lambda: wrong.save(tmp_path / "wrong"),
    ):
        with pytest.raises(InputError, match=r"^steps\[1\], a .*, was fitted on an encoder's vect"):
            call()
    assert not (tmp_path / "wrong").exists()
    Compose([Center().fit(vectors)]).save(tmp_path / "one")
    flow.save(tmp_path / "one" / "1")
    (tmp_path / "one" / "compose.json").write_text('{"steps": 2}')
    with pytest.raises(CheckpointError, match=r"steps\[1\], a .*, was fitted on an encoder's vec"):
        load(tmp_path / "one")
    fitted = Compose([Center(), load(saved)])
    fitted.steps[1].train.steps = 1
    assert fitted.fit(vectors).transform(vectors).shape == vectors.shape


def around(*tokens):
    """What a tokenizer.json says that puts these tokens around a text."""
    ids = {"[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    one = [{"SpecialToken": {"id": token, "type_id": 0}} for token in tokens]
    one.insert(len(one) // 2, {"Sequence": {"id": "A", "type_id": 0}})
    special = {token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in tokens}
    pair = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    return {"type": "TemplateProcessing", "single": one, "pair": pair, "special_tokens": special}


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    run.encoder.save_pretrained(folder)
    return folder


def with_around(folder, place, tokens):
    """Return a copy of an encoder whose tokenizer puts other tokens around a text."""
    shutil.copytree(folder, place)
    said = json.loads((place / "tokenizer.json").read_text("utf-8"))
    assert [said["added_tokens"][i]["content"] for i in (2, 3, 4)] == ["[CLS]", "[SEP]", "[MASK]"]
    said["post_processor"] = around(*tokens)
    (place / "tokenizer.json").write_text(json.dumps(said), "utf-8")
    return place


@pytest.mark.filterwarnings("ignore:.*post_processor not of BERT")
@pytest.mark.parametrize(
    "tokens", [(), ("[CLS]",), ("[SEP]", "[CLS]"), ("[CLS]", "[MASK]", "[MASK]", "[SEP]")]
)
def test_other_tokens_around_a_text_are_another_tokenizer(run, saved, folder, tmp_path, tokens):
    """Bug: how [CLS] and [SEP] are spelled was left out of the record, and with it that they are
    there: vectors of other ids, and no word."""
    other = SentenceEncoder.from_pretrained(with_around(folder, tmp_path / "other", tokens))
    assert np.abs(other.encode(LINES) - run.encoder.encode(LINES)).max() > 0.01
    with pytest.raises(InputError, match="vectors of another encoder: its tokenizer"):
        other.with_postprocess(load(saved))


def test_another_spelling_of_the_same_tokens_is_the_same_tokenizer(run, saved, folder, tmp_path):
    same = SentenceEncoder.from_pretrained(with_around(folder, tmp_path / "x", ["[CLS]", "[SEP]"]))
    vectors = same.with_postprocess(load(saved)).encode(LINES)
    expected = run.flow.transform(run.encoder.encode(LINES))
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*post_processor not of BERT")
def test_a_saved_encoder_whose_tokens_were_changed(run, tmp_path):
    """The same, of the record that save_pretrained writes."""
    run.encoder.with_postprocess(Center().fit(run.encoder.encode(LINES))).save_pretrained(
        tmp_path / "both"
    )
    place = with_around(tmp_path / "both", tmp_path / "other", ["[SEP]", "[CLS]"])
    with pytest.raises(CheckpointError, match="its post-processor was saved with: its tokenizer"):
        SentenceEncoder.from_pretrained(place)


@pytest.mark.parametrize(
    ("said", "warned"),
    [
        ({"prompts": {"q": "query: "}, "default_prompt_name": "q"}, True),
        ({"prompts": {"q": ""}, "default_prompt_name": "q"}, False),
        ({"prompts": {"q": "query: "}}, False),
    ],
)
def test_a_default_prompt_that_the_run_left_out_is_told(run, saved, folder, tmp_path, said, warned):
    """Bug: train.py leaves the prompt out, encode puts it there: other vectors, and no word."""
    place = shutil.copytree(folder, tmp_path / "prompted")
    (place / "config_sentence_transformers.json").write_text(json.dumps(said), "utf-8")
    other = SentenceEncoder.from_pretrained(place)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        both = other.with_postprocess(load(saved))
    told = [str(w.message) for w in caught if issubclass(w.category, BertFlowWarning)]
    assert [text.startswith("the default prompt 'query: ' of this encoder") for text in told] == [
        True
    ] * warned
    expected = run.flow.transform(run.encoder.encode(LINES))
    assert (np.abs(both.encode(LINES) - expected).max() > 0.01) == warned
    np.testing.assert_allclose(both.encode(LINES, prompt=""), expected, atol=1e-5)


def test_a_saved_encoder_is_no_run(run, tmp_path):
    """Bug: "train first", where the run had been trained and saved."""
    run.encoder.with_postprocess(run.flow).save_pretrained(tmp_path)
    with pytest.raises(DataNotFoundError, match=r"not of a run: give it as --encoder, in Python"):
        SentenceEncoder.from_checkpoint(tmp_path)


def test_vectors_of_anybody_are_not_of_the_run(run, saved):
    """A flow that is fitted anew has forgotten where it came from."""
    flow = load(saved)
    assert flow.fitted_on == run.flow.fitted_on == encoder_origin(run.encoder.encoder)
    flow.train.steps = 1
    flow.fit(SentenceEncoder.from_pretrained("mini_bert").encode(LINES))
    assert flow.fitted_on is None


def test_a_record_that_is_none_is_a_damaged_flow(saved, tmp_path):
    load(saved).save(tmp_path)
    described = json.loads((tmp_path / "flow_config.json").read_text("utf-8"))
    (tmp_path / "flow_config.json").write_text(json.dumps({**described, "fitted_on": 3}))
    with pytest.raises(CheckpointError, match="fitted_on is 3"):
        Flow.load(tmp_path)


def test_the_command_says_so(saved, tmp_path):
    (tmp_path / "in.txt").write_text("one\ntwo\n", "utf-8")
    flags = [f"--flow={saved}", f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out.npy"]
    done = subprocess.run(
        [sys.executable, "-m", "bertflow_jax.embed", "--encoder=mini_bert", *flags],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "error: the flow was fitted on the vectors of another encoder: pooling" in done.stderr
    assert not (tmp_path / "out.npy").exists()
