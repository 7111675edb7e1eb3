"""A stand-in for the Hugging Face Hub on 127.0.0.1: the endpoints that huggingface_hub calls for us.

Repositories are commits of files, held in memory. As on the Hub, a private repository is a 404
without a token of its owner, a gated one a 403 without access, a token nobody has is a 401
everywhere, files of weights go through the LFS endpoints and come back through a redirect to
another place that wants no token. `requests` remembers the calls, `breaks` ends so many answers to
downloads half way. HF_HUB_DISABLE_XET=1 keeps huggingface_hub from Xet's servers, which are not here.
"""

import base64
import dataclasses
import hashlib
import http.server
import json
import re
import threading
import urllib.parse
from collections.abc import Mapping

import yaml

TOKEN = "hf_mine"  # of the user `org`
LFS = (".safetensors", ".bin", ".msgpack", ".onnx")
LICENSES = ("apache-2.0", "mit", "cc-by-4.0", "other")
Files = dict[str, bytes]


@dataclasses.dataclass
class Repo:
    private: bool = False
    gated: bool = False
    branches: dict[str, str] = dataclasses.field(default_factory=dict)
    commits: dict[str, Files] = dataclasses.field(default_factory=dict)
    messages: list[str] = dataclasses.field(default_factory=list)

    def commit(self, files: Files, branch: str = "main", message: str = "") -> str:
        about = json.dumps([sorted((n, etag(n, b)) for n, b in files.items()), len(self.commits)])
        sha = hashlib.sha1(about.encode()).hexdigest()
        self.commits[sha] = dict(files)
        self.branches[branch] = sha
        self.messages.append(message)
        return sha

    def files(self, revision: str = "main") -> Files:
        return self.commits[self.branches.get(revision, revision)]


@dataclasses.dataclass
class FakeHub:
    """The state of the Hub.

    Attributes:
      tokens: token -> user; what a user may write to starts with the user's name.
      readers: users who may read gated repositories.
      breaks: so many answers with a file's content end half way.
    """

    tokens: dict[str, str] = dataclasses.field(
        default_factory=lambda: {TOKEN: "org", "hf_other": "other"}
    )
    readers: set[str] = dataclasses.field(default_factory=set)
    repos: dict[str, Repo] = dataclasses.field(default_factory=dict)
    objects: dict[str, bytes] = dataclasses.field(default_factory=dict)
    requests: list[tuple[str, str, str | None]] = dataclasses.field(default_factory=list)
    ranges: list[str] = dataclasses.field(default_factory=list)
    breaks: int = 0
    fail_commits: int = 0

    def add(self, name: str, files: Mapping[str, bytes], **fields) -> Repo:
        repo = self.repos[name] = Repo(**fields)
        repo.commit(dict(files))
        return repo

    def serve(self) -> http.server.ThreadingHTTPServer:
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self})
        )
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        return server

    def paths(self, method: str = "") -> list[str]:
        return [path for how, path, _ in self.requests if how == method or not method]


