"""The calls of docs/errors.md, "From Python": each raises what the page says."""

import re
from pathlib import Path

import numpy as np
import pytest

import bertflow_jax
from bertflow_jax import BertFlowError, SentenceEncoder, Whitening, evaluation

PAGE = (Path(__file__).resolve().parents[2] / "docs/errors.md").read_text("utf-8")
ROWS = re.findall(
    r"^\| `(.+?)` \| `(.+)` \| (\w+) \|$", PAGE.partition("## From Python")[2], re.MULTILINE
)


@pytest.fixture(scope="module")
def names():
    u = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    nan = u.copy()
    nan[3, 2] = np.nan
    return {
        **{name: getattr(bertflow_jax, name) for name in bertflow_jax.__all__},
        "evaluation": evaluation,
        "u": u,
        "nan": nan,
        "masked": np.ma.masked_invalid(nan),
        "encoder": SentenceEncoder.from_pretrained("mini_bert"),
        "white": Whitening(k=4).fit(u),
    }


@pytest.mark.parametrize(("call", "said", "kind"), ROWS, ids=[row[0] for row in ROWS])
def test_a_call_raises_what_the_page_says(names, call, said, kind, monkeypatch, tmp_path):
    """A page that promises other words, another exception, or an error that never comes."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BertFlowError) as raised:
        eval(call, names)
    assert type(raised.value).__name__ == kind
    place = 0
    for part in said.split("…"):
        place = str(raised.value).find(part, place)
        assert place >= 0, str(raised.value)
        place += len(part)


def test_no_row_of_the_page_is_passed_over():
    """A row that the pattern above does not match would be checked by nobody."""
    assert len(ROWS) == PAGE.partition("## From Python")[2].count("\n| `") > 30
