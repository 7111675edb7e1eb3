"""A stand-in for Google Cloud Storage on 127.0.0.1: the calls of its JSON API that we make.

Objects are in a dict, `faults` decides about each call, `calls` remembers them. Like the service it
refuses content that differs from the checksum sent with it, and lists in pages.
"""

import base64
import dataclasses
import email
import email.policy
import json
import threading
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import google_crc32c

PAGE = 7
DROP = -1  # a fault: the connection ends without an answer


@dataclasses.dataclass
class FakeGcs:
    """The buckets and what happens to calls."""

    buckets: dict[str, dict[str, bytes]] = dataclasses.field(default_factory=lambda: {"bucket": {}})
    generations: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    faults: Callable[[str, str], int | None] = lambda method, name: None
    calls: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    count: int = 0

    @property
    def objects(self) -> dict[str, bytes]:
        return self.buckets["bucket"]

    def names(self, under: str = "") -> list[str]:
        return sorted(name for name in self.objects if name.startswith(under))

    def serve(self) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (_Handler,), {"store": self}))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return server


def crc32c(content: bytes) -> str:
    return base64.b64encode(google_crc32c.Checksum(content).digest()).decode()


class _Handler(BaseHTTPRequestHandler):
    store: FakeGcs
    protocol_version = "HTTP/1.1"
    sessions: dict[str, tuple[str, str, dict]] = {}  # noqa: RUF012

    def log_message(self, *args):
        pass

    def do_GET(self):
        self._route("GET")

    def do_POST(self):
        self._route("POST")

    def do_PUT(self):
        self._route("PUT")

    def do_DELETE(self):
        self._route("DELETE")

    def _route(self, method):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = url.path.partition("/b/")[2].split("/", 2)
        bucket = urllib.parse.unquote(parts[0])
        name = urllib.parse.unquote(parts[2]) if len(parts) > 2 else ""
        meta, content = {}, b""
        if len(parts) == 1:
            # The client looks at the bucket itself, beside our calls: that takes another permission.
            self._json(403, {"error": {"code": 403, "message": "storage.buckets.get"}})
            return
        if query.get("uploadType") == "multipart":
            meta, content = self._multipart(body)
        elif query.get("uploadType") == "resumable":
            meta = json.loads(body) if method == "POST" else {}
            if method == "PUT":
                bucket, name, meta = self.sessions[query["upload_id"]]
                content = body
        name = meta.get("name", name)
        self.store.calls.append((method, name))
        fault = self.store.faults(method, name)
        if fault == DROP:
            self.close_connection = True
            self.connection.close()
        elif fault is not None:
            self._json(fault, {"error": {"code": fault, "message": f"fault {fault}"}})
        elif bucket not in self.store.buckets:
            self._json(404, {"error": {"code": 404, "message": "The bucket does not exist."}})
        elif method == "POST" and query.get("uploadType") == "resumable":
            session = f"{len(self.sessions)}"
            self.sessions[session] = bucket, name, meta
            host, port = self.server.server_address
            where = f"http://{host}:{port}/upload/storage/v1/b/{bucket}/o"
            self._send(200, b"", {"Location": f"{where}?uploadType=resumable&upload_id={session}"})
        elif "uploadType" in query:
            self._write(bucket, name, content, meta)
        elif "/rewriteTo/b/" in name:
            source, _, target = name.partition("/rewriteTo/b/")
            target = target.split("/o/", 1)[1]
            self._write(bucket, target, self.store.buckets[bucket][source], {}, copied=True)
        elif method == "GET" and not name:
            self._list(bucket, query)
        elif name not in self.store.buckets[bucket]:
            self._json(404, {"error": {"code": 404, "message": "No such object"}})
        elif method == "DELETE":
            del self.store.buckets[bucket][name]
            self._send(204, b"", {})
        elif query.get("alt") == "media":
            content = self.store.buckets[bucket][name]
            self._send(200, content, {"X-Goog-Hash": f"crc32c={crc32c(content)}"})
        else:
            self._json(200, self._meta(bucket, name))

    def _multipart(self, body):
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        parsed = email.message_from_bytes(head + body, policy=email.policy.HTTP)
        meta, _ = parsed.iter_parts()
        # email would change line ends in binary content: cut it out of the body itself.
        boundary = b"\r\n--" + parsed.get_boundary().encode()
        start = body.index(b"\r\n\r\n", body.index(boundary, 1)) + 4
        return json.loads(meta.get_content()), body[start : body.rindex(boundary)]

    def _write(self, bucket, name, content, meta, copied=False):
        if meta.get("crc32c", crc32c(content)) != crc32c(content):
            self._json(400, {"error": {"code": 400, "message": "checksum"}})
            return
        self.store.count += 1
        self.store.buckets[bucket][name] = content
        self.store.generations[bucket, name] = self.store.count
        found = self._meta(bucket, name)
        self._json(200, {"done": True, "resource": found, **_SIZES} if copied else found)

    def _meta(self, bucket, name):
        content = self.store.buckets[bucket][name]
        generation = self.store.generations.get((bucket, name), 1)
        return {
            "kind": "storage#object",
            "bucket": bucket,
            "name": name,
            "size": str(len(content)),
            "generation": str(generation),
            "crc32c": crc32c(content),
        }

    def _list(self, bucket, query):
        names = sorted(n for n in self.store.buckets[bucket] if n.startswith(query["prefix"]))
        start = int(query.get("pageToken", 0))
        page = [self._meta(bucket, name) for name in names[start : start + PAGE]]
        more = {"nextPageToken": str(start + PAGE)} if start + PAGE < len(names) else {}
        self._json(200, {"kind": "storage#objects", "items": page, **more})

    def _json(self, code, content):
        self._send(code, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, code, content, headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


_SIZES = {"totalBytesRewritten": "0", "objectSize": "0"}
