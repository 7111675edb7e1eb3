"""A headless Chromium driven over its debugging pipe, with the standard library alone."""

import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium():
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One page in one process; every event of the page is kept in `events`."""

    def __init__(self, program, folder: Path):
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (*os.pipe(), *os.pipe())]
        their_input, self._output, self._input, their_output = ends
        log = os.open(folder / "chromium.log", os.O_WRONLY | os.O_CREAT)
        arguments = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            # Whatever is asked of the network fails.
            "--proxy-server=127.0.0.1:9",
            f"--user-data-dir={folder / 'profile'}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        actions = [
            (os.POSIX_SPAWN_DUP2, their_input, 3),
            (os.POSIX_SPAWN_DUP2, their_output, 4),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ]
        self._process = os.posix_spawn(
            program, arguments, os.environ, file_actions=actions, setpgroup=0
        )
        for fd in (their_input, their_output, log):
            os.close(fd)
        self._buffer, self._number, self._session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._output, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def _receive(self, seconds=60):
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._input], [], [], max(0, end - time.monotonic()))
            part = os.read(self._input, 1 << 20) if ready else b""
            assert part, "Chromium went away or does not answer"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path, width, height=900):
        """Load a file in a window of a width and wait until its images are there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def evaluate(self, expression):
        """Return the JSON value of an expression, a promise's when it is kept."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"]["value"]

    def problems(self):
        """Return what the page logged and every request but its own file and data: URLs."""
        logged = [
            event
            for event in self.events
            if event.get("method")
            in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        ]
        requests = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return logged, [url for url in requests if not url.startswith(("file:", "data:"))]

    def close(self):
        for fd in (self._output, self._input):
            os.close(fd)
        os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
