"""Progress where stderr is no terminal. Each test names the bug it catches."""

import sys

from bertflow_jax import progress
from bertflow_jax.progress import progress_bar


class Clock:
    """Every look at it takes ten seconds."""

    now = 0.0

    def monotonic(self):
        self.now += 10.0
        return self.now


def drawn(capsys):
    with progress_bar(total=100, unit="step", mininterval=0) as bar:
        for step in range(100):
            bar.update(1)
            bar.set_postfix_str(f"loss {step}")
    return capsys.readouterr().err


def test_a_log_file_gets_one_line_at_the_end_of_a_short_run(capsys):
    """Catches a drawing a step, one after the other on a single endless line."""
    text = drawn(capsys)
    assert "\r" not in text
    (line,) = text.splitlines()
    assert "100/100" in line
    assert "loss 99" in line


def test_a_long_run_gets_a_line_now_and_then(capsys, monkeypatch):
    """Catches a log that says nothing for hours."""
    monkeypatch.setattr(progress, "time", Clock())
    lines = drawn(capsys).splitlines()
    assert 20 < len(lines) < 100
    assert len(set(lines)) == len(lines)
    assert "100/100" in lines[-1]


def test_a_terminal_is_redrawn(capsys, monkeypatch):
    """Catches lines in place of a bar on a terminal."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "\r" in drawn(capsys)
