"""The import from flags to folders, and the folders in the other commands."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from reference_flows import random_tensors
from tf_bundle_writer import write_bundle

from bertflow_jax import Flow, FlowConfig, SentenceEncoder
from bertflow_jax.convert.flow_layouts import PORT, RELEASED
from bertflow_jax.convert.run import ConvertOptions, run_convert
from bertflow_jax.errors import ConfigError, DataNotFoundError, InputError, WorkdirError
from bertflow_jax.evaluation.options import EvalOptions, output_folder
from bertflow_jax.evaluation.report import _model_name
from bertflow_jax.evaluation.run import run_evaluation
from bertflow_jax.flow import glow

ROOT = Path(__file__).parents[2]
REAL = Path(__file__).parent / "tf1_checkpoint"


def convert(output, **fields):
    return run_convert(ConvertOptions(output=str(output), **fields))


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The encoder and the flow of TensorFlow's own checkpoint, imported by the command."""
    output = tmp_path_factory.mktemp("imported") / "out"
    arguments = [f"--checkpoint={REAL}", f"--output={output}", "--do_lower_case"]
    done = run_module("bertflow_jax.convert", *arguments, cwd=output.parent)
    assert done.returncode == 0, done.stderr
    return output, done.stdout


def run_module(module, *arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )


def test_command_tells_what_became_of_every_tensor(imported):
    """Something left out without a word, or a shape of the flow that the file does not have."""
    output, printed = imported
    assert "(42 tensors used)" in printed
    assert "1 levels x 1 steps over 4 dimensions, width 3, affine coupling, plu" in printed
    assert "left out: 2 x moment of the optimiser (bert/pooler/dense/bias/adam_m, ...)" in printed
    assert "left out: 1 x counter of the optimiser (global_step)" in printed
    record = json.loads((output / "import.json").read_text("utf-8"))
    assert record["kind"] == "tf1"
    assert (len(record["used"]), len(record["left_out"])) == (42, 4)


def test_imported_pair_embeds(imported):
    """Folders that cannot be loaded, or a flow that is not applied after the encoder."""
    output, _ = imported
    encoder = SentenceEncoder.from_pretrained(output / "encoder")
    flow = Flow.load(output / "flow")
    texts = ["the dog .", "dog"]
    expected = flow.transform(encoder.encode(texts))
    np.testing.assert_allclose(encoder.with_postprocess(flow).encode(texts), expected, atol=1e-5)
    assert np.abs(expected - encoder.encode(texts)).max() > 0.1


def test_embed_command_takes_the_pair(imported, tmp_path):
    """python -m bertflow_jax.embed --flow: rows that are the raw ones."""
    output, _ = imported
    (tmp_path / "in.txt").write_text("the dog .\ndog\n")
    arguments = ["--input=in.txt", "--output=out.npy", f"--encoder={output / 'encoder'}"]
    done = run_module("bertflow_jax.embed", *arguments, f"--flow={output / 'flow'}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    encoder = SentenceEncoder.from_pretrained(output / "encoder")
    expected = Flow.load(output / "flow").transform(encoder.encode(["the dog .", "dog"]))
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-5)


def saved_flow(folder, features):
    config = FlowConfig(levels=1, depth=1, width=2, actnorm_init="released")
    variables = glow.init_variables(config, features, 0)
    Flow.from_variables(config, variables, features).save(folder)
    return str(folder)


def test_evaluation_of_an_encoder_with_a_flow_folder(imported, tmp_path):
    """evaluate.py --encoder --flow: both rows, and a flow of other dimensions refused."""
    output, _ = imported
    rng = np.random.default_rng(0)
    left, right = (
        [" ".join(rng.choice(["the", "dog", "."], rng.integers(1, 6))) for _ in range(30)]
        for _ in range(2)
    )
    gold = rng.uniform(0, 5, 30).round(3)
    rows = [
        f"g\tf\ty\ti\t{score}\t{a}\t{b}\n" for score, a, b in zip(gold, left, right, strict=True)
    ]
    (tmp_path / "STSBenchmark").mkdir()
    (tmp_path / "STSBenchmark" / "sts-test.csv").write_text("".join(rows))
    options = EvalOptions(
        encoder=str(output / "encoder"),
        tasks=("stsb",),
        data_dir=str(tmp_path),
        output=str(tmp_path / "eval"),
        cache_dir=str(tmp_path / "cache"),
        report=False,
    )
    other = saved_flow(tmp_path / "flow", 6)
    with pytest.raises(InputError, match=r"fitted on 6 dimensions, the encoder.s vectors have 4"):
        run_evaluation(dataclasses.replace(options, flow=other))
    flow = str(output / "flow")
    results = run_evaluation(dataclasses.replace(options, flow=flow))
    assert list(results["rows"]) == ["raw", "flow"]
    encoder = SentenceEncoder.from_pretrained(output / "encoder")
    u, v = encoder.encode(left), encoder.encode(right)
    transform = Flow.load(flow).transform
    for name, x, y in (("raw", u, v), ("flow", transform(u), transform(v))):
        cosines = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
        expected = 100 * scipy.stats.spearmanr(cosines, gold).statistic
        # Near-ties in the cosines of so small an encoder move the ranks a little.
        assert results["rows"][name]["average"] == pytest.approx(expected, abs=1)
    averages = [row["average"] for row in results["rows"].values()]
    assert abs(averages[0] - averages[1]) > 10
    assert results["model"]["flow"]["path"] == flow
    assert _model_name(results["model"]).endswith(f"flow of {flow}")


