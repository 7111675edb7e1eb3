"""The README.md of an export."""

from collections.abc import Mapping
from typing import Any

_TEXT = """\
# A sentence encoder for jax.export

{encoder}, written by bertflow_jax {bertflow_jax} with jax {jax} on {exported}. Vectors of
{dimension} numbers{unit}, texts of up to {max_length} tokens (longer ones are cut), float32, for
{platforms}.{prompt}

```
pip install jax flatbuffers tokenizers
python load.py "A man is playing a guitar."
```

prints a JSON list a text. From Python, with this folder on `sys.path`:

```python
from load import Encoder

vectors = Encoder().encode(["A man is playing a guitar.", "It rains."])
```

Nothing else is needed: not bertflow_jax, flax or transformers. flatbuffers is what `jax.export`
reads files with. On a GPU or TPU install the jax for it (`jax[cuda12]`, `jax[tpu]`).

Both axes of a batch are free. `load.py` pads them to powers of two, so that a batch_size of 32
compiles at most {shapes} shapes, each when it first comes;
`JAX_COMPILATION_CACHE_DIR=FOLDER` keeps them for the next start. The function itself, for your own
`jit` or as a part of a larger model:

```python
from load import Encoder, jax

encoder = Encoder()
ids = jax.numpy.ones((2, {multiple}), "int32")  # [B, T], T a multiple of {multiple}
mask = jax.numpy.ones((2, {multiple}), "int32")  # 1 for a token, 0 for padding
vectors = encoder.call(encoder.params, ids, mask)  # float32[B, {dimension}]
```

An id outside the embedding table gives NaN. Arguments that are split over several devices along B
give a result that is split in the same way.

## How long it can be read

The function is StableHLO in jax's calling convention {convention}. jax promises that a file is
read by the jax that wrote it ({jax}), by those released up to six months later and by those up
to three weeks older:
https://docs.jax.dev/en/latest/export/export.html#compatibility-guarantees. For longer, pin
`jax=={jax}`, or keep the encoder and export it anew. `params.npz` and `tokenizer.json` have no
such limit.

## Files

| file | bytes | sha256 |
|---|---|---|
{files}

manifest.json says what decides the vectors (digests of weights and tokenizer, pooling), the
versions and the platforms. {checked}
"""


def readme(manifest: Mapping[str, Any]) -> str:
    """Return the text for a manifest of `artifact.export_encoder`."""
    described, after = manifest["encoder"], manifest["encoder"]["postprocess"]
    checked = manifest["checked"]
    lengths = max(16, 1 << (manifest["max_length"] - 1).bit_length()).bit_length() - 4
    return _TEXT.format(
        encoder=f"Pooling {described['pooling']}{', then ' + after['name'] if after else ''}",
        bertflow_jax=manifest["versions"]["bertflow_jax"],
        jax=manifest["versions"]["jax"],
        exported=manifest["exported"],
        dimension=manifest["dimension"],
        unit=" and length 1" if manifest["normalize"] else "",
        max_length=manifest["max_length"],
        platforms=", ".join(manifest["platforms"]),
        prompt=(
            f" `encode` puts {manifest['prompt']!r} before every text unless it is given another "
            "`prompt`."
            if manifest["prompt"]
            else ""
        ),
        shapes=6 * lengths,
        multiple=manifest["inputs"]["ids"][1].split("*")[0],
        convention=manifest["calling_convention_version"],
        files="\n".join(
            f"| {name} | {file['bytes']} | {file['sha256']} |"
            for name, file in manifest["files"].items()
        ),
        checked=(
            f"When written, the vectors of {checked['texts']} texts were at most "
            f"{checked['largest_difference']:.1e} away from SentenceEncoder.encode's on a "
            f"{checked['device']} device."
            if checked
            else "It was not run where it was written, which has none of its platforms."
        ),
    )
