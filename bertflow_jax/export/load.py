"""Sentence vectors of an exported encoder: python load.py "A text." "Another text."

Needs `pip install jax flatbuffers tokenizers` and the files beside this one; see README.md.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.export
import numpy as np
from tokenizers import Tokenizer


class Encoder:
    """Texts to vectors float32[N, manifest["dimension"]]."""

    def __init__(self, folder: str | Path = Path(__file__).parent):
        """Read the folder; a shape is compiled when it is first used."""
        folder = Path(folder)
        self.manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.params = jax.device_put(dict(np.load(folder / "params.npz")))
        exported = jax.export.deserialize(bytearray((folder / "embed.jaxexport").read_bytes()))
        self.call = jax.jit(exported.call)  # (params, ids int32[B, 16 t], mask) -> float32[B, E]

    def encode(
        self, texts: Sequence[str], batch_size: int = 32, prompt: str | None = None
    ) -> np.ndarray:
        """Embed texts in batches of one padded size, those of like length together.

        `prompt` goes before every text: None takes manifest["prompt"], the encoder's default one.
        Raises TypeError for a bare str or a row that is no str, ValueError for a batch_size < 1.
        """
        if isinstance(texts, str | bytes) or not hasattr(texts, "__iter__"):
            raise TypeError(f"a list of str is expected, not {type(texts).__name__}")
        texts = list(texts)
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"row {row} is {type(text).__name__}, not str")
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size={batch_size!r}: must be an integer >= 1")
        prompt = self.manifest["prompt"] if prompt is None else prompt
        texts = [prompt + text for text in texts]
        texts = [t.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for t in texts]
        texts = [t.lower() for t in texts] if self.manifest["lower_first"] else texts
        vectors = np.zeros((len(texts), self.manifest["dimension"]), np.float32)
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        for start in range(0, len(texts), batch_size):
            rows = order[start : start + batch_size]
            found = self.tokenizer.encode_batch([texts[row] for row in rows])
            # Both axes padded to powers of two: few shapes, each of which is compiled once.
            tokens = max(16, 1 << (len(found[0].ids) - 1).bit_length())
            shape = (1 << (len(rows) - 1).bit_length(), tokens)
            ids, mask = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
            ids[: len(rows), : len(found[0].ids)] = [encoding.ids for encoding in found]
            mask[: len(rows), : len(found[0].ids)] = [e.attention_mask for e in found]
            vectors[rows] = self.call(self.params, ids, mask)[: len(rows)]
        if not np.isfinite(vectors).all():
            raise ValueError("a vector is not finite: the files do not belong together")
        return vectors


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(f"usage: python {sys.argv[0]} TEXT [TEXT ...]")
    for vector in Encoder().encode(sys.argv[1:]):
        print(json.dumps(vector.tolist()))
