"""What all tests share: where the reference data lie, exact matmuls, one cache of compiled code."""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

# On the CPU, also where there is a GPU; BERTFLOW_TEST_PLATFORM=cuda (or tpu) is for `-m device`.
os.environ.setdefault("BERTFLOW_TEST_PLATFORM", "cpu")
os.environ["JAX_PLATFORMS"] = f"{os.environ['BERTFLOW_TEST_PLATFORM']},cpu".removeprefix("cpu,")
# The suite is mostly compilation of tiny programs, and LLVM's optimisation is half of that; what
# XLA itself makes of a program (fusions, layouts, libraries) stays. Read when JAX is imported.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0" * (os.environ["JAX_PLATFORMS"] == "cpu")
)

import jax
import pytest

jax.config.update("jax_default_matmul_precision", "highest")
# Many tests compile the same small programs; a cache of the run's own makes each compile once.
# Worker processes inherit the variable, and so share it.
_RUN = os.environ.setdefault("BERTFLOW_TEST_RUN", str(os.getpid()))
_COMPILED = Path(tempfile.gettempdir()) / f"bertflow-jax-tests-{_RUN}"
_COMPILED.mkdir(mode=0o700, exist_ok=True)
jax.config.update("jax_compilation_cache_dir", str(_COMPILED))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

# A suite that was started in the background inherits SIGINT as ignored, and would hand that on to
# the commands that it starts and then interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test reads or fills the user's own cache of embeddings.
os.environ["XDG_CACHE_HOME"] = str(_COMPILED / "cache" / os.environ.get("PYTEST_XDIST_WORKER", ""))

_ROOT = Path(__file__).resolve().parents[1]
_PLACES = (_ROOT.parent / "shared", _ROOT / "shared")
_SHARED = next((place for place in _PLACES if place.is_dir()), _PLACES[0])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove the caches, once the last worker has ended."""
    if not hasattr(session.config, "workerinput"):
        shutil.rmtree(_COMPILED, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def _no_ray_left():
    """End a Ray that a module left, and give back SIGTERM, which Ray takes.

    Another module could not start its own, and our handler heeds SIGTERM only where nobody else
    does.
    """
    before = signal.getsignal(signal.SIGTERM)
    yield
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def no_compilation_cache():
    """Let `use_compilation_cache` find none chosen."""
    kept = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", kept)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of reference data beside the repository; tests that need it skip without it."""
    if not _SHARED.is_dir():
        pytest.skip(f"reference data not found at {_SHARED}")
    return _SHARED
