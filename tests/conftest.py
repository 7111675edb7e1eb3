"""What all tests share: where the reference data lie, exact matmuls, one cache of compiled code."""

import os
import tempfile
from pathlib import Path

import jax
import pytest

jax.config.update("jax_default_matmul_precision", "highest")
# Many tests compile the same small programs; a cache of their own makes each compile once.
_COMPILED = tempfile.TemporaryDirectory(prefix="bertflow-jax-tests-")
jax.config.update("jax_compilation_cache_dir", _COMPILED.name)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

# No test reads or fills the user's own cache of embeddings.
os.environ["XDG_CACHE_HOME"] = str(Path(_COMPILED.name) / "cache")

_SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of reference data beside the repository; tests that need it skip without it."""
    if not _SHARED.is_dir():
        pytest.skip(f"reference data not found at {_SHARED}")
    return _SHARED
