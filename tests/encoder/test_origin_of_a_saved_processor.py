"""A post-processor that `save_pretrained` wrote knows its encoder, also when it is taken out."""

import copy
import dataclasses
import json
import pickle
import shutil

import numpy as np
import pytest

from bertflow_jax import SentenceEncoder
from bertflow_jax.encoder.origin import encoder_origin
from bertflow_jax.errors import CheckpointError, InputError
from bertflow_jax.integrations.sentence_transformers import _modules_digest
from bertflow_jax.postprocess import Center, Compose, Standardize, Whitening, load
from bertflow_jax.postprocess.known_encoder import known_for

TEXTS = [f"{count} sparrows sit on the {place}." for count in ("two", "four", "six")
         for place in ("roof", "fence", "lawn", "wall")]  # fmt: skip
KINDS = {
    "affine": lambda: Whitening(4),
    "compose": lambda: Compose([Standardize(), Whitening(4)]),
    "nested": lambda: Compose([Compose([Standardize(), Whitening(4)]), Center()]),
}
REFUSED = "was fitted on the vectors of another encoder: pooling .*; it is for pooling "


@pytest.fixture(scope="module")
def first():
    return SentenceEncoder.from_pretrained("mini_bert", "mean")


@pytest.fixture(scope="module")
def other():
    return SentenceEncoder.from_pretrained("mini_bert", "cls")


@pytest.fixture(scope="module", params=KINDS)
def saved(request, first, tmp_path_factory):
    """The folder of an encoder and a post-processor, and the vectors they give."""
    folder = tmp_path_factory.mktemp("saved")
    processor = KINDS[request.param]().fit(first.encode(TEXTS))
    both = first.with_postprocess(processor)
    both.save_pretrained(folder)
    assert processor.fitted_on is None  # the caller's own is not changed by a save
    return folder, both.encode(TEXTS)


@pytest.mark.parametrize("taken", ["folder", "loaded", "saved again", "copied", "pickled"])
def test_it_is_refused_beside_another_encoder(saved, first, other, tmp_path, taken):
    """Bug: the record lay in bertflow_jax.json alone, and the vectors had no meaning."""
    folder, vectors = saved
    processor = load(folder / "postprocess")
    if taken != "folder":
        processor = SentenceEncoder.from_pretrained(folder).processor
    if taken == "saved again":
        processor.save(tmp_path)
        processor = load(tmp_path)
    elif taken == "copied":
        processor = copy.deepcopy(processor)
    elif taken == "pickled":
        processor = pickle.loads(pickle.dumps(processor))
    with pytest.raises(InputError, match=REFUSED):
        other.with_postprocess(processor)
    np.testing.assert_array_equal(first.with_postprocess(processor).encode(TEXTS), vectors)


def test_fitted_anew_it_knows_nothing(saved, other):
    processor = SentenceEncoder.from_pretrained(saved[0]).processor
    processor.fit(other.encode(TEXTS))
    found = other.with_postprocess(processor).encode(TEXTS)
    np.testing.assert_allclose(found, processor.transform(other.encode(TEXTS)), atol=1e-4)


def test_folders_of_before_are_read(saved, other, tmp_path):
    """There the record of the encoder lies beside the post-processor."""
    folder, vectors = tmp_path / "before", saved[1]
    shutil.copytree(saved[0], folder)
    for path in (folder / "postprocess").rglob("postprocess.json"):
        described = json.loads(path.read_text())
        described.pop("fitted_on", None)
        path.write_text(json.dumps(described))
    assert load(folder / "postprocess").fitted_on is None
    found = SentenceEncoder.from_pretrained(folder)
    np.testing.assert_array_equal(found.encode(TEXTS), vectors)
    with pytest.raises(InputError, match=REFUSED):
        other.with_postprocess(found.processor)


