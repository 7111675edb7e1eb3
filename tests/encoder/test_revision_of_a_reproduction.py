"""A table of the paper is of the encoder's revision that the config names, in every cell."""

import pytest
from paper_made import options, write_stsb

from bertflow_jax import SentenceEncoder
from bertflow_jax.reproduce.run import reproduce

ROWS = ("raw", "standardize", "flow_target")
NEXT = {"encoder.revision": "next"}


@pytest.fixture
def next_folder(hub, bert_folder):
    """A repository with other weights on its branch `next`; returns those as a folder."""
    main, other = bert_folder(), bert_folder("next", seed=1)
    repo = hub.add("org/bert", {path.name: path.read_bytes() for path in main.iterdir()})
    repo.commit({path.name: path.read_bytes() for path in other.iterdir()}, branch="next")
    return str(other)


def table(tmp_path, output, encoder, rows=ROWS, **overrides):
    """Table 5 of an encoder, with fields of its config overridden."""
    chosen = options(str(tmp_path), tmp_path / output, 5, *rows, encoders={"base": encoder})
    chosen.overrides.update(overrides)
    return reproduce(chosen)


def cells(found):
    return {row: scores["stsb"]["ours"] for row, scores in found["rows"].items()}


def test_every_cell_is_of_the_revision(tmp_path, next_folder):
    """Catches vectors of the main branch under another one's name, and flows of other vectors."""
    write_stsb(tmp_path)
    expected = table(tmp_path, "folder", next_folder)
    found = table(tmp_path, "hub", "org/bert", **NEXT)
    weights = SentenceEncoder.from_pretrained(next_folder).identity()["weights_sha256"]
    assert set(cells(found)) == set(ROWS)
    assert {made["encoder"]["weights_sha256"] for made in found["made"].values()} == {weights}
    assert cells(found) == cells(expected)


def test_a_score_of_another_revision_is_not_taken(tmp_path, next_folder):
    """Catches a kept score of the main branch, and a fit of one revision gone on with in another."""
    write_stsb(tmp_path)
    rows = ("raw", "flow_target")
    main = table(tmp_path, "paper", "org/bert", rows)
    found = table(tmp_path, "paper", "org/bert", rows, **NEXT)
    assert found["missing"] == {}
    assert all(cells(found)[row] != cells(main)[row] for row in rows)


def test_a_name_of_the_same_commit_is_another_fit(tmp_path, hub, bert_folder):
    """Catches a run that cannot go on because its config names the same weights in other words."""
    write_stsb(tmp_path)
    repo = hub.add("org/bert", {p.name: p.read_bytes() for p in bert_folder().iterdir()})
    first = table(tmp_path, "paper", "org/bert", ("flow_target",))
    for kept in (tmp_path / "paper" / "table5").glob("*.json"):
        kept.unlink()
    commit = {"encoder.revision": repo.branches["main"]}
    again = table(tmp_path, "paper", "org/bert", ("flow_target",), **commit)
    assert again["missing"] == {}
    assert cells(again) == cells(first)