def test_default_output_with_a_flow_is_another_folder():
    """Scores of the flow written over those of the encoder alone."""
    raw = output_folder(EvalOptions(encoder="mini_bert"))
    assert output_folder(EvalOptions(encoder="mini_bert", flow="x/flow")) == f"{raw}-flow"


def test_flow_over_another_pooling(tmp_path):
    """Encoder and flow of one checkpoint that do not fit under the pooling asked for."""
    text = r"over 4 dimensions, but --pooling=layers=\(0,1\),concat of the encoder gives 8"
    with pytest.raises(ConfigError, match=text):
        convert(
            tmp_path / "out",
            checkpoint=str(REAL),
            do_lower_case=True,
            pooling="layers=(0,1),concat",
        )


def test_an_import_is_never_written_over(imported):
    output, _ = imported
    with pytest.raises(WorkdirError, match=r"already holds flow: name a new folder"):
        convert(output, checkpoint=str(REAL), do_lower_case=True)


@pytest.fixture
def flow_alone(tmp_path):
    """A checkpoint that holds a flow without an encoder."""
    config = FlowConfig(levels=2, depth=1, width=3)
    tensors = random_tensors(RELEASED, config, 8)
    return str(write_bundle(tmp_path / "flow.ckpt", tensors))


def test_a_flow_alone(flow_alone, tmp_path):
    """No encoder folder is made, and none is asked for."""
    convert(tmp_path / "out", checkpoint=flow_alone, levels=2)
    assert sorted(os.listdir(tmp_path / "out")) == ["flow", "import.json"]
    with pytest.raises(ConfigError, match="a flow without an encoder; leave out --bert_config"):
        convert(tmp_path / "other", checkpoint=flow_alone, vocab=str(REAL / "vocab.txt"))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "give either --flow=glow.bin"),
        ({"flow": "a", "checkpoint": "b"}, "give either --flow=glow.bin"),
        ({"flow": " "}, "--flow is blank"),
        ({"flow": "a", "kind": "tf1"}, "--kind=tf1 contradicts --flow"),
        ({"checkpoint": "a", "kind": "port"}, "--kind=port contradicts --checkpoint"),
        ({"flow": "a", "pooling": "mean"}, "--pooling goes with --checkpoint"),
    ],
)
def test_flags_that_contradict_each_other(fields, text, tmp_path):
    with pytest.raises(ConfigError, match=text):
        convert(tmp_path / "out", **fields)
    assert not (tmp_path / "out").exists()


def test_a_users_mistake_is_one_line_and_exit_code_2(flow_alone, tmp_path):
    """A traceback for a wrong number of levels, or a half-written output."""
    arguments = [f"--checkpoint={flow_alone}", "--output=out", "--levels=3"]
    done = run_module("bertflow_jax.convert", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --levels=3 contradicts {flow_alone}")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_is_there_but_no_file_is_named(tmp_path):
    """Bug: a pipe, a device or a folder "not found", which the user sees lying there."""
    os.mkfifo(tmp_path / "pipe.bin")
    (tmp_path / "port" / "glow.bin").mkdir(parents=True)
    os.mkfifo(tmp_path / "model.index")
    for fields, said in (
        ({"flow": str(tmp_path / "pipe.bin")}, r"pipe\.bin is a pipe or a device"),
        ({"flow": "/dev/null"}, "--flow=/dev/null: /dev/null is a pipe or a device"),
        ({"flow": str(tmp_path / "port")}, r"glow\.bin is a folder"),
        ({"checkpoint": "/dev/null"}, "/dev/null is a pipe or a device"),
        ({"checkpoint": str(tmp_path / "model")}, r"model\.index is a pipe or a device"),
    ):
        with pytest.raises(ConfigError, match=said):
            convert(tmp_path / "out", **fields)
    with pytest.raises(DataNotFoundError, match="not found"):
        convert(tmp_path / "out", flow=str(tmp_path / "none.bin"))


def test_the_ports_pooling_is_told(tmp_path, capsys):
    """The port's first-last-avg is not ours: its flow on another pooling scores far less."""
    torch = pytest.importorskip("torch", reason="the port's file is a PyTorch file")
    tensors = random_tensors(PORT, FlowConfig(width=3), 16)
    state = {name: torch.from_numpy(value.copy()) for name, value in tensors.items()}
    torch.save(state, tmp_path / "glow.bin")
    (tmp_path / "config.json").write_text('{"pooling": "first-last-avg"}')
    convert(tmp_path / "out", flow=str(tmp_path))
    last = capsys.readouterr().out.splitlines()[-1]
    assert f"--encoder={tmp_path} --pooling=embedding_last --flow=" in last
