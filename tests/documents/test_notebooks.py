"""The notebooks: their code runs, and what they show was made by it."""

import contextlib
import io
import json
import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "docs" / "notebooks").glob("*.ipynb"))
_MOST_BYTES = 400_000


def code_cells(path: Path) -> list[dict]:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_code_runs(path, tmp_path, monkeypatch):
    """A notebook that was executed once and whose names have been changed since."""
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    space: dict[str, object] = {"__name__": "__main__"}
    shortened = 0
    for number, cell in enumerate(code_cells(path)):
        source, found = re.subn(
            r"^epochs = \d+$", "epochs = 1.5", "".join(cell["source"]), flags=re.M
        )
        shortened += found
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, f"{path.name}, code cell {number}", "exec"), space)
        kinds = [output["output_type"] for output in cell["outputs"]]
        assert ("stream" in kinds) == bool(printed.getvalue()), f"code cell {number}: run it again"
        assert ("display_data" in kinds) == bool(plt.get_fignums()), f"code cell {number}"
        plt.close("all")
    assert shortened == 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_those_of_one_run(path):
    """A notebook saved with an error, out of order, or with pictures that make the clone large."""
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert kinds <= {"stream", "display_data"}
    streams = [o for cell in cells for o in cell["outputs"] if o["output_type"] == "stream"]
    assert {output["name"] for output in streams} == {"stdout"}
    assert path.stat().st_size < _MOST_BYTES
