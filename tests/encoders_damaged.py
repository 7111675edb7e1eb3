"""Copies of the bundled encoder, each with one fault, for docs/errors.md."""

from pathlib import Path

MINI_BERT = Path(__file__).resolve().parents[1] / "bertflow_jax" / "models" / "mini_bert"


def damaged_encoders(folder: Path) -> None:
    """Write copies of mini_bert, each with one fault."""
    sources = {path.name: path for path in MINI_BERT.iterdir()}
    weights, whole = sources["model.safetensors"].read_bytes(), sources["tokenizer.json"]
    vocab = sources["vocab.txt"].read_text("utf-8").split("\n")
    damaged: dict[str, dict[str, bytes | None]] = {
        "weights_empty": {"model.safetensors": b""},
        "weights_cut": {"model.safetensors": weights[: len(weights) // 2]},
        "tokenizer_damaged": {"tokenizer.json": whole.read_bytes()[:5000]},
        "vocab_cut": {"tokenizer.json": None, "vocab.txt": "\n".join(vocab[:500]).encode()},
        "modules_damaged": {"modules.json": b"[{"},
        "modules_object": {"modules.json": b"{}"},
        "sparse": {"config_sentence_transformers.json": b'{"model_type": "SparseEncoder"}'},
    }
    for name, files in damaged.items():
        (folder / name).mkdir()
        for kept in sources.keys() - files:
            (folder / name / kept).symlink_to(sources[kept])
        for changed, content in files.items():
            if content is not None:
                (folder / name / changed).write_bytes(content)
