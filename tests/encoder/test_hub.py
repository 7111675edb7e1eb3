"""Paths and Hub ids, against a small local server that speaks the Hub's protocol."""

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bertflow_jax.encoder import resolve_folder
from bertflow_jax.errors import BertFlowError, DataNotFoundError, InputError

COMMIT = "a" * 40


def test_mini_bert_is_the_packages_own():
    folder = resolve_folder("mini_bert")
    assert (folder / "model.safetensors").is_file()
    assert folder.parent.parent.name == "bertflow_jax"


def test_existing_folder_wins_over_a_hub_id(tmp_path, monkeypatch):
    """Catches a relative folder `org/name` that is asked of the Hub."""
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert resolve_folder("org/name") == Path("org/name")


@pytest.mark.parametrize(
    "name", ["./no/such", "../x", "~/no-such-folder", "/abs/missing", "a/b/c", ".", Path("a/b")]
)
def test_x01_path_like_names_never_reach_the_hub(name, monkeypatch, tmp_path):
    """Catches "repo id must be in the form ..." for a mistyped path (case X01)."""
    monkeypatch.setattr("huggingface_hub.snapshot_download", None)
    if name == ".":
        monkeypatch.chdir(tmp_path)
        assert resolve_folder(name) == Path()
        return
    with pytest.raises(DataNotFoundError, match=f"folder not found: {name}"):
        resolve_folder(name)


def test_file_and_empty_name(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_text("")
    with pytest.raises(DataNotFoundError, match="is a file"):
        resolve_folder(file)
    with pytest.raises(InputError, match="empty"):
        resolve_folder(" ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/" + "x" * 300, "folder not found: /xxx"),
        ("x" * 300, "not a Hub id"),
        ("~nosuchuser/x", "encoder=~nosuchuser/x: the home folder"),
        ("a\0b", "zero byte"),
        (5, "not int"),
        (None, "not NoneType"),
    ],
)
def test_names_that_no_folder_can_have(name, message):
    """Catches OSError, RuntimeError and TypeError of pathlib."""
    with pytest.raises(BertFlowError, match=message):
        resolve_folder(name)


class Hub(http.server.BaseHTTPRequestHandler):
    """org/good has files; other names are answered by the status in them (org/status-401)."""

    files: dict[str, bytes]
    seen: list[str]

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        self.seen.append(f"{self.command} {path}")
        if "org/status-" in path:
            self.answer(int(path.split("org/status-")[1][:3]), b'{"error": "no"}')
        elif path.startswith("/api/models/org/good/revision/"):
            self.json(
                {
                    "id": "org/good",
                    "sha": COMMIT,
                    "siblings": [{"rfilename": n} for n in self.files],
                }
            )
        elif path.startswith("/api/models/org/good/tree/"):
            self.json(
                [
                    {"type": "file", "path": n, "size": len(b), "oid": self.etag(b)}
                    for n, b in self.files.items()
                ]
            )
        elif path.startswith(f"/org/good/resolve/{COMMIT}/"):
            body = self.files.get(path.rpartition(f"{COMMIT}/")[2])
            if body is None:
                self.answer(404, X_Error_Code="EntryNotFound")
            else:
                self.answer(200, body, ETag=f'"{self.etag(body)}"', X_Repo_Commit=COMMIT)
        else:
            self.answer(404, X_Error_Code="RepoNotFound")

    do_HEAD = do_GET

    def json(self, content):
        self.answer(200, json.dumps(content).encode(), Content_Type="application/json")

    @staticmethod
    def etag(body):
        return hashlib.sha1(body).hexdigest()

    def log_message(self, *args):
        pass


@pytest.fixture
def hub(bert_folder):
    """Serve a tiny encoder as org/good, with files that must not be downloaded."""
    folder = bert_folder()
    files = {p.name: p.read_bytes() for p in folder.iterdir()}
    files |= {"pytorch_model.bin": b"big", "onnx/model.onnx": b"big", "README.md": b"text"}
    handler = type("Handler", (Hub,), {"files": files, "seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield handler, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


SCRIPT = """
import sys
from bertflow_jax.encoder import resolve_folder
from bertflow_jax.errors import BertFlowError
for name in sys.argv[1:]:
    try:
        folder = resolve_folder(*name.split("@"))
        print("ok", sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()))
    except BertFlowError as error:
        print(type(error).__name__, error)
"""


def resolve(endpoint, cache, *names, **env):
    """Resolve names in a fresh process: huggingface_hub reads its settings once."""
    env = {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(cache),
        "HF_TOKEN": "hf_secret",
        **env,
    }
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *names], env=env, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert "hf_secret" not in run.stdout + run.stderr
    return run.stdout.splitlines()


def test_x01_hub_download_cache_and_refusals(hub, tmp_path):
    """Case X01: what is fetched, what an offline run finds, and how refusals read."""
    handler, endpoint = hub
    cache = tmp_path / "cache"
    wanted = "['config.json', 'model.safetensors', 'tokenizer_config.json', 'vocab.txt']"
    lines = resolve(
        endpoint,
        cache,
        "org/good",
        "org/status-401",
        "org/status-403",
        "org/status-404",
        "org/status-418",
        "or g/x",
    )
    assert lines[0] == f"ok {wanted}"
    for line, status in zip(lines[1:4], ("401", "403", "404"), strict=True):
        assert line.startswith("DataNotFoundError Hub id 'org/status-")
        assert status in line
        assert "private or is gated" in line
        assert "HF_TOKEN" in line
    assert "answered 418: try again later" in lines[4]
    assert "folder not found, and not a Hub id: 'or g/x'" in lines[5]

    handler.seen.clear()
    offline = resolve(endpoint, cache, "org/good", "org/other", HF_HUB_OFFLINE="1")
    assert offline[0] == f"ok {wanted}"
    assert "HF_HUB_OFFLINE is set" in offline[1]
    assert str(cache) in offline[1]
    assert handler.seen == []

    down = resolve("http://127.0.0.1:9", cache, "org/good", "org/other")
    assert down[0] == f"ok {wanted}"
    assert "http://127.0.0.1:9 cannot be reached" in down[1]
