"""The report and the figure. Each test names the bug it catches."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from bertflow_jax.data.sts import ScoredPairs, StsTask
from bertflow_jax.evaluation.captions import compared_rows
from bertflow_jax.evaluation.plot_data import plot_rows, spectrum, training_curves
from bertflow_jax.evaluation.plots import effect_figure
from bertflow_jax.evaluation.report import write_report
from bertflow_jax.evaluation.results import build_results
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate


def make_task(pairs, subsets=("one", "two <b>&"), constant=False):
    def subset(name):
        left = [f"left {name} {0 if constant else i}" for i in range(pairs)]
        right = [f"right {name} {0 if constant else i}" for i in range(pairs)]
        gold = np.ones(pairs) if constant else np.arange(pairs) % 6.0
        return ScoredPairs(name, left, right, gold)

    return StsTask("sts12", {name: subset(name) for name in subsets})


def random_embed(sentences):
    return np.random.default_rng(0).normal(size=(len(sentences), 6)) + 1.0


def evaluated(task, embed=random_embed):
    raw = SentenceTable.build([task], embed)
    tables = {"raw": raw, "flow": raw.map(lambda x: x - 1.0)}
    rows = evaluate([task], tables)
    model = {"encoder": {"path": "<script>alert(1)</script>", "pooling": "mean"}, "flow": None}
    return build_results(model, rows, [task], 0, {}), plot_rows(task, tables, rows)


class Page(HTMLParser):
    """Collects open tags, their balance and the visible text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def write(tmp_path, *args, **kwargs):
    results, rows = evaluated(*args, **kwargs)
    write_report(tmp_path / "report.html", results, rows, "sts12")
    return Page((tmp_path / "report.html").read_text("utf-8"))


def test_page_is_whole_self_contained_and_escaped(tmp_path):
    # Bug: a request to another machine, a script, names that become tags, tags left open.
    page = write(tmp_path, make_task(40))
    assert page.open == []
    links = [
        value for _, attrs in page.tags for key, value in attrs.items() if key in ("src", "href")
    ]
    assert len(links) == 6
    assert all(link.startswith("data:") for link in links)
    assert not {"script", "b", "iframe"} & {tag for tag, _ in page.tags}
    assert "STS12 two <b>&" in page.text
    assert "<script>alert(1)</script>" in page.text
    assert all(attrs["alt"] for tag, attrs in page.tags if tag == "img")


def test_page_shows_the_scores_of_results(tmp_path):
    # Bug: a report computed from other numbers than results.json.
    results, rows = evaluated(make_task(40))
    write_report(tmp_path / "report.html", results, rows, "sts12")
    text = Page((tmp_path / "report.html").read_text("utf-8")).text
    for row in results["rows"].values():
        assert f"{row['sts12']['wmean']['spearman']:.2f}" in text
        assert f"{row['sts12']['all']['spearman']:.2f}" in text
        assert f"{row['sts12']['subsets']['one']['spearman']:.2f}" in text
    before, after = (round(row["average"], 2) for row in results["rows"].values())
    assert (
        f"from {before:.2f} (raw) to {after:.2f} (flow), {abs(after - before):.2f} points" in text
    )


def test_images_are_svg_with_the_numbers_of_their_row(tmp_path):
    # Bug: raw's panel drawn twice, or text turned into shapes that no reader tool finds.
    page = write(tmp_path, make_task(40))
    images = [
        base64.b64decode(attrs["src"].split(",")[1]).decode()
        for tag, attrs in page.tags
        if tag == "img"
    ]
    _, rows = evaluated(make_task(40))
    assert f">raw: mean cosine {rows[0].mean_random_cosine:.2f}</text>" in images[0]
    assert f">flow: mean cosine {rows[1].mean_random_cosine:.2f}</text>" in images[1]
    assert f">flow: Spearman {rows[1].score:.1f}</text>" in images[3]


@pytest.mark.parametrize("pairs", [0, 1, 5])
def test_b03_constant_or_almost_no_data_still_makes_files(tmp_path, pairs):
    # Bug: the drawing fails after the long computation.
    def constant(sentences):
        return np.ones((len(sentences), 3))

    page = write(tmp_path, make_task(pairs, constant=True), constant)
    assert "At least one average is undefined" in page.text
    assert "n/a" in page.text
    _, rows = evaluated(make_task(pairs, constant=True), constant)
    effect_figure(tmp_path / "effect.png", rows, "nothing to see")
    assert (tmp_path / "effect.png").read_bytes().startswith(b"\x89PNG")