def address(server: http.server.ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def is_lfs(name: str) -> bool:
    return name.endswith(LFS)


def etag(name: str, body: bytes) -> str:
    if is_lfs(name):
        return hashlib.sha256(body).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


class _Refused(Exception):
    def __init__(self, status: int, code: str = "", message: str = "no"):
        self.status, self.code, self.message = status, code, message


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        url = urllib.parse.urlsplit(self.path)
        authorization = self.headers.get("Authorization")
        self.hub.requests.append((self.command, url.path, authorization))
        try:
            for method, pattern, handle in _ROUTES:
                found = re.fullmatch(pattern, url.path)
                if found and self.command in method.split():
                    groups = {k: v for k, v in found.groupdict().items() if v is not None}
                    handle(self, body, **{k: urllib.parse.unquote(v) for k, v in groups.items()})
                    return
            raise _Refused(404)
        except _Refused as refused:
            self.send(
                refused.status,
                json.dumps({"error": refused.message}).encode(),
                **({"X-Error-Code": refused.code} if refused.code else {}),
                **{"X-Error-Message": refused.message},
            )

    do_HEAD = do_POST = do_PUT = do_GET

    def send(self, status: int, body: bytes = b"", cut: bool = False, **headers: str):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True

    def json(self, content: object, status: int = 200):
        self.send(status, json.dumps(content).encode(), **{"Content-Type": "application/json"})

    def user(self) -> str | None:
        sent = self.headers.get("Authorization")
        if sent is None:
            return None
        user = self.hub.tokens.get(sent.removeprefix("Bearer "))
        if user is None:
            raise _Refused(401, message="Invalid credentials in Authorization header")
        return user

    def repo(self, name: str, write: bool = False) -> Repo:
        user, repo = self.user(), self.hub.repos.get(name)
        owner = name.split("/")[0]
        if repo is None or (repo.private and user != owner):
            raise _Refused(401 if user is None else 404, "RepoNotFound", "Repository not found")
        if write and user != owner:
            raise _Refused(401 if user is None else 403, message="Forbidden")
        return repo

    def files(self, name: str, revision: str) -> tuple[str, Files]:
        repo = self.repo(name)
        sha = repo.branches.get(revision, revision)
        if sha not in repo.commits:
            raise _Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return sha, repo.commits[sha]

    def whoami(self, body):
        user = self.user()
        if user is None:
            raise _Refused(401, message="Invalid username or password.")
        self.json({"type": "user", "name": user, "auth": {"type": "access_token"}})

    def validate_yaml(self, body):
        text = json.loads(body)["content"]
        found = re.match(r"\A---\n(.*?)\n---\n", text, re.DOTALL)
        try:
            data = yaml.safe_load(found[1]) if found else {}
            errors = _yaml_errors(data)
        except yaml.YAMLError as error:
            errors = [str(error)]
        messages = [{"message": text} for text in errors]
        self.json({"errors": messages, "warnings": []}, 400 if errors else 200)

    def create(self, body):
        user, fields = self.user(), json.loads(body)
        owner = fields.get("organization") or user
        if user is None or owner != user:
            raise _Refused(401 if user is None else 403, message="Forbidden")
        name = f"{owner}/{fields['name']}"
        url = {"url": f"http://{self.headers['Host']}/{name}", "name": name}
        if name in self.hub.repos:
            self.json({**url, "error": "You already created this model repo"}, 409)
            return
        private = fields.get("visibility") == "private" or bool(fields.get("private"))
        self.hub.add(name, {".gitattributes": b""}, private=private)
        self.json(url)

    def branch(self, body, name, branch):
        repo = self.repo(name, write=True)
        if branch in repo.branches:
            raise _Refused(409, message="Reference already exists")
        repo.branches[branch] = repo.branches["main"]
        self.json({})

    def preupload(self, body, name, revision):
        self.repo(name, write=True)
        sent = json.loads(body)["files"]
        modes = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if is_lfs(file["path"]) else "regular",
                "shouldIgnore": False,
            }
            for file in sent
        ]
        self.json({"files": modes})

    def lfs_batch(self, body, name):
        self.repo(name, write=True)
        host = f"http://{self.headers['Host']}"
        found = []
        for sent in json.loads(body)["objects"]:
            actions = {
                "upload": {"href": f"{host}/lfs-put/{sent['oid']}"},
                "verify": {"href": f"{host}/lfs-verify/{name}"},
            }
            known = sent["oid"] in self.hub.objects
            found.append({**sent, **({} if known else {"actions": actions})})
        self.json({"objects": found, "transfer": "basic"})

    def lfs_put(self, body, oid):
        if hashlib.sha256(body).hexdigest() != oid:
            raise _Refused(400, message="another file")
        self.hub.objects[oid] = body
        self.send(200)

    def lfs_verify(self, body, name):
        self.repo(name, write=True)
        sent = json.loads(body)
        if len(self.hub.objects.get(sent["oid"], b"")) != sent["size"]:
            raise _Refused(404, message="not uploaded")
        self.json({})

    def commit(self, body, name, revision):
        repo = self.repo(name, write=True)
        if revision not in repo.branches:
            raise _Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if self.hub.fail_commits:
            self.hub.fail_commits -= 1
            raise _Refused(503, message="busy")
        files, message = dict(repo.files(revision)), ""
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                message = value["summary"]
            elif entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            elif entry["key"] == "deletedFile":
                del files[value["path"]]
            else:
                raise _Refused(400, message=f"unknown {entry['key']}")
        sha = repo.commit(files, revision, message)
        url = f"http://{self.headers['Host']}/{name}/commit/{sha}"
        self.json({"commitUrl": url, "commitOid": sha, "success": True})

    def info(self, body, name, revision="main"):
        sha, files = self.files(name, revision)
        repo = self.hub.repos[name]
        self.json(
            {
                "id": name,
                "modelId": name,
                "sha": sha,
                "private": repo.private,
                "gated": "manual" if repo.gated else False,
                "tags": [],
                "siblings": [{"rfilename": file} for file in files],
            }
        )

    def tree(self, body, name, revision, under=""):
        self.read(name)
        files = self.files(name, revision)[1]
        found = [_entry(file, files[file]) for file in sorted(files) if file.startswith(under)]
        if under and not found:
            raise _Refused(404, "EntryNotFound", "no such folder")
        self.json(found)

    def paths_info(self, body, name, revision):
        self.read(name)
        files = self.files(name, revision)[1]
        asked = urllib.parse.parse_qs(body.decode()).get("paths", [])
        if not asked:
            asked = json.loads(body).get("paths", [])
        self.json([_entry(file, files[file]) for file in asked if file in files])

    def read(self, name: str) -> None:
        repo, user = self.repo(name), self.user()
        if repo.gated and user not in self.hub.readers and user != name.split("/")[0]:
            raise _Refused(401 if user is None else 403, "GatedRepo", f"Access to {name} is gated")

    def resolve(self, body, name, revision, file):
        self.read(name)
        sha, files = self.files(name, revision)
        if file not in files:
            raise _Refused(404, "EntryNotFound", "Entry not found")
        content = files[file]
        found = {"X-Repo-Commit": sha, "ETag": f'"{etag(file, content)}"'}
        if not is_lfs(file):
            self.content(content, **found)
            return
        oid = etag(file, content)
        self.hub.objects[oid] = content
        linked = {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(content))}
        # localhost is another place than 127.0.0.1: no token may follow.
        where = f"http://localhost:{self.server.server_address[1]}/cdn/{oid}"
        self.send(302, Location=where, **found, **linked)

    def cdn(self, body, oid):
        if self.headers.get("Authorization"):
            raise _Refused(400, message="a token for the wrong place")
        self.content(self.hub.objects[oid], ETag=f'"{oid}"')

    def content(self, body: bytes, **headers: str):
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked:
            start = int(asked[1])
            self.hub.ranges.append(self.path)
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            body = body[start:]
        cut = self.command == "GET" and self.hub.breaks > 0 and len(body) > 1000
        self.hub.breaks -= cut
        headers["Accept-Ranges"] = "bytes"
        self.send(206 if asked else 200, body, cut, **headers)


