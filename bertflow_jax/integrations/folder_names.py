"""Names of files in a saved folder, and the mark of a README.md that a save may replace."""

CODE = "bertflow_modules.py"
CARD = "README.md"
MARK = "<!-- Written by bertflow_jax with the other files; a save replaces it. -->"


def is_ours(text: str) -> bool:
    """Return whether a README.md was written by a save."""
    return MARK in text
