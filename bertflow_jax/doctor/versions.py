"""Python, the packages that are needed in their ranges, and the optional ones."""

import importlib.metadata
import platform
import re
import sys
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from bertflow_jax.doctor.finding import Finding
from bertflow_jax.jax_variables import no_docstrings
from bertflow_jax.version import __version__

_PYTHON = (3, 11)
# Distribution -> what it gives.
OPTIONAL = {
    "pyarrow": ".parquet files in and out",
    "google-cloud-storage": "workdirs on gs://",
    "flatbuffers": "python -m bertflow_jax.export",
    "torch": "pytorch_model.bin, and flows of the PyTorch port",
    "tensorboard": "curves of a run",
    "libtpu": "Cloud TPUs, and their compiler elsewhere",
    "scikit-learn": "its pipelines",
    "sentence-transformers": "its models and evaluators",
    "mteb": "its tasks",
    "ray": "embedding on many machines",
}


def find_versions() -> list[Finding]:
    """Return the versions of Python and of every package that is needed."""
    python = platform.python_version()
    old = f"Python {python} is too old: install 3.11 or newer" if sys.version_info < _PYTHON else ""
    found = [
        Finding("versions", "bertflow_jax", __version__),
        Finding("versions", "python", python, old or no_docstrings()),
        _jaxlib(),
    ]
    return [*found, *(check_requirement(text) for text in requirements())]


def requirements() -> list[str]:
    """Return what the package needs: of requirements.txt in a clone, else of its metadata."""
    file = Path(__file__).resolve().parents[2] / "requirements.txt"
    if file.is_file():
        lines = (line.partition("#")[0].strip() for line in file.read_text("utf-8").splitlines())
        return [line for line in lines if line]
    try:
        needed = importlib.metadata.requires("bertflow_jax") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [text for text in needed if not re.search(r";.*\bextra\b", text)]


def check_requirement(text: str) -> Finding:
    """Return the version of a package beside the range it must be in, as `jax>=0.6,<0.13`."""
    try:
        needed = Requirement(text)
    except InvalidRequirement as error:
        return Finding("versions", text, "unreadable", f"requirements.txt: {text!r} ({error})")
    wanted = str(needed.specifier)
    try:
        version = importlib.metadata.version(needed.name)
    except importlib.metadata.PackageNotFoundError:
        problem = f"{needed.name} is not installed: pip install '{text}'"
        return Finding("versions", needed.name, "absent", problem)
    # tfp-nightly has nothing but pre-releases.
    if needed.specifier.contains(version, prereleases=True):
        return Finding("versions", needed.name, version)
    problem = f"{needed.name} {version} is not in the range {wanted}: pip install '{text}'"
    return Finding("versions", needed.name, version, problem)


def _jaxlib() -> Finding:
    try:
        return Finding("versions", "jaxlib", importlib.metadata.version("jaxlib"))
    except importlib.metadata.PackageNotFoundError:
        return Finding("versions", "jaxlib", "absent", "jaxlib is not installed: pip install jax")


def find_optional() -> list[Finding]:
    """Return the optional packages and what each gives; none of them is imported."""
    found = []
    for name, gives in OPTIONAL.items():
        try:
            value = f"{importlib.metadata.version(name)} ({gives})"
        except importlib.metadata.PackageNotFoundError:
            value = f"absent ({gives}: pip install {name})"
        found.append(Finding("optional", name, value))
    return found