def test_effect_figure_is_small_and_of_the_kind_asked(tmp_path):
    # Bug: thousands of points as vectors; the extension ignored.
    _, rows = evaluated(make_task(3000))
    effect_figure(tmp_path / "effect.png", rows, "pairs")
    effect_figure(tmp_path / "effect.SVG", rows, "pairs")
    assert (tmp_path / "effect.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "effect.SVG").read_bytes()[:800]
    assert max((tmp_path / n).stat().st_size for n in ("effect.png", "effect.SVG")) < 150_000
    assert not list(tmp_path.glob("*.svg"))


def test_spectrum_is_the_share_of_variance():
    # Bug: singular values instead of eigenvalues, no centring, or ascending order.
    x = np.array([[3, 1], [-3, 1], [0, 3], [0, -1]]) + 50.0
    np.testing.assert_allclose(spectrum(x), [18 / 26, 8 / 26], atol=1e-12)
    np.testing.assert_array_equal(spectrum(np.ones((5, 3))), np.zeros(3))
    np.testing.assert_array_equal(spectrum(np.ones((1, 3))), np.zeros(3))


def test_directions_for_a_share():
    # Bug: off by one.
    _, rows = evaluated(make_task(5))
    row = rows[0].__class__("r", np.array([0.5, 0.4, 0.1]), *[np.ones(1)] * 3, None)
    assert [row.directions_for(share) for share in (0.5, 0.6, 0.9, 0.95)] == [1, 2, 2, 3]


def test_rows_sample_the_same_points():
    # Bug: raw and flow shown on different pairs.
    _, (raw, flow) = evaluated(make_task(3000))
    assert len(raw.gold) == 2000
    np.testing.assert_array_equal(raw.gold, flow.gold)
    assert not np.array_equal(raw.similarities, flow.similarities)


def test_training_curves_of_an_interrupted_and_resumed_run(tmp_path):
    # Bug: a cut line stops the report; steps drawn twice after a resume; NaN or null as points.
    lines = [{"step": 1, "b": 4.0}, {"step": 2, "b": 3.0}, {"step": 3, "b": 9.0}, {"step": 3}]
    lines += [
        {"step": 3, "b": 2.0, "h": 2.5},
        {"step": 4, "b": None},
        {"step": 5, "b": float("inf")},
    ]
    text = "\n".join(json.dumps(line) for line in lines) + '\n{"step": 6, "b'
    (tmp_path / "metrics.jsonl").write_text(text)
    curves = training_curves(tmp_path / "metrics.jsonl", {"fit": "b", "held out": "h", "no": "x"})
    assert curves == {"fit": [(1, 4.0), (2, 3.0), (3, 2.0)], "held out": [(3, 2.5)]}
    results, rows = evaluated(make_task(5))
    write_report(tmp_path / "report.html", results, rows, "sts12", curves)
    assert re.search("Bits per dimension", (tmp_path / "report.html").read_text("utf-8"))


@pytest.mark.parametrize(
    ("averages", "expected"),
    [
        ({"raw": 40.0, "flow": 50.0, "center": 60.0}, ("raw", "flow")),
        ({"center": 60.0, "flow": 50.0, "raw": 40.0}, ("raw", "flow")),
        ({"raw": 40.0, "center+flow": 45.0, "pca:3+flow": 46.0, "pca:3": 50.0}, ("raw", "pca:3+flow")),
        ({"raw": 40.0, "center": 60.0, "pca:3": 50.0, "natsv": None}, ("raw", "center")),
        ({"raw": 40.0}, ("raw", "raw")),
    ],
)  # fmt: skip
def test_the_headline_takes_the_flow_whatever_the_order(averages, expected):
    # Bug: raw against whatever row happens to be last.
    assert compared_rows(averages) == expected


def test_the_header_of_a_page_with_fitted_rows(tmp_path):
    # Bug: "without a flow" above a table with a row `flow`.
    results, rows = evaluated(make_task(20))
    results["model"]["fitted"] = {
        "rows": ["flow"], "fit": "target", "fit_splits": [], "whole_text": [], "text": {},
    }  # fmt: skip
    write_report(tmp_path / "report.html", results, rows, "sts12")
    text = Page((tmp_path / "report.html").read_text("utf-8")).text
    assert "without a flow" not in text
    assert "rows fitted here: flow" in text
    assert "flow: fitted on each task's own text." in text
