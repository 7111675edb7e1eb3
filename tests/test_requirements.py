"""Every package that is asked for is asked for within bounds, and the same everywhere."""

import ast
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(ROOT.glob("requirements*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def requirements_of(file: Path) -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in file.read_text("utf-8").splitlines())
    return [Requirement(line) for line in lines if line]


def is_bounded(asked: Requirement) -> bool:
    kinds = {specifier.operator for specifier in asked.specifier}
    return "==" in kinds or (bool(kinds & {">=", "~="}) and bool(kinds & {"<", "<=", "~="}))


EXTRAS = PROJECT["project"]["optional-dependencies"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_line_has_a_lower_and_an_upper_bound(file):
    """A release of tomorrow that breaks a fresh install, or one of years ago that is taken."""
    found = requirements_of(file)
    assert found
    assert [str(asked) for asked in found if not is_bounded(asked)] == []


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_extra_has_bounds(extra):
    asked = [Requirement(line) for line in EXTRAS[extra]]
    assert [str(line) for line in asked if not is_bounded(line)] == []


def test_the_package_asks_for_what_requirements_txt_says():
    """Two lists that drift apart: the suite is run with one of them, users install the other."""
    dynamic = PROJECT["tool"]["setuptools"]["dynamic"]["dependencies"]
    assert dynamic == {"file": ["requirements.txt"]}
    assert "dependencies" in PROJECT["project"]["dynamic"]
    assert "dependencies" not in PROJECT["project"]


def test_a_package_that_is_asked_for_twice_has_room_in_common():
    """An extra that cannot be installed beside the tests' own packages: no version is in both."""
    places: dict[str, list[tuple[str, Requirement]]] = {}
    lists = [(file.name, requirements_of(file)) for file in FILES]
    lists += [(f"extra {name}", [Requirement(x) for x in EXTRAS[name]]) for name in EXTRAS]
    for place, asked in lists:
        for line in asked:
            places.setdefault(canonicalize_name(line.name), []).append((place, line))
    for name, found in places.items():
        uppers = {
            (specifier.operator, specifier.version)
            for _, line in found
            for specifier in line.specifier
            if specifier.operator in ("<", "==")
        }
        assert len(uppers) == 1, f"{name}: {[(place, str(line)) for place, line in found]}"


def test_every_import_of_the_package_is_asked_for():
    """A package that only comes along with another one, until that drops it."""
    names = set()
    for file in (ROOT / "bertflow_jax").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add((node.module or "").partition(".")[0])
    asked = {canonicalize_name(line.name) for line in requirements_of(ROOT / "requirements.txt")}
    distributions = {
        "absl": "absl-py",
        "orbax": "orbax-checkpoint",
        "tensorflow_datasets": "tensorflow-datasets",
        "tensorflow_probability": "tfp-nightly",
        "tensorboardX": "tensorboardx",
    }
    # pydantic: what models of mteb raise, which are of it.
    extras = {"torch", "pyarrow", "sentence_transformers", "mteb", "pydantic", "ray", "google"}
    extras |= {"flatbuffers"}
    # What jax cannot be without; scikit-learn is only made use of where it is.
    others = names - sys.stdlib_module_names - extras - {"bertflow_jax", "ml_dtypes", "sklearn"}
    missing = {n for n in others if canonicalize_name(distributions.get(n, n)) not in asked}
    assert missing == set()
