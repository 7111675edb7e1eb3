"""The partition function, and figures where there is no display. Each test names its bug."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.special

from bertflow_jax.errors import ConfigError, WorkdirError
from bertflow_jax.evaluation.isotropy import log_partition_ratio, measures
from bertflow_jax.evaluation.plot_data import RowPlot
from bertflow_jax.evaluation.plots import effect_figure

ROOT = Path(__file__).parents[2]
NO_PAIRS = (np.empty((0, 2)), np.empty((0, 2)))


def test_b02_partition_function_of_two_axes():
    """Bug: exp overflows, rows taken for eigenvectors, or an element-wise product for a dot product."""
    x = np.array([[100.0, 0.0], [0.0, 1.0]])
    once = log_partition_ratio(x, both_signs=False).value
    assert once == pytest.approx(math.log(math.e + 1) - 100, abs=1e-12)
    assert math.exp(once) == pytest.approx(1.383e-43, rel=1e-3)
    # -e1 has the smallest sum then, exp(-100) + 1.
    assert log_partition_ratio(x).value == pytest.approx(-100, abs=1e-12)


def test_b02_partition_function_does_not_depend_on_the_sign_that_eigh_returns():
    """Bug: another LAPACK negates an eigenvector and the number changes."""
    x = np.array([[3.0, 0.5], [1.0, -2.0], [2.0, 2.0]])
    for both in (True, False):
        rotated = log_partition_ratio(x[:, ::-1].copy(), both).value
        assert log_partition_ratio(x, both).value == pytest.approx(rotated, abs=1e-12)
    z = [
        scipy.special.logsumexp(sign * x @ vector)
        for vector in np.linalg.svd(x)[2]
        for sign in (1, -1)
    ]
    assert log_partition_ratio(x).value == pytest.approx(min(z) - max(z), abs=1e-12)


def test_b02_the_sign_rule_decides_the_published_number():
    """Bug: an eigenvector of the other sign: Z = exp(-100) + 1 and exp(-1) + 1, and I = 1 / 1.368."""
    x = np.array([[-100.0, 0.0], [0.0, -1.0]])
    assert log_partition_ratio(x, both_signs=False).value == pytest.approx(
        -math.log(math.exp(-1) + 1), abs=1e-12
    )
    assert math.exp(-1) + 1 == pytest.approx(1.368, abs=1e-3)
    # With both signs the number is the same for x and -x.
    assert log_partition_ratio(x).value == log_partition_ratio(-x).value == pytest.approx(-100)


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        ([[0.0, 0.0], [0.0, 0.0]], "all vectors are zero"),
        ([[100.0, 1.0]], "fewer than two vectors (1)"),
        (np.empty((0, 2)), "fewer than two vectors (0)"),
    ],
)
def test_b02_no_number_where_there_is_none(x, reason):
    """Bug: exp overflows to inf, or Z of zeros, N / N = 1, taken for perfectly isotropic."""
    found = measures(np.asarray(x, np.float32), NO_PAIRS)
    assert found["log_partition"] is None
    assert found["reasons"]["log_partition"] == reason


def test_b02_float32_embeddings_are_measured_in_float64():
    """Bug: exp(100) in float32 is inf, and the ratio 0 or NaN."""
    found = measures(np.array([[100, 0], [0, 1]], np.float32), NO_PAIRS)
    assert found["log_partition"] == pytest.approx(-100, abs=1e-12)


def plotted(values, **fields):
    values = np.asarray(values, float)
    return RowPlot("raw", values, values, values, values, None, **fields)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize(
    "values", [[], [0.5], [0.5] * 4, [np.nan] * 3, [0.1, np.nan, 0.9], [np.inf, 0.2]]
)
def test_b03_any_data_make_a_file(tmp_path, values, similarity):
    """Bug: one point, equal points or NaN end in an error of matplotlib after the computation."""
    for binary in (False, True):
        for name in ("e.png", "e.svg"):
            row = plotted(values, similarity=similarity, binary=binary)
            effect_figure(tmp_path / name, [row], "any data")
            assert (tmp_path / name).stat().st_size > 1000


def test_b03_what_is_not_finite_is_left_out_with_its_pair():
    """Bug: NaN dropped from one of two lists, and the points paired wrongly."""
    nan = np.nan
    row = RowPlot(
        "raw",
        np.array([nan, 0.5]),
        np.array([0.1, nan]),
        np.array([1.0, 2.0, nan, 4.0]),
        np.array([0.1, nan, 0.3, 0.4]),
        None,
    )
    assert (row.gold.tolist(), row.similarities.tolist()) == ([1.0, 4.0], [0.1, 0.4])
    assert (row.mean_random_cosine, row.spectrum.tolist()) == (0.1, [0.0, 0.5])


def test_b03_a_bad_extension_is_told_before_a_model_is_loaded(tmp_path):
    """Bug: the extension refused by matplotlib, after the scores."""
    answer = subprocess.run(
        [
            *(sys.executable, ROOT / "evaluate.py", "--encoder=mini_bert", "--tasks=everyday"),
            *("--figure=effect.xyz", "--output=out"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 2
    assert "effect.xyz: its name must end in .png or .svg" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not list(tmp_path.iterdir())


def test_b03_no_window_system_is_touched(tmp_path):
    """Bug: MPLBACKEND or a missing DISPLAY decides whether a file can be drawn."""
    code = (
        "import numpy as np, pathlib, sys\n"
        "from bertflow_jax.evaluation.plot_data import RowPlot\n"
        "from bertflow_jax.evaluation.plots import effect_figure\n"
        "one = np.ones(1)\n"
        "effect_figure(pathlib.Path('e.png'), [RowPlot('raw', one, one, one, one, None)], 't')\n"
        "print(*[m for m in sys.modules if m in ('tkinter', 'matplotlib.pyplot')])\n"
    )
    environment = {**os.environ, "MPLBACKEND": "TkAgg"}
    environment["PYTHONPATH"] = str(ROOT)
    environment.pop("DISPLAY", None)
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (answer.returncode, answer.stdout.strip()) == (0, ""), answer.stderr
    assert (tmp_path / "e.png").stat().st_size > 1000


def test_b03_figure_errors_are_ours(tmp_path):
    """Bug: matplotlib's ValueError for an extension, OSError for a folder that is missing."""
    rows = [plotted([0.1, 0.9])]
    with pytest.raises(ConfigError, match=r"must end in \.png or \.svg, not '\.xyz'"):
        effect_figure(tmp_path / "effect.xyz", rows, "t")
    with pytest.raises(WorkdirError, match="cannot be written"):
        effect_figure(tmp_path / "missing" / "effect.png", rows, "t")
