"""python -m bertflow_jax.doctor: what is wrong is found, told and ends with 2; else 0."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax.doctor import devices, places, probe, versions
from bertflow_jax.doctor.environment import find_environment

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, **variables: str):
    return subprocess.run(
        [sys.executable, "-m", "bertflow_jax.doctor", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
    )


def test_a_machine_that_is_well(tmp_path):
    """An exit code other than 0 for this very machine; a token in a report that is posted."""
    done = run(
        "--json", HF_TOKEN="hf_secret", HTTPS_PROXY="http://me:pw@host:1", HOME=str(tmp_path)
    )
    report = json.loads(done.stdout)
    assert report["problems"] == []
    assert done.returncode == 0, done.stderr
    found = {(f["section"], f["name"]): f["value"] for f in report["findings"]}
    assert found["versions", "numpy"] == np.__version__
    assert found["devices", "mini_bert"].startswith("gives the known vector")
    assert "1 x cpu" in found["devices", "devices"]
    assert found["environment", "HF_TOKEN"] == "set"
    assert "hf_secret" not in done.stdout
    assert "pw@" not in done.stdout


def test_a_device_that_cannot_be_started_is_told():
    """A traceback of JAX instead of what to do; the rest of the report lost."""
    done = run(JAX_PLATFORMS="rocket")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "JAX finds no device with JAX_PLATFORMS=rocket" in done.stderr
    assert "JAX_PLATFORMS=cpu" in done.stderr
    assert "Hub cache" in done.stdout


def test_a_probe_that_hangs_or_crashes_ends_nothing(tmp_path, monkeypatch):
    """A doctor that hangs on a TPU that another process holds, or dies with the driver."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    begins = "import json, os, time\nprint(json.dumps({'starts': 'matmul'}), flush=True)\n"
    (tmp_path / "hangs.py").write_text(begins + "time.sleep(60)")
    (tmp_path / "dies.py").write_text(begins + "os.write(2, b'driver lost\\n')\nos.abort()")
    (hung,) = devices.find_devices(2.0, "hangs")
    assert "matmul was not done after 2 s" in hung.problem
    (died,) = devices.find_devices(60.0, "dies")
    assert "matmul ended the process with -6: driver lost" in died.problem


@pytest.mark.parametrize("check", ["matmul", "step"])
def test_wrong_numbers_are_found(check, monkeypatch):
    """A comparison that passes whatever a device computes."""
    assert getattr(probe, check)()[1] == ""
    import jax

    real = jax.jit

    def broken(fun, **options):
        return real(lambda *args: fun(*args) + 0.01, **options)

    monkeypatch.setattr(jax, "jit", broken)
    value, problem = getattr(probe, check)()
    assert value == "wrong"
    assert "from NumPy's" in problem


def test_another_encoder_than_the_bundled_one_is_found(monkeypatch):
    """Damaged weights that load all the same."""
    monkeypatch.setattr(probe, "TEXT", "A man is playing a flute.")
    value, problem = probe.mini_bert()
    assert value == "wrong"
    assert "away from the known one" in problem


def test_versions_outside_their_range_are_found():
    """A range that is printed and not compared."""
    good = versions.check_requirement("numpy>=1.26,<99")
    assert (good.value, good.problem) == (np.__version__, "")
    old = versions.check_requirement("numpy>=99,<100")
    assert f"numpy {np.__version__} is not in the range" in old.problem
    assert "pip install 'numpy>=99,<100'" in old.problem
    assert "is not installed" in versions.check_requirement("no-such-package-here>=1").problem
    # A nightly, of which there is nothing but pre-releases.
    assert versions.check_requirement("tfp-nightly>=0.25.0.dev20250101,<0.27").problem == ""
    listed = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line]
    assert len(versions.requirements()) == len([line for line in listed if line[0] != "#"])


def test_folders_that_cannot_be_used_are_found(tmp_path, monkeypatch):
    """A cache that fails after an hour of work."""
    value, problem = places.look_at(tmp_path / "a" / "b")
    assert "not made yet, writable" in value
    assert problem == ""
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    assert "is no folder" in places.look_at(tmp_path / "file" / "a")[1]
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    value, problem = places.look_at(tmp_path / "open")
    assert "permissions 777" in value
    assert "chmod o-w" in problem
    (tmp_path / "open").chmod(0o777 | stat.S_ISVTX)
    assert places.look_at(tmp_path / "open")[1] == ""
    monkeypatch.setattr(places, "_LEAST", 2**70)
    assert "too few" in places.look_at(tmp_path)[1]
    monkeypatch.setenv("BERTFLOW_COMPILATION_CACHE", str(tmp_path / "file"))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    (found,) = [f for f in places.find_places() if f.name == "compiled programs"]
    assert "set BERTFLOW_COMPILATION_CACHE to another folder" in found.problem
    monkeypatch.setenv("BERTFLOW_COMPILATION_CACHE", "off")
    assert [f.value for f in places.find_places() if f.name == "compiled programs"] == ["off"]


def test_a_folder_without_permission_is_found(tmp_path, monkeypatch):
    """os.access asked of a file system that says yes and means no."""

    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(places.tempfile, "TemporaryFile", refuse)
    assert "is not writable (Read-only file system)" in places.look_at(tmp_path)[1]


def test_secrets_are_not_shown_and_switches_are_refused():
    """A key in a bug report; float64 everywhere and nobody knows why."""
    found = {
        f.name: f
        for f in find_environment(
            {
                "HF_TOKEN": "abc",
                "HF_TOKEN_PATH": "/a/token",
                "TOKENIZERS_PARALLELISM": "false",
                "GOOGLE_API_KEY": "abc",
                "HTTP_PROXY": "http://me:abc@host:80/",
                "JAX_ENABLE_X64": "True",
                "JAX_DISABLE_JIT": "0",
                "UNRELATED": "abc",
            }
        )
    }
    shown = {name: finding.value for name, finding in found.items()}
    assert shown == {
        "HF_TOKEN": "set",
        "HF_TOKEN_PATH": "/a/token",
        "TOKENIZERS_PARALLELISM": "false",
        "GOOGLE_API_KEY": "set",
        "HTTP_PROXY": "http://...@host:80/",
        "JAX_ENABLE_X64": "True",
        "JAX_DISABLE_JIT": "0",
    }
    assert [name for name, finding in found.items() if finding.problem] == ["JAX_ENABLE_X64"]
