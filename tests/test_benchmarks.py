"""What the benchmark programs count and cut; their timings are no tests."""

import argparse
import importlib
import re
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import benchmarks
from benchmarks import counting, embed, fit_flow, gpu, gpu_check, step_time
from bertflow_jax import SentenceEncoder
from bertflow_jax.encoder.bert import Bert, init_params
from bertflow_jax.encoder.bert_config import BertConfig


def test_counted_operations_are_those_of_the_compiled_program():
    """A factor of two in the count would double every share of the machine in the documents."""
    config = BertConfig(
        vocab_size=50,
        hidden_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=64,
    )
    shapes = jax.eval_shape(lambda key: init_params(config, key, pooler=False), jax.random.key(0))
    ids = jax.ShapeDtypeStruct((8, 64), np.int32)
    run = jax.jit(lambda p, i, m: Bert(config).apply({"params": p}, i, m).last_hidden)
    compiled = run.lower(shapes, ids, ids).compile().cost_analysis()["flops"]
    counted = counting.flops(config, 8, 64)
    # The rest is softmax, LayerNorm and gelu.
    assert counted < compiled < 1.15 * counted


def test_texts_of_a_case_have_the_tokens_they_should():
    """A case of other lengths would be compared with the wrong target."""
    encoder = SentenceEncoder.from_pretrained("mini_bert")
    texts = embed.make_texts(encoder, "b", None)[:40]
    lengths = [len(ids) for ids in encoder.encoder.tokenizer(texts).ids]
    assert 112 <= np.mean(lengths) <= 144
    assert max(lengths) <= 144


def test_gpu_benchmark_runs_anywhere(capsys, monkeypatch):
    """The script must not fail for the first time on a machine that is paid by the minute."""
    argv = ["gpu", "--models=tiny", "--lengths=16,5-256", "--tokens=64", "--repeats=1"]
    monkeypatch.setattr("sys.argv", argv)
    gpu.main()
    lines = capsys.readouterr().out
    assert "tiny T=16 ours:" in lines
    assert "tiny T=5-256 ours:" in lines
    if "pytorch:" in lines and jax.default_backend() == "cpu":
        assert "tiny T=16: n/a" in lines  # a ratio there says nothing of a card


@pytest.mark.parametrize(("case", "total"), [("16", 64), ("5-256", None)])
def test_gpu_benchmark_counts_every_token_once(case, total):
    """Tokens per second of packed rows and of padded ones must be of the same texts."""
    texts = gpu.make_texts(gpu.model_config("tiny"), case, 64)
    batches = gpu.our_batches(texts, case, 64)
    tokens = sum(len(text) for text in texts)
    assert total in (None, tokens)
    assert sum(int((batch.attention_mask > 0).sum()) for batch in batches) == tokens
    assert sorted(np.concatenate([batch.texts for batch in batches])) == list(range(len(texts)))


@pytest.mark.slow
def test_step_time_prints_a_row_a_size_and_what_text_costs(capsys, monkeypatch):
    argv = ["--dims=16", "--batches=8", "--repeats=1", "--seconds=0.01", "--text=64"]
    monkeypatch.setattr("sys.argv", ["step_time", *argv])
    step_time.main()
    lines = capsys.readouterr().out
    rows = [row.split("|")[1:4] for row in lines.splitlines() if row.startswith("| 16 ")]
    assert [(int(dims), int(batch)) for dims, batch, _ in rows] == [(16, 8)]
    assert re.search(r"64 examples .* 640 examples", lines)


PROGRAMS = [
    path.stem
    for path in sorted(Path(benchmarks.__file__).parent.glob("*.py"))
    if "ArgumentParser(" in path.read_text("utf-8")
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_says_what_a_program_measures_and_every_default(name, capsys, monkeypatch):
    """The first line alone, and flags without a word: one had to open the source."""
    module = importlib.import_module(f"benchmarks.{name}")
    made = []
    add = argparse.ArgumentParser.parse_args

    def parse(parser, *args):
        made.append(parser)
        return add(parser, *args)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit):
        module.main()
    assert module.__doc__.strip() in capsys.readouterr().out
    for action in made[0]._actions:
        if action.help == argparse.SUPPRESS:
            continue
        assert action.help, action.option_strings
        if action.default not in (None, argparse.SUPPRESS):
            assert "default: " in action.help, action.option_strings


def test_the_ports_batches_are_full_and_every_row_comes_once_an_epoch():
    """Steps beyond the end of the table would be faster: they have fewer rows, or none."""
    batches = [fit_flow.port_rows(step, 4096) for step in range(4)]
    assert {len(batch) for batch in batches} == {4096}
    assert sorted(np.concatenate(batches[:2])) == list(range(fit_flow.ROWS))
    assert sorted(np.concatenate(batches[2:])) == list(range(fit_flow.ROWS))


def _check(capsys, monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["gpu_check", "--tiny", *arguments])
    try:
        gpu_check.main()
        code = 0
    except SystemExit as end:
        code = end.code
    return code, capsys.readouterr().out.rpartition("=" * 80)[2]


@pytest.mark.slow
@pytest.mark.slow
def test_gpu_check_runs_anywhere(capsys, monkeypatch):
    """It must not fail for the first time on a machine that is paid by the minute."""
    # The section embed is the test of benchmarks.gpu above.
    code, block = _check(capsys, monkeypatch, "--sections=machine,tests,cached,online")
    assert code == 0, block
    assert block.rstrip().endswith("\n\nall sections passed")
    for words in ("jax " + jax.__version__, " passed", "| 16 | 8 |", "| tiny | float32 |"):
        assert words in block


def test_a_section_that_fails_or_hangs_does_not_stop_the_others(capsys, monkeypatch):
    """One missing package, or one kernel that never ends, must not cost the other figures."""
    bodies = {
        "machine": "print('a card')",
        "cached": "print('| 1 |', flush=True); import time; time.sleep(60)",
        "online": "raise SystemExit(3)",
        "embed": "print('fast')",
    }
    monkeypatch.setattr(
        gpu_check, "command", lambda section, tiny: [sys.executable, "-c", bodies[section]]
    )
    code, block = _check(
        capsys, monkeypatch, "--sections=machine,cached,online,embed", "--limit_s=5"
    )
    assert code == 1
    assert "| 1 |\n\nFAILED: not done after 5 s" in block
    assert "FAILED: exit code 3" in block
    assert "a card" in block
    assert block.rstrip().endswith("fast\n\nfailed: cached, online")


def test_the_sections_together_stay_below_eight_minutes():
    assert sum(gpu_check.LIMITS.values()) < 480
    assert set(gpu_check.BODIES) | {"tests"} == set(gpu_check.LIMITS)
