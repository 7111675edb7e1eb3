"""Every file of configs/ runs, shrunk by overrides: none can rot."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest

from bertflow_jax.config import Config
from bertflow_jax.errors import ConfigError
from bertflow_jax.reproduce.options import recipe_config, with_field
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import train
from bertflow_jax.training.supervised_run import train_encoder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
CONFIGS = sorted(ROOT.glob("configs/**/*.py"))
SHRUNK = {
    "encoder.path": "mini_bert",
    "encoder.max_length": "12",
    "train.steps": "2",
    "train.batch_size": "4",
    "train.eval_every": "1",
    "train.tensorboard": "false",
    "flow.levels": "1",
    "flow.depth": "1",
    "flow.width": "4",
    "checkpoint.every": "2",
}


def load(path):
    space = {"__name__": "config_under_test"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space["get_config"]()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A text file, NLI pairs, and an STS-B and SICK of a few made pairs."""
    root = tmp_path_factory.mktemp("data")
    (root / "text.txt").write_text("".join(f"sentence number {i}\n" for i in range(40)))
    names = ("entailment", "neutral", "contradiction")
    (root / "nli.tsv").write_text(
        "gold_label\tsentence1\tsentence2\n"
        + "".join(f"{names[i % 3]}\tpremise {i}\thypothesis {i}\n" for i in range(24))
    )
    for folder in ("STSBenchmark", "SICK"):
        (root / folder).mkdir()
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    sick = header + "".join(
        f"{i}\ta {i}\tb {i}\t{1 + i % 5}\t{names[i % 3].upper()}\n" for i in range(12)
    )
    for split, name in (("train", "train"), ("dev", "trial"), ("test", "test_annotated")):
        lines = [f"g\tf\ty\ti\t{i % 6}\t{split} left {i}\t{split} right {i % 7}" for i in range(12)]
        (root / "STSBenchmark" / f"sts-{split}.csv").write_text("\n".join(lines) + "\n")
        (root / "SICK" / f"SICK_{name}.txt").write_text(sick)
    return root


def shrink(config: Config, data: Path, cache: Path) -> Config:
    overrides = dict(SHRUNK) | {"cache_dir": str(cache)}
    if config.data.format == "pairs":
        overrides["data.path"] = str(data / "nli.tsv")
    elif config.data.path != "everyday":
        folder = config.data.path.endswith("sts")
        overrides["data.path"] = str(data if folder else data / "text.txt")
    if config.supervision.path:
        folder = config.supervision.task in ("stsb", "sickr")
        overrides["supervision.path"] = str(data if folder else data / "nli.tsv")
        overrides["supervision.labelled"] = str(min(config.supervision.labelled, 4))
    if config.supervision.dev_path:
        overrides["supervision.dev_path"] = str(data)
    for field, value in overrides.items():
        config = with_field(config, field, value)
    return config


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_config_trains(path, data, tmp_path):
    """Catches a field that no longer exists, data that cannot be read, and NaN at the first step."""
    assert path.read_text().startswith('"""'), "the header says what it is and how to run it"
    small = shrink(load(path), data, tmp_path / "cache").validate()
    config = small
    if config.objective == "none":
        with pytest.raises(ConfigError):
            train(small, tmp_path / "run")
    elif config.objective == "flow":
        result = train(small, tmp_path / "run")
        assert int(result.state.step) == 2
        flow = load_run(tmp_path / "run").flow
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(flow.variables))
    else:
        result = train_encoder(small, tmp_path / "run")
        assert result.step == 2
        assert (tmp_path / "run/encoder/model.safetensors").is_file()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_headers_name_the_file_itself(path):
    """Catches a command copied from another config."""
    header = path.read_text().split('"""')[1]
    named = path.stem if path.parent.name == "paper" else path.name
    assert named in header


def test_the_paper_recipes_are_the_released_ones():
    """Against paper.md: catches a learning rate, an initialisation or a share of NLI changed."""
    for name in ("base_flow_target", "large_flow_target", "base_nli_flow_target"):
        train_section = recipe_config(name, {}).train
        assert (train_section.learning_rate, train_section.epochs) == (1e-3, 1)
    for name in ("base_flow_nli", "large_flow_nli", "large_nli_flow_nli"):
        train_section = recipe_config(name, {}).train
        assert (train_section.learning_rate, train_section.epochs) == (2e-5, 0.15)
    for name in ("base_flow_target", "large_nli_flow_nli"):
        config = recipe_config(name, {})
        assert dataclasses.astuple(config.flow)[:5] == (3, 3, 32, "additive", "reverse")
        assert config.flow.actnorm_init == "released"
        assert (config.train.mode, config.train.batch_size) == ("online", 32)
        assert (config.encoder.max_length, config.seed) == (64, 1234)
    siamese = recipe_config("large_nli", {})
    assert (siamese.train.batch_size, siamese.supervision.learning_rate) == (16, 2e-5)
    assert (siamese.supervision.warmup, siamese.encoder.pooling) == (0.1, "mean")
