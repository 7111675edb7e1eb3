"""What is pushed to a local Hub, and what comes back from it."""

import dataclasses
import json
import logging
import os
import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from fake_hub import TOKEN
from huggingface_hub import ModelCard, constants

from bertflow_jax import Compose, Flow, FlowConfig, SentenceEncoder, Standardize, Whitening
from bertflow_jax.encoder_spec import EncoderSpec
from bertflow_jax.errors import CheckpointError, DataNotFoundError, HubError, InputError
from bertflow_jax.flow.glow import init_variables
from bertflow_jax.postprocess.sklearn_api import NotFittedError

TEXTS = ["the dog", "a b c d e f g h", "dogs.", "", "k l m n o p a " * 9]
CODE = "bertflow_modules.py"
SCRIPT = """
import json, sys
import numpy as np
name, out, texts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
if sys.argv[4:]:
    from sentence_transformers import SentenceTransformer
    encoder = SentenceTransformer(name, device="cpu", trust_remote_code=True)
else:
    from bertflow_jax import SentenceEncoder
    encoder = SentenceEncoder.from_pretrained(name)
np.save(out, encoder.encode(texts))
"""


@pytest.fixture
def encoder(bert_folder):
    return SentenceEncoder.from_pretrained(bert_folder(), pooling="mean")


@pytest.fixture
def flowing(bert_folder):
    """An encoder whose pooling and flow are code for sentence-transformers."""
    encoder = SentenceEncoder.from_pretrained(bert_folder("other", seed=1), pooling="first_last")
    return encoder.with_postprocess(random_flow(encoder.dimension))


def random_flow(features: int) -> Flow:
    """A flow whose every array is far from its start, without the seconds of a fit."""
    rng, config = np.random.default_rng(0), FlowConfig(levels=2, depth=1, width=8)
    variables = init_variables(config, features, 0)
    params = jax.tree.map(
        lambda x: np.asarray(x + rng.normal(scale=0.15, size=x.shape), np.float32),
        variables["params"],
    )
    return Flow.from_variables(config, {**variables, "params": params}, features)


def texts(count: int = 60) -> list[str]:
    rng = np.random.default_rng(0)
    words = [*"abcdefghijklmnop", "the", "dog", "."]
    return [" ".join(rng.choice(words, n)) for n in rng.integers(1, 20, count)]


