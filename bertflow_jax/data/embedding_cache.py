"""Embeddings computed once and kept: a safe cache on disk.

The key is the sha256 of everything that decides the numbers: the encoder's identity (digests of
weights and tokenizer, pooling, max length, dtype, normalisation) and the texts in their order. An
entry is written under a temporary name and renamed, and carries the sha256 of its bytes: a damaged
entry is computed again.
"""

import hashlib
import io
import json
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertflow_jax import distributed
from bertflow_jax.data.npy_files import NPY_DAMAGE
from bertflow_jax.errors import WorkdirError
from bertflow_jax.interrupt import held
from bertflow_jax.output_places import output_folder
from bertflow_jax.paths import default_cache_dir, open_to_others, user_path

_log = logging.getLogger(__name__)
_FORMAT = 2  # raised when the encoder's arithmetic changes, so that old entries are not used


def text_digest(texts: Sequence[str]) -> str:
    """Return the sha256 of texts in their order; where one ends is part of it."""
    total = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        total.update(len(encoded).to_bytes(8, "little"))
        total.update(encoded)
    return total.hexdigest()


def embed_cached(
    encode: Callable[[Sequence[str]], np.ndarray],
    identity: dict[str, Any],
    texts: Sequence[str],
    cache_dir: str | Path = "",
) -> np.ndarray:
    """Return encode(texts), float32[N, D], from the cache when it is there.

    Of several processes the first one has the cache, and each encodes its part of the texts.

    Args:
      encode: texts -> float32[N, D].
      identity: of the encoder, JSON-safe.
      texts: N texts.
      cache_dir: folder of the entries, made private to the user; "" takes `default_cache_dir()`.

    Raises:
      WorkdirError: the cache folder cannot be written.
    """
    folder = user_path(cache_dir, "cache_dir", reading=False) if cache_dir else default_cache_dir()
    described = json.dumps({"format": _FORMAT, **identity}, sort_keys=True)
    key = hashlib.sha256((described + text_digest(texts)).encode()).hexdigest()
    entry = folder / "embeddings" / f"{key}.npy"
    found = _read(entry, len(texts)) if distributed.is_first() else None
    if distributed.share(lambda: found is not None):
        _log.info("embeddings taken from %s", entry)
        return distributed.share_array(found)
    # Asked before the long computation, not after it.
    distributed.share(lambda: _make_private(entry.parent))
    embeddings = np.ascontiguousarray(distributed.by_parts(encode, texts), np.float32)
    try:
        if distributed.is_first():
            _write(entry, embeddings)
    except OSError as error:
        raise WorkdirError(
            f"cache folder {entry.parent} cannot be written ({error}): set cache_dir to another"
        ) from error
    return embeddings


def _make_private(folder: Path) -> None:
    output_folder(folder, "cache_dir")
    # What others may have put there must not be taken for this user's from now on.
    foreign = list(folder.glob("*.sha256")) if open_to_others(folder) else []
    try:
        folder.chmod(0o700)
        for path in foreign:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise WorkdirError(
            f"cache_dir={folder.parent}: {folder} cannot be made private ({error.strerror}); set "
            "cache_dir to a folder of your own"
        ) from error


def _read(entry: Path, rows: int) -> np.ndarray | None:
    if reason := open_to_others(entry.parent):
        _log.warning("cached embeddings in %s are computed again: %s", entry.parent, reason)
        return None
    digest_file = entry.with_suffix(".sha256")
    # Not Path.is_file, which raises below a folder that may not be searched.
    if not (os.path.isfile(entry) and os.path.isfile(digest_file)):
        return None
    try:
        raw, digest = entry.read_bytes(), digest_file.read_bytes()
    except OSError as error:
        _log.warning("cached embeddings %s cannot be read: %s", entry, error)
        return None
    if hashlib.sha256(raw).hexdigest().encode() != digest.strip():
        _log.warning("cached embeddings %s are damaged: computing them again", entry)
        return None
    try:
        embeddings = np.load(io.BytesIO(raw), allow_pickle=False)
    except NPY_DAMAGE as error:
        _log.warning("cached embeddings %s are no array (%s): computing them again", entry, error)
        return None
    good = embeddings.ndim == 2 and len(embeddings) == rows and embeddings.dtype == np.float32
    return embeddings if good else None


def _write(entry: Path, embeddings: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, embeddings, allow_pickle=False)
    raw = buffer.getvalue()
    # The digest goes last: an entry without one, or with an older one, does not count.
    for path, content in (
        (entry, raw),
        (entry.with_suffix(".sha256"), hashlib.sha256(raw).hexdigest().encode()),
    ):
        with held():
            handle, temporary = tempfile.mkstemp(dir=entry.parent, prefix=".tmp-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.replace(temporary, path)
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                raise
