"""Made data and small settings for tests of the paper's tables."""

from pathlib import Path

import numpy as np

from bertflow_jax.data.sts_files import STS_YEARS
from bertflow_jax.reproduce.options import Options

SMALL = {
    "encoder.max_length": "16",
    "flow.levels": "1",
    "flow.depth": "1",
    "flow.width": "4",
    "train.steps": "3",
    "train.mode": "cached",
    "train.tensorboard": "false",
}
WORDS = ["the dog sleeps", "a cat eats fish", "bread is baked", "trains leave early", "we sing"]


def write_stsb(root: Path, seed: int = 0) -> str:
    """Write STS-B of 16 pairs a split, gold scores drawn with the seed; return the folder."""
    folder = root / "STSBenchmark"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    for split in ("train", "dev", "test"):
        lines = [
            f"g\tf\ty\t{i}\t{rng.uniform(0, 5):.2f}\t{WORDS[i % 5]} {split}\t{WORDS[i % 3]} {i}"
            for i in range(16)
        ]
        (folder / f"sts-{split}.csv").write_text("\n".join(lines) + "\n")
    return str(root)


def write_all(root: Path) -> str:
    """Write STS-B, SICK-R and the five years, of a few pairs each; return the folder."""
    write_stsb(root)
    rng = np.random.default_rng(1)
    (root / "SICK").mkdir()
    for name in ("train", "trial", "test_annotated"):
        rows = [
            f"{i}\t{WORDS[i % 5]} {name}\t{WORDS[i % 2]} {i}\t{rng.uniform(1, 5):.1f}\tNEUTRAL"
            for i in range(12)
        ]
        header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
        (root / "SICK" / f"SICK_{name}.txt").write_text("\n".join([header, *rows]) + "\n")
    for year in STS_YEARS:
        folder = root / "STS" / f"STS{year[3:]}-en-test"
        folder.mkdir(parents=True)
        pairs = "".join(f"{WORDS[i % 5]} {year}\t{WORDS[i % 3]} {i}\n" for i in range(10))
        gold = "".join(f"{rng.uniform(0, 5):.1f}\n" for _ in range(10))
        (folder / "STS.input.headlines.txt").write_text(pairs)
        (folder / "STS.gs.headlines.txt").write_text(gold)
    return str(root)


def options(data_dir, output, table, *rows, **fields):
    """Flags of a small run with mini_bert as BERT-base."""
    given = {
        "data_dir": data_dir,
        "encoders": {"base": "mini_bert"},
        "overrides": SMALL | {"cache_dir": str(output / "cache")},
        "output": str(output),
    }
    return Options(table, rows, **{**given, **fields})


def fit_folder(folder: Path, name: str) -> Path:
    """Return the one workdir of a fit below a folder."""
    (found,) = folder.glob(f"{name}-*")
    return found