def elsewhere(hub, home, name, *how, **env):
    """Return the vectors that a fresh process with a cache of its own gets."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    out = home.parent / "vectors.npy"
    out.unlink(missing_ok=True)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, name, str(out), json.dumps(TEXTS), *how],
        env={**clean, "HF_ENDPOINT": hub.address, "HF_HOME": str(home), **env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert TOKEN not in run.stdout + run.stderr
    return np.load(out)


def test_what_is_pushed_comes_back_elsewhere_and_offline(hub, flowing, tmp_path):
    """The whole way: catches a file that is not pushed, or not fetched, and a cache that is not
    enough by itself."""
    url = flowing.push_to_hub("org/flowing", private=True)
    repo = hub.repos["org/flowing"]
    assert url == f"{hub.address}/org/flowing/commit/{repo.branches['main']}"
    assert repo.private
    expected = flowing.encode(TEXTS)
    got = elsewhere(hub, tmp_path / "home", "org/flowing", HF_TOKEN=TOKEN)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    hub.server.shutdown()
    hub.server.server_close()
    offline = elsewhere(hub, tmp_path / "home", "org/flowing", HF_HUB_OFFLINE="1")
    np.testing.assert_array_equal(offline, got)


def test_sentence_transformers_loads_what_is_pushed(hub, flowing, tmp_path):
    """Catches a snippet on the card that does not run: a module's code that is found in a folder
    and not in a repository."""
    pytest.importorskip("sentence_transformers", reason="not installed")
    flowing.push_to_hub("org/flowing")
    assert 'SentenceTransformer("org/flowing", trust_remote_code=True)' in card_of(hub).content
    got = elsewhere(hub, tmp_path / "home", "org/flowing", "sentence-transformers")
    np.testing.assert_allclose(got, flowing.encode(TEXTS), atol=1e-4)


def card_of(hub, name="org/flowing"):
    return ModelCard(hub.repos[name].files()["README.md"].decode())


def test_another_push_leaves_no_mixture(hub, encoder, flowing):
    """Catches the modules and the card of an older push beside those of the next, and files of
    others that are removed."""
    flowing.push_to_hub("org/model", license="mit")
    repo = hub.repos["org/model"]
    assert {"2_BertFlow/model.safetensors", CODE} <= set(repo.files())
    mine = {"onnx/model.onnx": b"mine", "1_mine/config.json": b"mine", "notes.txt": b"mine"}
    stale = {"model.safetensors.index.json": b"{}", "model-00001-of-00002.safetensors": b"old"}
    repo.commit({**repo.files(), **mine, **stale})
    before = len(repo.commits)
    white = encoder.with_postprocess(Whitening(k=4).fit(encoder.encode(texts())))
    white.push_to_hub("org/model", commit_message="Whitening now")
    assert len(repo.commits) == before + 1
    assert repo.messages[-1] == "Whitening now"
    files = repo.files()
    assert {name: files[name] for name in mine} == mine
    names = set(files) - set(mine) - {".gitattributes"}
    assert names == {
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
        "README.md",
        "bertflow_jax.json",
        "config.json",
        "model.safetensors",
        "modules.json",
        "postprocess/postprocess.json",
        "postprocess/postprocess.safetensors",
        "sentence_bert_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert "license" not in card_of(hub, "org/model").data.to_dict()
    back = SentenceEncoder.from_pretrained("org/model")
    np.testing.assert_allclose(back.encode(TEXTS), white.encode(TEXTS), atol=1e-6)
    first = list(repo.commits)[1]
    back = SentenceEncoder.from_pretrained("org/model", revision=first)
    np.testing.assert_allclose(back.encode(TEXTS), flowing.encode(TEXTS), atol=1e-6)


def test_a_readme_of_others_stays(hub, encoder, caplog):
    hub.add("org/model", {"README.md": b"# Mine"})
    encoder.push_to_hub("org/model")
    assert hub.repos["org/model"].files()["README.md"] == b"# Mine"
    assert "org/model has a README.md of its own" in caplog.text


def test_a_post_processor_beside_an_encoder_of_others(hub, encoder, bert_folder):
    """The weights of a repository's own model removed by the push of a whitening."""
    theirs = {path.name: path.read_bytes() for path in bert_folder("theirs").iterdir()}
    hub.add("org/model", {"README.md": b"# Mine", **theirs})
    standardize = Standardize().fit(encoder.encode(texts()))
    Compose([standardize, standardize_again(standardize)]).push_to_hub("org/model")
    standardize.push_to_hub("org/model")
    files = hub.repos["org/model"].files()
    assert {name: files[name] for name in theirs} == theirs
    assert not {"compose.json", "0/postprocess.json"} & set(files)
    both = EncoderSpec(encoder="org/model", flow="org/model", pooling="mean").load()
    np.testing.assert_allclose(
        both.encode(TEXTS),
        standardize.transform(both.without_postprocess().encode(TEXTS)),
        atol=1e-5,
    )


def standardize_again(before: Standardize) -> Standardize:
    return Standardize().fit(before.transform(np.eye(before.features)))


def test_ten_modules_come_back(hub, encoder):
    """Folders of two digits, as 10_BertFlow, that are not fetched: the model was taken for damaged."""
    steps = [random_flow(encoder.dimension) for _ in range(9)]
    many = encoder.with_postprocess(Compose(steps))
    many.push_to_hub("org/many")
    assert "10_BertFlow/model.safetensors" in hub.repos["org/many"].files()
    back = SentenceEncoder.from_pretrained("org/many")
    np.testing.assert_allclose(back.encode(TEXTS), many.encode(TEXTS), rtol=1e-5, atol=1e-5)


