"""What bfloat16 costs in accuracy and brings in speed, on one encoder and one set of pairs.

    python -m benchmarks.dtype (--encoder=PATH [--pooling=NAME] | --workdir=RUN) [--data_dir=DIR]

Embeds the sentences of STS-B dev and test (DIR holds STSBenchmark/; without it, the bundled pairs)
in float32 and in bfloat16 and prints: how long the difference |a - b| of the two vectors of a text
is as a share of |a|, mean and largest; the largest difference of a single coordinate, as it is and
as a share of the vector's length; the lowest cosine between the two vectors of a text; Spearman's
rho of both; texts a second of both, medians of alternating runs.
"""

import argparse
import dataclasses
import statistics

import numpy as np

from benchmarks.counting import alternate
from bertflow_jax import SentenceEncoder
from bertflow_jax.data.sts import load_task
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate_task
from bertflow_jax.restore import load_run


def load(options: argparse.Namespace) -> dict[str, SentenceEncoder]:
    """Return the encoder, with its flow if there is one, in both types."""
    if options.workdir:
        run = load_run(options.workdir)
        both = {
            dtype: dataclasses.replace(run.encoder.encoder, dtype=dtype)
            for dtype in ("float32", "bfloat16")
        }
        return {
            dtype: SentenceEncoder(encoder).with_postprocess(run.flow)
            for dtype, encoder in both.items()
        }
    return {
        dtype: SentenceEncoder.from_pretrained(options.encoder, options.pooling, dtype=dtype)
        for dtype in ("float32", "bfloat16")
    }


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--encoder", help="folder, Hub id or mini_bert: an encoder without a flow")
    source.add_argument("--workdir", help="folder of a train.py run: its encoder and its flow")
    parser.add_argument("--pooling", help="with --encoder; default: as its folder says, or mean")
    parser.add_argument("--data_dir", help="folder with STSBenchmark/; default: the bundled pairs")
    parser.add_argument(
        "--repeats", type=int, default=3, help="measurements of each type; default: %(default)s"
    )
    options = parser.parse_args()
    if options.workdir and options.pooling:
        parser.error("--pooling goes with --encoder")
    encoders = load(options)
    if options.data_dir:
        task = load_task("stsb", options.data_dir, ("dev", "test"))
    else:
        task = load_task("everyday")
    texts = list(dict.fromkeys(task.sentences))
    vectors = {dtype: encoder.encode(texts) for dtype, encoder in encoders.items()}
    runs = {
        dtype: (lambda encoder=encoder: encoder.encode(texts))
        for dtype, encoder in encoders.items()
    }
    seconds = alternate(runs, options.repeats)
    exact, rounded = (vectors[dtype].astype(np.float64) for dtype in ("float32", "bfloat16"))
    lengths = np.linalg.norm(exact, axis=1)
    difference = np.abs(rounded - exact).max(axis=1)
    shares = np.linalg.norm(rounded - exact, axis=1) / lengths
    cosine = (exact * rounded).sum(axis=1) / lengths / np.linalg.norm(rounded, axis=1)
    print(f"{encoders['float32']!r}")
    print(f"{task.name}, {len(texts)} sentences")
    print(f"|a - b| / |a|: mean {shares.mean():.2e}, largest {shares.max():.2e}")
    print(f"largest difference of a coordinate: {difference.max():.2e}")
    print(f"    as a share of the vector's length: {(difference / lengths).max():.2e}")
    print(f"lowest cosine between the two vectors of a text: {cosine.min():.6f}")
    for dtype, values in vectors.items():
        table = SentenceTable({text: row for row, text in enumerate(texts)}, values)
        scores = evaluate_task(task, table)["subsets"]
        rate = len(texts) / statistics.median(seconds[dtype])
        shown = ", ".join(f"{name} {score['spearman']:.3f}" for name, score in scores.items())
        print(f"{dtype}: Spearman's rho {shown}; {rate:.1f} texts/s")


if __name__ == "__main__":
    main()
