"""Tokens per second and model FLOP utilisation of the encoder on one GPU, against PyTorch.

    python -m benchmarks.gpu [--models=base,large] [--lengths=32,128,512] [--tokens=32768]

BERT-base and BERT-large shapes with random weights in bfloat16, mean pooling, ids already on the
device: what the encoder itself does. For every length T a batch of `tokens` / T full rows, and once
texts of 5 to 256 tokens: ours packed in rows of 256, PyTorch's padded in batches sorted by length.
PyTorch runs transformers' BertModel with its best attention (sdpa). Both run in turn, medians of
`--repeats`; without PyTorch only our figures are printed. Utilisation is the operations of the
matmuls of real tokens over the time, as a share of the card's published dense peak
(`--peak_tflops` for a card not listed) and of a plain bfloat16 matmul measured in the same run.

`--models=tiny --lengths=16,32 --tokens=256` runs in seconds anywhere.
"""

import argparse
import importlib.util
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the card is shared with PyTorch

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.counting import alternate, flops, matmul_rate
from bertflow_jax.data.batches import BatchShapes, TokenBatch, make_batches, slots_of
from bertflow_jax.encoder.bert import init_params
from bertflow_jax.encoder.bert_config import BertConfig
from bertflow_jax.encoder.embedding import make_embed_fn
from bertflow_jax.encoder.pooling import parse_pooling

MODELS = {  # layers, width, heads, inner width, vocabulary
    "tiny": (2, 64, 2, 256, 1000),
    "base": (12, 768, 12, 3072, 30522),
    "large": (24, 1024, 16, 4096, 30522),
}
PEAK_TFLOPS = {  # dense bfloat16, the manufacturer's data sheets
    "A100": 312.0, "H100 PCIe": 756.0, "H100": 989.0, "H200": 989.0, "L4": 121.0, "L40S": 362.0,
}  # fmt: skip
MIXED = "5-256"
Run = Callable[[], Any]


def model_config(name: str) -> BertConfig:
    layers, width, heads, inner, vocabulary = MODELS[name]
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=512,
    )


