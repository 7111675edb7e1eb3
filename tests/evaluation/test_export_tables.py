"""table.md and table.tex. Each test names the bug it catches."""

import re

import pytest

from bertflow_jax.evaluation.export_tables import latex_table, markdown_table, write_tables
from bertflow_jax.evaluation.table import format_table
from bertflow_jax.integrations.card_metrics import eval_results
from bertflow_jax.reproduce.show import shown
from bertflow_jax.reproduce.tables import Table


def score(spearman, everything=None):
    reason = {} if spearman is not None else {"reason": "r"}
    one = {"spearman": spearman, "pearson": spearman, **reason}
    return {"all": {**one, "spearman": everything or spearman}, "mean": one, "wmean": one}


def results(similarity="cosine", model=None, **rows):
    encoder = {"path": "my_model/50% & #1", "pooling": "layers=(4),mean", "pooling_name": "mean"}
    return {
        "model": {"encoder": encoder, "flow": None, **(model or {})},
        "rows": rows,
        "provenance": {"similarity": similarity},
    }


RAW = {
    "sts12": score(49.794, 40.0),
    "sickr": score(53.286),
    "stsb": score(46.904),
    "average": 49.99,
}
FLOW = {"sts12": score(60.5), "sickr": score(53.294), "stsb": score(40.0), "average": 51.26}


