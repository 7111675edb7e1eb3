"""Ctrl-C and SIGTERM while the Hub is talked to: a repository gets one whole commit or none."""

import contextlib
import queue
import signal
import threading

import fake_hub
import pytest
from fake_hub import TOKEN, FakeHub, address
from struck import ENDS, ended, environment, start

pytestmark = pytest.mark.slow

ARGUMENTS = ["--encoder=mini_bert", "--repo_id=org/x"]
# A suite in the background of a shell is started with Ctrl-C ignored.
HEEDING = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "runpy.run_module('bertflow_jax.push', run_name='__main__', alter_sys=True)"
)


@contextlib.contextmanager
def served(hub):
    server = hub.serve()
    try:
        yield {
            "HF_ENDPOINT": address(server),
            "HF_TOKEN": TOKEN,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        }
    finally:
        server.shutdown()
        server.server_close()


def push(hub, cwd, strike=None):
    """Push to a hub; the queue `strike` gets the process."""
    cwd.mkdir(exist_ok=True)
    with served(hub) as settings:
        env = environment(cwd, HF_HOME=str(cwd / "home"), **settings)
        process = start(["-c", HEEDING, *ARGUMENTS], cwd, env)
        if strike is not None:
            strike.put(process)
        return ended(process, cwd, env)


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """The files of a push that nothing has stopped."""
    hub = FakeHub()
    assert push(hub, tmp_path_factory.mktemp("whole") / "place")[0] == 0
    return hub.repos["org/x"].files()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("request_of", ["create", "lfs_put", "commit"])
def test_one_whole_commit_or_none(request_of, number, pushed, tmp_path, monkeypatch):
    """A traceback out of a thread that uploads, a folder of weights left among the temporary files,
    exit code 2 with the Hub blamed, or a repository that a second push does not make whole.

    The Hub sends the signal when a request of that kind has arrived, before it does what is asked.
    """
    processes, begun, done = queue.Queue(), threading.Event(), threading.Event()

    def struck(handler, body, **named):
        if not begun.is_set():
            begun.set()
            processes.get(timeout=60).send_signal(number)
        try:
            real(handler, body, **named)
        finally:
            done.set()

    real = getattr(fake_hub._Handler, request_of)
    routes = [(how, url, struck if do is real else do) for how, url, do in fake_hub._ROUTES]
    monkeypatch.setattr(fake_hub, "_ROUTES", routes)
    hub = FakeHub()
    assert push(hub, tmp_path / "place", processes) == ENDS[number]
    assert done.wait(60)
    repo = hub.repos["org/x"]
    # A commit that has arrived is made, whether the one who sent it is still there or not.
    whole = request_of == "commit"
    assert repo.files() == (pushed if whole else {".gitattributes": b""})
    assert push(hub, tmp_path / "place")[0] == 0
    assert repo.files() == pushed
