"""What the benchmark programs count and cut; their timings are no tests."""

import jax
import numpy as np
import pytest

from benchmarks import counting, embed, gpu
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


@pytest.mark.parametrize(("case", "total"), [("16", 64), ("5-256", None)])
def test_gpu_benchmark_counts_every_token_once(case, total):
    """Tokens per second of packed rows and of padded ones must be of the same texts."""
    texts = gpu.make_texts(gpu.model_config("tiny"), case, 64)
    batches = gpu.our_batches(texts, case, 64)
    tokens = sum(len(text) for text in texts)
    assert total in (None, tokens)
    assert sum(int((batch.attention_mask > 0).sum()) for batch in batches) == tokens
    assert sorted(np.concatenate([batch.texts for batch in batches])) == list(range(len(texts)))