def _entry(name: str, body: bytes) -> dict[str, object]:
    oid = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
    entry: dict[str, object] = {"type": "file", "path": name, "size": len(body), "oid": oid}
    if is_lfs(name):
        entry["lfs"] = {"oid": etag(name, body), "size": len(body), "pointerSize": 134}
    return entry


def _yaml_errors(data: object) -> list[str]:
    """What the Hub's own check of a card refuses, of what we write."""
    if not isinstance(data, dict):
        return ["the metadata must be an object"]
    found = []
    if data.get("license", "mit") not in LICENSES:
        found.append(f'"license" must be one of {", ".join(LICENSES)}')
    tags = data.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        found.append('"tags" must be an array of strings')
    base = data.get("base_model", "a/b")
    if not isinstance(base, str) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", base):
        found.append('"base_model" must be a model id')
    for model in data.get("model-index", []):
        if not isinstance(model.get("name"), str):
            found.append('"model-index[0].name" is required')
        for result in model.get("results", []):
            if "type" not in result.get("task", {}) or not {"name", "type"} <= set(
                result.get("dataset", {})
            ):
                found.append('"model-index[0].results[0]" needs task.type, dataset.type and .name')
            for metric in result.get("metrics", []):
                if not {"type", "value"} <= set(metric):
                    found.append('"model-index[0].results[0].metrics[0]" needs type and value')
    return found


_NAME = r"(?P<name>[^/]+/[^/]+)"
_MODEL = rf"/api/models/{_NAME}"
_ROUTES = [
    ("GET", r"/api/whoami-v2", _Handler.whoami),
    ("POST", r"/api/validate-yaml", _Handler.validate_yaml),
    ("POST", r"/api/repos/create", _Handler.create),
    ("POST", rf"{_MODEL}/branch/(?P<branch>.+)", _Handler.branch),
    ("POST", rf"{_MODEL}/preupload/(?P<revision>[^/]+)", _Handler.preupload),
    ("POST", rf"/{_NAME}\.git/info/lfs/objects/batch", _Handler.lfs_batch),
    ("PUT", r"/lfs-put/(?P<oid>\w+)", _Handler.lfs_put),
    ("POST", rf"/lfs-verify/{_NAME}", _Handler.lfs_verify),
    ("POST", rf"{_MODEL}/commit/(?P<revision>[^/]+)", _Handler.commit),
    ("POST", rf"{_MODEL}/paths-info/(?P<revision>[^/]+)", _Handler.paths_info),
    ("GET HEAD", rf"{_MODEL}/tree/(?P<revision>[^/]+)(/(?P<under>.+))?", _Handler.tree),
    ("GET HEAD", rf"{_MODEL}(/revision/(?P<revision>[^/]+))?", _Handler.info),
    (
        "GET HEAD",
        rf"/(api/resolve-cache/models/)?{_NAME}/resolve/(?P<revision>[^/]+)/(?P<file>.+)",
        _Handler.resolve,
    ),
    ("GET HEAD", r"/cdn/(?P<oid>\w+)", _Handler.cdn),
]