def markdown_cells(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_markdown_has_the_papers_columns_and_the_best_in_bold():
    # Bug: columns in the order of the flags; bold by unrounded scores, so that of two equal
    # numbers one looks better.
    header, rule, raw, flow = markdown_cells(markdown_table(results(raw=RAW, flow=FLOW)))
    assert header == ["", "STS-B", "SICK-R", "STS12", "Avg"]
    assert rule == ["---", "---:", "---:", "---:", "---:"]
    assert raw == ["raw", "**46.90**", "**53.29**", "49.79", "49.99"]
    assert flow == ["flow", "40.00", "**53.29**", "**60.50**", "**51.26**"]


def test_aggregation_is_the_one_asked_for_and_named():
    # Bug: wmean under the caption of all.
    text = markdown_table(results(raw=RAW, flow=FLOW), "all")
    assert markdown_cells(text)[2][3] == "40.00"
    assert ", all over the subsets" in text
    assert ", wmean over the subsets" in markdown_table(results(raw=RAW))


def test_one_row_has_no_best_and_one_task_no_average():
    # Bug: everything bold; the same number twice.
    header, _, raw = markdown_cells(markdown_table(results(raw={"stsb": score(46.9)})))
    assert (header, raw) == (["", "STS-B"], ["raw", "46.90"])


def test_undefined_and_missing_scores():
    # Bug: None formatted as a number, a KeyError, or a bold "n/a".
    rows = {"raw": {"stsb": score(None), "sickr": score(3)}, "flow": {"stsb": score(-5.0)}}
    header, _, raw, flow = markdown_cells(markdown_table(results(**rows)))
    assert header == ["", "STS-B", "SICK-R", "Avg"]
    assert raw == ["raw", "n/a", "**3.00**", "n/a"]
    assert flow == ["flow", "**-5.00**", "--", "--"]


def test_a_score_that_rounds_to_zero_has_no_sign():
    # Bug: -0.00 beside 0.00, of which one looks worse.
    found = results(raw={"stsb": score(-0.001)}, flow={"stsb": score(0.001)})
    found["mean_random_cosine"] = {"raw": -0.0001}
    assert markdown_cells(markdown_table(found))[2:] == [
        ["raw", "**0.00**"],
        ["flow", "**0.00**"],
    ]
    assert "-0.00" not in latex_table(found) + format_table(found)
    assert "random pairs: raw 0.000" in format_table(found)
    assert str(eval_results(found, "raw")[0].metric_value) == "0.0"
    cell = {"ours": -0.001, "published": -0.001, "difference": -0.001}
    reproduced = {"rows": {"raw": {"stsb": cell}}, "notes": {}, "skipped": {}, "missing": {}}
    lines = [line.split()[-1] for line in shown(Table(5, "t", ("stsb",), ()), reproduced)]
    assert lines[2:] == ["0.00", "0.00", "+0.00"]


def test_labelled_tasks_have_their_auc():
    # Bug: tables without a column for qnli, mrpc and qqp, whose caption speaks of Spearman.
    qnli = {"auc": 70.0, "pairs": 3}
    only = results(raw={"qnli": qnli}, flow={"qnli": {"auc": 71.234, "pairs": 3}})
    assert markdown_cells(markdown_table(only))[0] == ["", "QNLI"]
    assert markdown_cells(markdown_table(only))[3] == ["flow", "**71.23**"]
    assert r"    flow & \textbf{71.23} \\" in latex_table(only)
    caption = markdown_table(only).splitlines()[-1]
    assert "AUC x 100 of the cosine" in caption
    assert "Spearman" not in caption
    both = markdown_table(results(raw={**RAW, "qnli": qnli}))
    assert markdown_cells(both)[0] == ["", "STS-B", "SICK-R", "STS12", "Avg", "QNLI"]
    assert markdown_cells(both)[2][-2:] == ["49.99", "70.00"]
    assert r"AUC x 100 of the cosine (QNLI)" in both


def test_captions_say_what_decided_the_numbers():
    # Bug: "cosine" under the scores of another similarity; no word of text, pooling and seeds.
    fitted = {
        "rows": ["standardize", "flow"], "fit": "target", "fit_splits": ["train"],
        "whole_text": ["sts12"], "text": {},
    }  # fmt: skip
    flow = {**FLOW, "seeds": {"0": {}, "1": {}, "5": {}}}
    found = results("euclidean", {"fitted": fitted}, raw=RAW, standardize=RAW, flow=flow)
    text = markdown_table(found)
    assert "of negative Euclidean distance and gold score" in text
    assert "cosine" not in text
    assert "pooling mean." in text
    assert "standardize, flow: fitted on each task's own text, splits train." in text
    assert "standard deviation (n - 1) over 3 seeds" in text
    assert markdown_cells(text)[0][3] == r"STS12\*"
    assert "STS12: fitted on all text of the task" in text
    manifest = {"task": "stsb", "splits": ["train", "dev"], "path": "x"}
    fitted = {**fitted, "fit": "stsb", "whole_text": [], "text": {"sts12": manifest}}
    text = markdown_table(results(model={"fitted": fitted}, raw=RAW, standardize=RAW, flow=flow))
    assert "fitted on the text of STS-B (train, dev)." in text
    run = {"text": {"path": "mine.txt"}, "step": 30}
    assert "flow: step 30, fitted on mine.txt." in markdown_table(results(model=run, flow=FLOW))


def test_spread_is_shown_after_its_mean():
    # Bug: the deviation of another task or aggregation.
    spread = {"stsb": {"wmean": 0.204, "all": 9.0}, "average": {"wmean": 0.1}}
    rows = results(raw=RAW, flow={**FLOW, "stsb": score(67.19), "spread": spread})
    flow = markdown_cells(markdown_table(rows))[3]
    assert flow[1:3] == ["**67.19 ± 0.20**", "**53.29**"]
    assert flow[4] == "**60.33 ± 0.10**"
    assert r"\textbf{67.19 $\pm$ 0.20}" in latex_table(rows)


NAMES = {
    "a_b|c*<d>": (r"a\_b\|c\*\<d\>", r"a\_b\textbar{}c*\textless{}d\textgreater{}"),
    "50% & ${x}^2~\\": (r"50% & $\{x\}^2\~\\", r"50\% \& \$\{x\}\textasciicircum{}2" + "~~"),
    "two\nlines": ("two lines", "two lines"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_escaped(name):
    # Bug: a name that ends the cell, the table or the document.
    markdown, latex = NAMES[name]
    latex = latex.replace("~~", r"\textasciitilde{}\textbackslash{}")
    rows = results(**{name: RAW})
    assert f"| {markdown} | 46.90 |" in markdown_table(rows)
    assert f"    {latex} & 46.90 & " in latex_table(rows)


def test_latex_is_whole():
    # Bug: unbalanced braces or environments, a row of another width, an unescaped caption.
    text = latex_table(results(raw=RAW, flow=FLOW))
    assert text.count("{") == text.count("}")
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    assert r"\begin{tabular}{lrrrr}" in text
    rules = [text.index(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")]
    assert rules == sorted(rules)
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [4, 4, 4]
    assert r"    flow & 40.00 & \textbf{53.29} & \textbf{60.50} & \textbf{51.26} \\" in rows
    assert r"path my\_model/50\% \& \#1, pooling mean" in text


def test_both_files_are_written(tmp_path):
    # Bug: the one format under the name of the other.
    found = results(raw=RAW, flow=FLOW)
    write_tables(tmp_path, found)
    assert (tmp_path / "table.md").read_text("utf-8") == markdown_table(found)
    assert (tmp_path / "table.tex").read_text("utf-8") == latex_table(found)
