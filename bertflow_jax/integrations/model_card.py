"""README.md of a saved folder: how to load it, and that it holds code where it does."""

from collections.abc import Sequence
from pathlib import Path

from bertflow_jax.workdir import write_text

CODE = "bertflow_modules.py"
_CARD = "README.md"
_MARK = "<!-- Written by bertflow_jax with the other files; a save replaces it. -->"
_WHAT = {
    "LayerPooling": "the pooling of several layers (`LayerPooling`)",
    "BertFlow": "the flow (`BertFlow`)",
}
_HEAD = f"""---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags:
- sentence-transformers
- sentence-similarity
- bertflow_jax
---

{_MARK}

# Sentence embeddings

Written by bertflow_jax: an encoder and what is done to its vectors.

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("PATH/OF/THIS/FOLDER"{{trust}})
vectors = model.encode(["A man plays a guitar.", "Someone plays guitar."])
```

```python
from bertflow_jax import SentenceEncoder

encoder = SentenceEncoder.from_pretrained("PATH/OF/THIS/FOLDER")
```
"""
_NOTICE = """
## This folder holds code

sentence-transformers has no module for {what}, so `{code}` brings it along (PyTorch alone; it reads
its own `config.json` and `model.safetensors`). With `trust_remote_code=True` that file is executed:
read it before you load a folder you did not write. bertflow_jax loads the folder without running
it.
"""


def write_card(folder: Path, code: Sequence[str]) -> None:
    """Write the README.md, unless there is one that somebody else wrote.

    Args:
      folder: of the model.
      code: classes of `bertflow_modules.py` that its modules.json names.

    Raises:
      WorkdirError: it cannot be written.
    """
    if (folder / _CARD).exists():
        return
    text = _HEAD.replace("{trust}", ", trust_remote_code=True" if code else "")
    if code:
        text += _NOTICE.format(what=" and ".join(_WHAT[name] for name in code), code=CODE)
    write_text(folder / _CARD, text)


def remove_card(folder: Path) -> None:
    """Remove the README.md of an older save, and no other; raises OSError."""
    path = folder / _CARD
    if path.is_file() and _MARK in path.read_text("utf-8", "replace"):
        path.unlink()
