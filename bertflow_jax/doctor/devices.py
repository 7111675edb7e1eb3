"""Starts the probe and reads what it says, however it ends."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bertflow_jax.data.json_files import parse_json
from bertflow_jax.doctor.finding import Finding

_REMEDY = (
    "install the jax for this machine (pip install 'jax[cuda12]' or 'jax[tpu]'), end other "
    "programs that hold the device, or compute on the CPU with JAX_PLATFORMS=cpu"
)
_PACKAGE = Path(__file__).resolve().parents[2]


def find_devices(timeout: float, program: str = "bertflow_jax.doctor.probe") -> list[Finding]:
    """Return what runs on the devices, waiting for `timeout` seconds at most."""
    path = os.pathsep.join(filter(None, [str(_PACKAGE), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        ended = ""
        try:
            done = subprocess.run(
                [sys.executable, "-m", program],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                timeout=timeout,
                check=False,
            )
            if done.returncode:
                ended = f"ended the process with {done.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"was not done after {timeout:.0f} s (--timeout waits longer)"
        out.seek(0)
        errors.seek(0)
        return _read(out.read(), ended, errors.read())


def _read(said: bytes, ended: str, errors: bytes) -> list[Finding]:
    found, current = [], "starting Python"
    for line in said.decode("utf-8", "replace").splitlines():
        try:
            fields = parse_json(line)
        except ValueError:  # a library's own print
            continue
        if not isinstance(fields, dict) or not {"starts", "check"} & set(fields):
            continue
        if "starts" in fields:
            current = fields["starts"]
            continue
        problem = fields["problem"]
        if fields["check"] == "devices" and problem:
            named = os.environ.get("JAX_PLATFORMS")
            asked = f" with JAX_PLATFORMS={named}" if named else ""
            problem = f"JAX finds no device{asked}: {problem}; {_REMEDY}"
        found.append(Finding("devices", fields["check"], fields["value"], problem))
    if ended:
        lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
        last = f": {lines[-1].strip()}" if lines else ""
        found.append(Finding("devices", current, "failed", f"{current} {ended}{last}; {_REMEDY}"))
    return found
