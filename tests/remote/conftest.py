"""A bucket for every test of this folder."""

import contextlib
import tempfile

import pytest

pytest.importorskip("google.cloud.storage", reason="needs the extra gcs")

from fake_gcs import FakeGcs

from bertflow_jax.remote import bucket


@contextlib.contextmanager
def _service():
    fake = FakeGcs()
    server = fake.serve()
    host, port = server.server_address
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("STORAGE_EMULATOR_HOST", f"http://{host}:{port}")
        patched.setattr(bucket, "PATIENCE", 1.0)
        yield fake
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def service():
    """Context manager: a fake service with one empty bucket; failures are tried again for 1 s."""
    return _service


@pytest.fixture
def gcs(service, monkeypatch, tmp_path):
    """A fake service of the test's own, and an empty folder where runs put temporary ones."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with service() as fake:
        yield fake
