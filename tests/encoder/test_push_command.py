"""python -m bertflow_jax.push, and a run whose encoder comes from the Hub."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_hub import TOKEN
from huggingface_hub import ModelCard

from bertflow_jax import FlowConfig, SentenceEncoder
from bertflow_jax.config import Config, DataConfig, EncoderConfig, TrainConfig
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.evaluation.run import run_evaluation
from bertflow_jax.training.run import train

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TEXTS = ["the dog", "a b c d", "dogs ."]


def push(hub, cwd, *args, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    settings = {"HF_ENDPOINT": hub.address, "HF_HOME": str(cwd / "home"), "HF_TOKEN": TOKEN}
    run = subprocess.run(
        [sys.executable, "-m", "bertflow_jax.push", *args],
        cwd=cwd,
        env={**clean, "PYTHONPATH": str(ROOT), "HF_HUB_DISABLE_XET": "1", **settings, **env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert TOKEN not in run.stdout + run.stderr
    return run


@pytest.fixture
def run(hub, bert_folder, tmp_path):
    """A run on an encoder of the Hub at a commit that is no longer its newest."""
    files = {path.name: path.read_bytes() for path in bert_folder().iterdir()}
    first = hub.add("org/bert", files).branches["main"]
    other = bert_folder("other", seed=1) / "model.safetensors"
    hub.repos["org/bert"].commit({**files, other.name: other.read_bytes()})
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice([*"abcdefgh", "dog"], 6)) for _ in range(80)]
    (tmp_path / "news.txt").write_text("\n".join(lines))
    config = Config(
        encoder=EncoderConfig(path="org/bert", pooling="first_last", revision=first),
        flow=FlowConfig(levels=2, depth=1, width=8),
        data=DataConfig(path=str(tmp_path / "news.txt")),
        train=TrainConfig(steps=3, batch_size=8),
        cache_dir=str(tmp_path / "embeddings"),
    )
    train(config, tmp_path / "run")
    return tmp_path / "run"


def test_a_run_with_its_scores(hub, run, tmp_path):
    """The whole way of a user. Catches a revision that is not heeded when the run is restored,
    scores that are left out, and a folder of the machine in what is public."""
    scored = run_evaluation(EvalOptions(workdir=str(run), tasks=("everyday",), report=False))
    dry = push(
        hub,
        tmp_path,
        f"--workdir={run}",
        "--repo_id=org/flow",
        "--license=apache-2.0",
        "--language=en",
        "--dry_run",
        f"--output={tmp_path / 'dry'}",
    )
    assert dry.returncode == 0, dry.stderr
    assert "nothing was uploaded" in dry.stdout
    assert not any("/commit/" in path for path in hub.paths("POST"))
    done = push(
        hub,
        tmp_path,
        f"--workdir={run}",
        "--repo_id=org/flow",
        "--private",
        "--license=apache-2.0",
        "--language=en",
    )
    assert done.returncode == 0, done.stderr
    repo = hub.repos["org/flow"]
    assert done.stdout.strip() == (
        f"uploaded: {hub.address}/org/flow/commit/{repo.branches['main']}"
    )
    assert repo.private
    files = {name: body for name, body in repo.files().items() if name != ".gitattributes"}
    written = [path for path in (tmp_path / "dry").rglob("*") if path.is_file()]
    assert files == {
        path.relative_to(tmp_path / "dry").as_posix(): path.read_bytes() for path in written
    }
    assert not any(str(tmp_path).encode() in body for body in files.values())
    card = ModelCard(files["README.md"].decode())
    assert card.data.base_model == "org/bert"
    assert card.data.eval_results[0].metric_type == "spearman_cosine"
    spearman = scored["rows"]["flow"]["everyday"]["wmean"]["spearman"]
    assert card.data.eval_results[0].metric_value == round(spearman, 2)
    assert "| path | news.txt |" in card.text
    back = SentenceEncoder.from_pretrained("org/flow").encode(TEXTS)
    own = SentenceEncoder.from_checkpoint(run).encode(TEXTS)
    np.testing.assert_allclose(back, own, atol=1e-6)


def test_scores_of_another_step_or_fit(hub, run, tmp_path):
    """Catches the scores of an earlier run in the same folder."""
    results = run_evaluation(EvalOptions(workdir=str(run), tasks=("everyday",), report=False))
    file = run / "eval" / "results.json"
    args = (f"--workdir={run}", "--repo_id=org/flow", "--dry_run", f"--output={tmp_path / 'dry'}")
    results["model"]["step"] = 9
    file.write_text(json.dumps(results))
    done = push(hub, tmp_path, *args)
    assert done.returncode == 0
    assert "is of step 9, this is 3" in done.stderr
    assert "## Scores" not in (tmp_path / "dry" / "README.md").read_text()
    results["model"]["postprocess"]["sha256"] = "0"
    file.write_text(json.dumps(results))
    args = (*args[:-1], f"--output={tmp_path / 'again'}", f"--metrics={file}")
    done = push(hub, tmp_path, *args)
    assert done.returncode == 2
    assert "metrics are of another flow" in done.stderr
    assert not (tmp_path / "again").exists()


def test_a_dry_run_replaces_nothing(hub, tmp_path):
    """Bug: the README of a folder that was there became a model card."""
    (tmp_path / "README.md").write_text("mine")
    args = ("--repo_id=org/x", "--encoder=mini_bert", "--dry_run", f"--output={tmp_path}")
    done = push(hub, tmp_path, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == f"error: --output={tmp_path} is not empty; name another folder, or delete it\n"
    )
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "--repo_id=OWNER/NAME is missing"),
        (("--repo_id=org/x",), "give either --workdir=DIR"),
        (("--repo_id=a/b/c", "--encoder=mini_bert"), "repo_id='a/b/c' is no Hub id"),
        (("--repo_id=org/x", "--encoder=mini_bert", "--dry_run"), "--dry_run and --output=FOLDER"),
        (("--repo_id=org/x", "--encoder=mini_bert", "--license=My Own"), "license='My Own'"),
        (("--repo_id=org/x", "--encoder=mini_bert", "--metrics=no.json"), "no.json is missing"),
        (("--repo_id=org/x", "--encoder=mini_bert", "--message="), "--message is blank"),
        (("--repo_id=org/x", "--workdir=run", "--revision=v1"), "--revision goes with --encoder"),
    ],
)
def test_wrong_flags_are_told_in_one_line(hub, tmp_path, args, said):
    done = push(hub, tmp_path, *args)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert hub.requests == []
