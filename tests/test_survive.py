"""A run that is killed and resumed ends with the bits of one that was not."""

import pytest

from benchmarks.survive import survive

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_two_kills_of_each_signal(tmp_path, capsys):
    """What a kill between two files of a save leaves, or a step counted twice, shows here alone."""
    assert survive(2, "KILL", 0, 400, tmp_path), capsys.readouterr().out
    assert survive(2, "TERM", 0, 400, tmp_path), capsys.readouterr().out