def make_texts(config: BertConfig, case: str, tokens: int) -> list[np.ndarray]:
    """Return rows of ids: full ones of one length, or of 5 to 256 tokens."""
    rng = np.random.default_rng(0)
    if case == MIXED:
        lengths = rng.integers(5, 257, max(8, tokens // 32))
    else:
        lengths = np.full(max(1, tokens // int(case)), int(case))
    return [rng.integers(5, config.vocab_size, n).astype(np.int32) for n in lengths]


def our_batches(texts: list[np.ndarray], case: str, tokens: int) -> list[TokenBatch]:
    if case == MIXED:
        return list(make_batches(texts, 0, BatchShapes(256, max(16, tokens // 16))))
    ids = np.stack(texts)
    return [TokenBatch(np.arange(len(ids)), np.arange(len(ids)), ids, np.ones_like(ids))]


def ours(config: BertConfig, params: Any, batches: list[TokenBatch], packed: bool) -> Run:
    """Return a function that runs all batches."""
    spec = parse_pooling("mean", config.num_hidden_layers)
    embed = make_embed_fn(config, spec, jnp.bfloat16)
    call = jax.jit(embed, static_argnames="slots")
    device = [jax.device_put((b.input_ids, b.attention_mask)) for b in batches]

    def run() -> None:
        results = [
            call(params, ids, mask, slots=slots_of(ids.shape[1]) if packed else None)
            for ids, mask in device
        ]
        jax.block_until_ready(results)

    return run


def pytorch(config: BertConfig, texts: list[np.ndarray], rows: int) -> Run:
    """Return a function that runs all texts, sorted by length, `rows` a batch."""
    import torch
    from transformers import BertConfig as HfConfig
    from transformers import BertModel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    hf = HfConfig(**config.to_hf_dict(), attn_implementation="sdpa")
    model = BertModel(hf, add_pooling_layer=False)
    model = model.to(device, torch.bfloat16).eval()
    ordered = sorted(texts, key=len, reverse=True)
    batches = []
    for start in range(0, len(ordered), rows):
        part = ordered[start : start + rows]
        ids, mask = np.zeros((2, len(part), len(part[0])), np.int64)
        for i, text in enumerate(part):
            ids[i, : len(text)], mask[i, : len(text)] = text, 1
        full = bool(mask.all())
        batches.append((torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device), full))

    def run() -> None:
        with torch.inference_mode():
            for ids, mask, full in batches:
                # Without a mask sdpa may take its fastest kernel.
                hidden = model(ids, attention_mask=None if full else mask).last_hidden_state
                weights = mask[..., None].to(torch.float32)
                (hidden.float() * weights).sum(1) / weights.sum(1)
            if device == "cuda":
                torch.cuda.synchronize()

    return run


def run_case(name: str, case: str, options: argparse.Namespace, peak: float | None) -> None:
    """Print one line for ours, and one for PyTorch."""
    config = model_config(name)
    texts = make_texts(config, case, options.tokens)
    params = jax.jit(lambda key: init_params(config, key))(jax.random.key(0))
    batches = our_batches(texts, case, options.tokens)
    runs = {"ours": ours(config, params, batches, case == MIXED)}
    if importlib.util.find_spec("torch"):
        longest = max(map(len, texts))
        runs["pytorch"] = pytorch(config, texts, max(1, options.tokens // longest))
    for run in runs.values():
        run()
        run()
    seconds = alternate(runs, options.repeats)
    tokens = sum(map(len, texts))
    work = sum(flops(config, 1, len(text)) for text in texts)
    plain = matmul_rate(8192, config.hidden_size, config.intermediate_size, jnp.bfloat16) / 1e3
    for library, times in seconds.items():
        median = statistics.median(times)
        rate = work / median / 1e12
        shares = f"{rate / plain:.0%} of a plain matmul ({plain:.3g})"
        if peak:
            shares = f"{rate / peak:.0%} of the card's {peak:.0f}, {shares}"
        speed = f"{tokens / median:,.0f} tokens/s, {rate:.3g} TFLOP/s"
        print(f"{name} T={case} {library}: {speed}, {shares}", flush=True)
    if "pytorch" in seconds and jax.default_backend() == "cpu":
        # Neither is made for it there; PyTorch has run all the same, so that it does on a card.
        print(f"{name} T={case}: n/a x PyTorch (bfloat16 on a CPU)")
    elif "pytorch" in seconds:
        ratio = statistics.median(seconds["pytorch"]) / statistics.median(seconds["ours"])
        print(f"{name} T={case}: {ratio:.2f}x PyTorch", flush=True)


def main() -> None:
    """Run the models and lengths."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models", default="base,large", help="of tiny, base, large; default: %(default)s"
    )
    parser.add_argument(
        "--lengths", default=f"32,128,512,{MIXED}", help="tokens of a text; default: %(default)s"
    )
    parser.add_argument(
        "--tokens", type=int, default=32768, help="of a device call; default: %(default)s"
    )
    parser.add_argument(
        "--repeats", type=int, default=10, help="measurements of each; default: %(default)s"
    )
    parser.add_argument(
        "--peak_tflops",
        type=float,
        help="of the card, dense bfloat16; default: by its name, where it is a known one",
    )
    options = parser.parse_args()
    kind = jax.devices()[0].device_kind
    named = [peak for card, peak in PEAK_TFLOPS.items() if card in kind]
    peak = options.peak_tflops or (named[0] if named else None)
    print(f"{time.strftime('%Y-%m-%d')} {kind} ({jax.default_backend()}), jax {jax.__version__}, "
          f"Python {platform.python_version()}")  # fmt: skip
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: our figures alone")
    for name in options.models.split(","):
        for case in options.lengths.split(","):
            run_case(name, case, options, peak)


if __name__ == "__main__":
    main()
