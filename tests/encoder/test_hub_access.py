"""Downloads from a local Hub that knows private, gated and broken repositories."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
from fake_hub import TOKEN as SECRET
from fake_hub import FakeHub, address

from bertflow_jax.encoder import resolve_folder
from bertflow_jax.errors import BertFlowError, InputError
from bertflow_jax.hub_access import HubAccess

SCRIPT = """
import hashlib, json, sys, time
from huggingface_hub import constants
if len(sys.argv) > 2:  # bytes that are written at once: what a break leaves is whole pieces
    constants.DOWNLOAD_CHUNK_SIZE = int(sys.argv[2])
time.sleep = lambda seconds: None  # before it asks again
from bertflow_jax.encoder import resolve_folder
from bertflow_jax.errors import BertFlowError
for call in json.loads(sys.argv[1]):
    try:
        folder = resolve_folder(**call)
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        digests = {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
        print(json.dumps([str(folder), digests]))
    except BertFlowError as error:
        print(json.dumps([type(error).__name__, str(error), repr(error)]))
"""


@pytest.fixture
def served(bert_folder):
    """A tiny encoder as org/good, org/private, org/gated, with files that are not needed."""
    files = {path.name: path.read_bytes() for path in bert_folder().iterdir()}
    more = {
        "pytorch_model.bin": b"big",
        "onnx/model.onnx": b"big",
        "onnx/model.safetensors": b"big",
        "openvino/openvino_model.bin": b"big",
        "model.fp16.safetensors": b"big",
        "README.md": b"text",
        "bertflow_modules.py": b"raise SystemExit",
    }
    hub = FakeHub()
    hub.add("org/good", {**files, **more})
    hub.add("org/private", files, private=True)
    hub.add("org/gated", files, gated=True)
    server = hub.serve()
    hub.address, hub.needed = address(server), files
    yield hub
    server.shutdown()


def resolve(hub, home, *calls, piece=(), **env):
    """Make the calls in a fresh process: huggingface_hub reads its settings once."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(calls), *map(str, piece)],
        env={**clean, "HF_ENDPOINT": hub.address, "HF_HOME": str(home), "HF_DEBUG": "1", **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    for token in (*hub.tokens, "hf_wrong"):
        assert token not in run.stdout + run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def call(name, **arguments):
    return {"path_or_hub_id": name, **arguments}


def test_only_what_is_needed_and_byte_for_byte(served, tmp_path):
    """Catches gigabytes of ONNX and PyTorch beside the weights, and code of a stranger."""
    ((_, digests),) = resolve(served, tmp_path, call("org/good"))
    expected = {n: hashlib.sha256(b).hexdigest() for n, b in served.needed.items()}
    assert digests == expected


def test_where_a_token_comes_from(served, tmp_path):
    """Catches an argument that is dropped on the way, and a token sent although none is wanted."""
    found = resolve(
        served,
        tmp_path / "a",
        call("org/private"),
        call("org/private", token=False),
        call("org/private", token=True),
        call("org/private", token="hf_other"),
        call("org/private", token=SECRET),
    )
    assert [answer[0] for answer in found[:4]] == [
        "DataNotFoundError",
        "DataNotFoundError",
        "InputError",
        "DataNotFoundError",
    ]
    assert "'org/private'" in found[0][1]
    assert "private or is gated" in found[0][1]
    assert "token=True, and no token is stored" in found[2][1]
    assert set(found[4][1]) == set(served.needed)
    (home := tmp_path / "b").mkdir()
    (home / "token").write_text(SECRET)
    stored = resolve(served, home, call("org/private", token=True))
    assert set(stored[0][1]) == set(served.needed)
    served.requests.clear()
    by_variable = resolve(served, tmp_path / "c", call("org/private"), HF_TOKEN=SECRET)
    assert set(by_variable[0][1]) == set(served.needed)
    served.requests.clear()
    resolve(served, tmp_path / "d", call("org/good", token=False), HF_TOKEN=SECRET)
    assert {sent for _, _, sent in served.requests} == {None}


def test_refusals_say_what_to_do(served, tmp_path):
    """Catches one text for everything: terms to accept, a wrong token, a wrong name."""
    found = resolve(
        served,
        tmp_path,
        call("org/gated"),
        call("org/gated", token="hf_other"),
        call("org/good", token="hf_wrong"),
        call("org/missing", token=SECRET),
        call("org/good", revision="v9"),
        call("org/good", revision="v9", token=SECRET),
    )
    assert {answer[0] for answer in found} == {"DataNotFoundError"}
    texts = [answer[1] for answer in found]
    for text, status in zip(texts[:2], ("401", "403"), strict=True):
        assert f"'org/gated' is gated ({served.address} answered {status})" in text
        assert f"accept its terms on {served.address}/org/gated" in text
    assert "answered 401: the token is wrong or has expired" in texts[2]
    assert "answered 404: it does not exist" in texts[3]
    assert texts[4] == texts[5]
    assert "'org/good' has no revision 'v9'" in texts[4]
    assert not any("\n" in text for text in texts)
    served.readers.add("other")
    assert set(resolve(served, tmp_path, call("org/gated", token="hf_other"))[0][1]) == set(
        served.needed
    )


def test_x01_caches_and_no_network(served, tmp_path):
    """Catches a cache_dir that is not heeded, and a call to the Hub where none is allowed."""
    mine, home = str(tmp_path / "mine"), tmp_path / "home"
    first = resolve(served, home, call("org/good", cache_dir=mine), call("org/good"))
    assert first[0][0].startswith(mine)
    assert first[1][0].startswith(str(home / "hub"))
    v2 = served.repos["org/good"].commit({**served.needed, "vocab.txt": b"[PAD]"})
    served.requests.clear()
    found = resolve(
        served,
        home,
        call("org/good", cache_dir=mine, local_files_only=True),
        call("org/private", local_files_only=True),
        call("org/good", revision=v2, local_files_only=True),
    )
    assert served.requests == []
    assert found[0] == first[0]
    assert "'org/private': local_files_only is set, and it is not complete in" in found[1][1]
    assert f"its revision '{v2}' is not complete in the cache {home / 'hub'}" in found[2][1]
    offline = resolve(
        served, home, call("org/good"), call("org/private", cache_dir=mine), HF_HUB_OFFLINE="1"
    )
    assert served.requests == []
    assert offline[0] == first[1]
    assert "'org/private': HF_HUB_OFFLINE is set" in offline[1][1]
    assert mine in offline[1][1]
    moved = resolve(served, home, call("org/good"))
    assert moved[0][1]["vocab.txt"] == hashlib.sha256(b"[PAD]").hexdigest()
    file = tmp_path / "file"
    file.write_text("")
    refused = resolve(served, home, call("org/good", cache_dir=str(file)))
    assert f"cache_dir={file} is a file" in refused[0][1]


def test_a_download_that_breaks_off(served, tmp_path):
    """Catches half a weight file in the cache: it is gone on with, or refused by a clear text."""
    served.breaks = 1
    found = resolve(served, tmp_path / "a", call("org/good"), piece=[1000])
    if found[0][0] == "DataNotFoundError":  # huggingface_hub before 2 leaves it to the next run
        assert "broke off" in found[0][1]
        found = resolve(served, tmp_path / "a", call("org/good"), piece=[1000])
    else:
        assert served.ranges != []
    ((_, digests),) = found
    assert digests == {n: hashlib.sha256(b).hexdigest() for n, b in served.needed.items()}
    served.breaks = 1000
    ((kind, text, _),) = resolve(served, tmp_path / "b", call("org/good"))
    assert kind == "DataNotFoundError"
    assert f"'org/good': the download from {served.address} broke off" in text
    assert "run the same again" in text
    served.breaks = 0
    ((_, digests),) = resolve(served, tmp_path / "b", call("org/good"))
    assert digests == {n: hashlib.sha256(b).hexdigest() for n, b in served.needed.items()}


@pytest.mark.parametrize("token", ["", " ", "hf_a\n", "hf a", "hf_ä", 5, b"hf_a"])
def test_a_token_that_cannot_be_sent(token):
    """Catches "Illegal header value b'Bearer hf_...'", which shows the token in an error."""
    with pytest.raises(InputError, match="token") as caught:
        resolve_folder("org/good", token=token)
    shown = str(caught.value)
    assert "hf" not in shown.replace("hf auth", "")


def test_no_repr_shows_a_token():
    assert SECRET not in repr(HubAccess(SECRET))


@pytest.mark.parametrize(
    "arguments", [{"cache_dir": 5}, {"cache_dir": " "}, {"local_files_only": "no"}]
)
def test_arguments_of_another_form(arguments):
    with pytest.raises(BertFlowError, match=next(iter(arguments))):
        resolve_folder("org/good", **arguments)
