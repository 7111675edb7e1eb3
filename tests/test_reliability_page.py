"""docs/reliability.md names tests that there are, and leaves none of its cases out."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/reliability.md").read_text("utf-8")
_NAMED = re.compile(r"^def (test_((?:[a-z]\d\d_)+)\w*)\(", re.MULTILINE)


def named_in_code() -> dict[str, set[tuple[str, str]]]:
    """Return case -> (file, test) of every test whose name starts with the case."""
    found: dict[str, set[tuple[str, str]]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, cases in _NAMED.findall(path.read_text("utf-8")):
            for case in re.findall(r"[a-z]\d\d", cases):
                place = path.relative_to(ROOT).as_posix()
                found.setdefault(case.upper(), set()).add((place, name))
    return found


def rows() -> dict[str, set[tuple[str, str]]]:
    """Return case -> (file, test) as the page has them."""
    found: dict[str, set[tuple[str, str]]] = {}
    for case, cell in re.findall(r"^\| ([A-Z]\d\d) \|[^|]*\| (.*) \|$", PAGE, re.MULTILINE):
        assert case not in found, f"{case} has two rows"
        found[case] = set()
        for file in cell.split("<br>"):
            place, *names = re.findall(r"`([^`]+)`", file)
            found[case] |= {(place, name) for name in names}
    return found


def test_every_case_has_its_tests_and_no_other():
    """A test renamed or deleted, so that the page promises what nothing checks."""
    assert rows() == named_in_code()
    assert len(rows()) == 40
