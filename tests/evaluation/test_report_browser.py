"""report.html as a browser shows it: a headless Chromium without network.

Each test names the bug it catches.
"""

import numpy as np
import pytest
from evaluation.browser import Chromium, find_chromium

from bertflow_jax.data.sts import ScoredPairs, StsTask
from bertflow_jax.evaluation.analyses import run_analyses
from bertflow_jax.evaluation.isotropy import isotropy
from bertflow_jax.evaluation.lexical_plot import lexical_plots
from bertflow_jax.evaluation.plot_data import plot_rows
from bertflow_jax.evaluation.report import write_report
from bertflow_jax.evaluation.results import build_results
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    browser = Chromium(program, tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


def words_of_bins():
    neighbours = {str(k): {"distance": 1.0, "dot": None} for k in (3, 5, 7)}
    one = {"words": 99, "norm": 1.0, "neighbours": neighbours}
    bins = {"(0, 100)": one, "[100, 500)": one, "[500, 5K)": {**one, "reason": "too few"}}
    return {"order": "corpus", "corpus": "a" * 90, "tokens": 5, "candidates": 9, "bins": bins}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page with every section, five rows, long names and characters that HTML uses."""
    subsets = {}
    for name in ("one", "a-very-long-subset-name-without-a-single-space-in-it", "<script>&"):
        left = [f"left {name} {i}" for i in range(30)]
        right = [f"right {name} {i} {'more ' * (i % 7)}" for i in range(30)]
        subsets[name] = ScoredPairs(name, left, right, np.arange(30) % 6.0)
    task = StsTask("sts12", subsets, ("a note " * 20,))

    def embed(sentences):
        return np.random.default_rng(0).normal(size=(len(sentences), 6)) + 1.0

    raw = SentenceTable.build([task], embed)
    names = ("raw", "flow", "whitening of 256 dimensions", "NATSV-k=10-with-a-long-name", "sn")
    tables = {name: raw.map(lambda x, i=i: x - i) for i, name in enumerate(names)}
    rows = evaluate([task], tables)
    model = {"encoder": {"path": "x/" * 60 + "<b>", "pooling": "mean"}, "flow": None}
    results = build_results(model, rows, [task], 0, {})
    results["isotropy"] = isotropy(tables, [task])
    by_task = {name: {task.name: table} for name, table in tables.items()}
    results["analyses"] = run_analyses(["edit_distance"], [task], by_task, None)
    by_task = {name: {task.name: table} for name, table in tables.items()}
    results["analyses"]["word_frequency"] = words_of_bins()
    path = tmp_path_factory.mktemp("report") / "report.html"
    curves = {"fit": [(1, 3.0), (2, 2.0)]}
    plots = plot_rows(task, tables, rows)
    write_report(path, results, plots, "sts12", curves, lexical_plots(task, tables))
    return path


# The element outside a box that scrolls by itself whose text or box ends farthest to the right.
WIDEST = """
[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll'))
  .map(e => [e.getBoundingClientRect().left + e.scrollWidth, e.tagName, e.textContent.slice(0, 80)])
  .sort((a, b) => b[0] - a[0])[0]
"""


@pytest.mark.parametrize("width", [1280, 400, 320])
def test_nothing_is_wider_than_the_window(browser, report, width):
    # Bug: one long name or table makes the whole page scroll sideways on a phone.
    browser.open(report, width)
    opened = "document.querySelectorAll('details').forEach(d => d.open = true)"
    for prepare in ("0", opened):
        browser.evaluate(f"{prepare}; 0")
        # A phone's window grows with what is too wide, so this alone would tell it there.
        assert browser.evaluate("window.innerWidth") == width, browser.evaluate(WIDEST)
        scroll = browser.evaluate("document.documentElement.scrollWidth")
        assert scroll <= width, browser.evaluate(WIDEST)


def test_no_error_and_no_request(browser, report):
    # Bug: an SVG the browser refuses, a font or an icon from elsewhere, a script that fails.
    browser.open(report, 1280)
    decoded = "Promise.all([...document.images].map(i => i.decode())).then(() => 'decoded')"
    assert browser.evaluate(decoded) == "decoded"
    # Two figures and an edit distance panel a row, the gold panel, the spectrum, the fit.
    assert browser.evaluate("document.images.length") == 5 * 3 + 3
    assert browser.evaluate("[...document.images].every(i => i.naturalWidth > 200)")
    assert browser.problems() == ([], [])


def test_the_browser_would_tell_an_error_and_a_request(browser, tmp_path):
    # Bug: a test that cannot fail.
    page = tmp_path / "bad.html"
    page.write_text("<img src='http://example.invalid/x.png'><script>nothing.here</script>")
    browser.open(page, 400)
    logged, requests = browser.problems()
    assert requests == ["http://example.invalid/x.png"]
    assert {"Runtime.exceptionThrown", "Log.entryAdded"} <= {event["method"] for event in logged}


def test_text_in_figures_is_readable(browser, report):
    # Bug: three panels beside each other, whose axis labels shrink to 10 pixels and less.
    for width in (1280, 400):
        browser.open(report, width)
        narrowest = browser.evaluate("Math.min(...[...document.images].map(i => i.width))")
        # Figures are 4.6 inches or 331 points wide, with labels of 10 points.
        assert 10 * narrowest / 331 >= 11, width