def test_the_oldest_folders_ask_the_post_processor(first, other, tmp_path):
    """Bug: nothing was noted beside it, and what a run's flow knows itself was not looked at."""
    vectors = first.encode(TEXTS)
    known = known_for(Center().fit(vectors), encoder_origin(first.encoder))
    for encoder in (first, other):
        folder = tmp_path / str(encoder.encoder.pooling)
        encoder.with_postprocess(Center().fit(vectors)).save_pretrained(folder)
        known.save(folder / "postprocess")
        settings = folder / "bertflow_jax.json"
        described = json.loads(settings.read_text())
        del described["postprocess"]["encoder"]
        digest = _modules_digest(folder, of_files=True)
        described["postprocess"]["modules_sha256"] = digest
        settings.write_text(json.dumps(described))
    found = SentenceEncoder.from_pretrained(tmp_path / str(first.encoder.pooling))
    np.testing.assert_allclose(found.encode(TEXTS), known.transform(vectors), atol=1e-6)
    with pytest.raises(InputError, match=REFUSED):
        SentenceEncoder.from_pretrained(folder)


def test_what_lacks_a_property_of_post_processors_is_named(first):
    """Bug: Python's AttributeError."""
    pure = Center().fit(first.encode(TEXTS)).pure()
    foreign = type("Foreign", (), {"pure": lambda self: pure})()
    for make in (
        lambda: SentenceEncoder(first.encoder, pure, foreign),
        lambda: first.with_postprocess(foreign),
    ):
        with pytest.raises(InputError, match="Foreign is no post-processor: it has no features"):
            make()


def test_a_compose_of_ones_own_class_is_saved_by_it(first, tmp_path):
    """Bug: the copy that knows the encoder was a plain Compose."""
    vectors = first.encode(TEXTS)
    own = Noted([Standardize()]).fit(vectors)
    first.with_postprocess(own).save_pretrained(tmp_path)
    assert (tmp_path / "postprocess" / "note.txt").read_text() == "mine"
    assert load(tmp_path / "postprocess").fitted_on["pooling"] == str(first.encoder.pooling)
    assert own.fitted_on is None


class Noted(Compose):
    """As a user may write it."""

    def save(self, folder):
        super().save(folder)
        (folder / "note.txt").write_text("mine")


def test_a_record_that_is_none(first, tmp_path):
    Center().fit(first.encode(TEXTS)).save(tmp_path)
    described = json.loads((tmp_path / "postprocess.json").read_text())
    (tmp_path / "postprocess.json").write_text(json.dumps({**described, "fitted_on": 3}))
    with pytest.raises(CheckpointError, match="fitted_on is 3, not the record of an encoder"):
        load(tmp_path)


def test_the_constructor_asks_too(saved, first, other):
    """Bug: with_postprocess refused it, and the constructor took it."""
    processor = SentenceEncoder.from_pretrained(saved[0]).processor
    with pytest.raises(InputError, match=REFUSED):
        SentenceEncoder(other.encoder, processor.pure(), processor)
    scaled = dataclasses.replace(first.encoder, normalize=True)
    with pytest.raises(InputError, match="another encoder: normalize True"):
        SentenceEncoder(scaled, processor.pure(), processor)
    narrow = Whitening().fit(np.random.default_rng(0).normal(size=(64, 5)))
    width = first.dimension
    with pytest.raises(
        InputError, match=f"fitted on 5 dimensions, the encoder's vectors have {width}"
    ):
        SentenceEncoder(first.encoder, narrow.pure(), narrow)


def test_no_word_of_a_prompt_that_the_fit_may_have_had(first, tmp_path, recwarn):
    """What was saved with an encoder that has a default prompt was fitted on it, with or without."""
    usage = dataclasses.replace(
        first.encoder.usage, prompts={"query": "query: "}, default_prompt_name="query"
    )
    prompted = SentenceEncoder(dataclasses.replace(first.encoder, usage=usage))
    whitening = Whitening(4).fit(prompted.encode(TEXTS))
    prompted.with_postprocess(whitening).save_pretrained(tmp_path)
    processor = SentenceEncoder.from_pretrained(tmp_path).processor
    found = prompted.with_postprocess(processor).encode(TEXTS)
    np.testing.assert_allclose(found, whitening.transform(prompted.encode(TEXTS)), atol=1e-4)
    assert not [w for w in recwarn if "default prompt" in str(w.message)]
