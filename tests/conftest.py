"""What all tests share: where the reference data lie, and exact matmuls."""

from pathlib import Path

import jax
import pytest

jax.config.update("jax_default_matmul_precision", "highest")

_SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of reference data beside the repository; tests that need it skip without it."""
    if not _SHARED.is_dir():
        pytest.skip(f"reference data not found at {_SHARED}")
    return _SHARED
