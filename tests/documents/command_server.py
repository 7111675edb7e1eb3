"""Runs python commands in children of one process that has loaded JAX and its kin already.

A command of ours spends three to five seconds on loading packages. This process loads the packages
of others (nothing of bertflow_jax, and no device), and forks for every command that comes through a
Unix socket: its words, folder and environment as JSON, its streams as file descriptors. The answer
is the exit code. `shim` is what stands for `python` on the PATH of a block.

    python command_server.py SOCKET
"""

import contextlib
import json
import os
import runpy
import signal
import socket
import sys
import traceback

SHIM = """#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    words = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(words).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(words)
    code = int.from_bytes(server.recv(8), "big", signed=True)
sys.exit(code if code >= 0 else 128 - code)
"""


def load_packages() -> None:
    """Import what the commands spend their first seconds on."""
    import distrax  # noqa: F401
    import flax.linen  # noqa: F401
    import jax
    import matplotlib.figure  # noqa: F401
    import ml_collections.config_flags  # noqa: F401
    import optax  # noqa: F401
    import orbax.checkpoint  # noqa: F401
    import scipy.stats  # noqa: F401
    import transformers

    # Both load their parts at the first use.
    _ = jax.numpy, transformers.PreTrainedTokenizerFast


def run(words: list[str]) -> None:
    """Do what `python WORDS` does."""
    if words[:1] == ["-m"]:
        sys.argv = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[:1] == ["-c"]:
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, os.getcwd())
        exec(words[1], {"__name__": "__main__"})
    elif words and not words[0].startswith("-"):
        sys.argv = words
        sys.path.insert(0, os.path.dirname(os.path.realpath(words[0])))
        runpy.run_path(words[0], run_name="__main__")
    else:
        raise SystemExit(f"python {words}: give a file, -m MODULE or -c CODE")


def child(words: list[str], folder: str, environment: dict[str, str], streams: list[int]) -> None:
    """Run a command in this process and end it."""
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        # Those of the parent remember what it was started with.
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run(words)
        code = 0
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def serve(address: str) -> None:
    """Answer commands, one after the other, until the parent has ended."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        load_packages()
        parent = os.getppid()
        listening.settimeout(1)
        while os.getppid() == parent:
            try:
                client, _ = listening.accept()
            except TimeoutError:
                continue
            with client:
                client.setblocking(True)
                size, streams, *_ = socket.recv_fds(client, 8, 3)
                wanted, asked = int.from_bytes(size, "big"), b""
                while len(asked) < wanted:
                    asked += client.recv(wanted - len(asked))
                pid = os.fork()
                if pid == 0:
                    child(*json.loads(asked), streams)
                for stream in streams:
                    os.close(stream)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                client.sendall(code.to_bytes(8, "big", signed=True))


if __name__ == "__main__":
    serve(sys.argv[1])
