"""A bucket for every test of this folder."""

import tempfile

import pytest

pytest.importorskip("google.cloud.storage", reason="needs the extra gcs")

from fake_gcs import FakeGcs

from bertflow_jax.remote import bucket


@pytest.fixture
def gcs(monkeypatch, tmp_path):
    """A fake service with one empty bucket, gs://bucket; failures are tried again for 1 s."""
    fake = FakeGcs()
    server = fake.serve()
    host, port = server.server_address
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{host}:{port}")
    monkeypatch.setattr(bucket, "PATIENCE", 1.0)
    # Where runs put their temporary folders.
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    yield fake
    server.shutdown()
    server.server_close()