def test_a_branch_and_a_bare_name(hub, encoder):
    """Catches a commit to main, and a card whose example names no owner."""
    encoder.push_to_hub("small")
    main = hub.repos["org/small"].branches["main"]
    scaled = encoder.with_postprocess(Standardize().fit(encoder.encode(texts())))
    scaled.push_to_hub("small", revision="scaled/v1")
    assert hub.repos["org/small"].branches["main"] == main
    assert 'from_pretrained("org/small")' in card_of(hub, "org/small").content
    back = SentenceEncoder.from_pretrained("org/small", revision="scaled/v1")
    np.testing.assert_allclose(back.encode(TEXTS), scaled.encode(TEXTS), atol=1e-6)
    back = SentenceEncoder.from_pretrained("org/small")
    np.testing.assert_allclose(back.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


def test_a_push_that_cannot_be(hub, encoder, monkeypatch):
    """Catches a traceback of httpx, a repository made for nothing, and advice that does not help."""

    def refused(repo_id="org/new", **arguments):
        with pytest.raises((HubError, InputError)) as caught:
            encoder.push_to_hub(repo_id, **arguments)
        text = str(caught.value)
        assert "\n" not in text
        assert not re.search(r"hf_(mine|other|wrong)", text + repr(caught.value))
        return text

    assert "repo_id='a/b/c' is no Hub id" in refused("a/b/c")
    assert "revision=' ': must be a branch" in refused(revision=" ")
    assert "'org/new' needs a token: log in with" in refused(token=False)
    assert "license='My Own'" in refused(license="My Own")
    assert "language='english'" in refused(language="english")
    assert "base_model='/home/me/bert'" in refused(base_model="/home/me/bert")
    assert hub.requests == []
    assert "answered 401: the token is wrong or has expired" in refused(token="hf_wrong")
    assert "answered 401: the token is wrong" in refused("new", token="hf_wrong")
    assert "answered 403: the token may not write there" in refused(token="hf_other")
    assert hub.repos == {}
    hub.add("org/there", {"x": b""})
    assert "'org/there' exists already" in refused("org/there", exist_ok=False)
    assert 'refuses the card: "license" must be one of' in refused("org/there", license="my-own")
    hub.fail_commits = 100
    assert "answered 503: try again later" in refused("org/there")
    assert set(hub.repos["org/there"].files()) == {"x"}
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set, so nothing is uploaded" in refused()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN")
    assert "needs a token" in refused()
    assert "no token is stored" in refused(token=True)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert "the upload to http://127.0.0.1:9 broke off" in refused(token=TOKEN)


def test_a_token_is_nowhere(hub, flowing, monkeypatch, caplog, capfd, tmp_path):
    """Catches a secret in a log, on the card, in a pushed file or in the cache."""
    monkeypatch.delenv("HF_TOKEN")
    caplog.set_level(logging.DEBUG)
    flowing.push_to_hub("org/model", token=TOKEN, private=True)
    back = SentenceEncoder.from_pretrained("org/model", token=TOKEN)
    back.save_pretrained(tmp_path / "saved")
    about = ("/api/models", "/api/repos")  # huggingface_hub may ask for settings of its own
    assert {sent for _, path, sent in hub.requests if path.startswith(about)} == {f"Bearer {TOKEN}"}
    for content in (
        b for commit in hub.repos["org/model"].commits.values() for b in commit.values()
    ):
        assert TOKEN.encode() not in content
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path
    said = "".join(capfd.readouterr()) + caplog.text + repr(back.describe()) + repr(back)
    assert TOKEN not in said


def test_post_processors_by_themselves(hub):
    """Catches a folder of steps that is not fetched, and a kind that is taken for another."""
    u = np.random.default_rng(0).normal(size=(80, 8)) * np.arange(1, 9)
    both = Compose([Standardize().fit(u), random_flow(8)])
    url = both.push_to_hub("org/both", base_model="org/bert", data={"path": "/secret/dir/x.txt"})
    assert url.startswith(f"{hub.address}/org/both/commit/")
    back = Compose.from_pretrained("org/both")
    np.testing.assert_allclose(back.transform(u), both.transform(u), atol=1e-6)
    encoder = EncoderSpec(encoder="mini_bert", flow="org/both")
    with pytest.raises(InputError, match="fitted on 8 dimensions"):  # it came, to the wrong encoder
        encoder.load()
    whitening = Whitening(k=2).fit(
        SentenceEncoder.from_pretrained("mini_bert").encode(["a b", "c", "d"])
    )
    whitening.push_to_hub("org/white")
    vectors = dataclasses.replace(encoder, flow="org/white").load().encode(["a b"])
    raw = SentenceEncoder.from_pretrained("mini_bert").encode(["a b"])
    np.testing.assert_allclose(vectors, whitening.transform(raw), atol=1e-4)
    card = card_of(hub, "org/both")
    assert card.data.library_name == "bertflow_jax"
    assert card.data.base_model == "org/bert"
    assert 'Compose.from_pretrained("org/both").transform' in card.content
    assert "x.txt" in card.content
    assert "secret" not in card.content
    Whitening(k=2).fit(u).push_to_hub("org/both")
    assert {"0", "1", "compose.json"}.isdisjoint(
        name.split("/")[0] for name in hub.repos["org/both"].files()
    )
    with pytest.raises(CheckpointError, match="post-processor"):
        Flow.from_pretrained("org/both")
    with pytest.raises(DataNotFoundError, match=r"folder not found: \./org/both"):
        Whitening.from_pretrained("./org/both")
    with pytest.raises(NotFittedError):
        Whitening().push_to_hub("org/new")
    assert "org/new" not in hub.repos
