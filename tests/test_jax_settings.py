"""Settings of JAX that are the user's: the numbers are the same under them, or they are refused."""

import contextlib
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from bertflow_jax import Flow, FlowConfig, SentenceEncoder, TrainConfig, Whitening
from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.config import CheckpointConfig, Config, DataConfig, EncoderConfig
from bertflow_jax.errors import ConfigError
from bertflow_jax.export.artifact import export_encoder
from bertflow_jax.jax_settings import random_key
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import train
from bertflow_jax.training.supervised_run import train_encoder

ROOT = Path(__file__).resolve().parents[1]
KEY = jax.random.key(0, impl="threefry2x32")
U = np.random.default_rng(0).normal(size=(48, 8)).astype(np.float32)
TEXTS = ["A cat sleeps.", "Two dogs run in the park."]


@contextlib.contextmanager
def set_to(name, value):
    """Set one of JAX's settings as a user does, for the whole process."""
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)


def small_flow():
    return Flow(
        FlowConfig(levels=2, depth=1, width=4, dropout=0.1, permutation="plu"),
        train=TrainConfig(steps=2, batch_size=8),
    )


def results(fitted):
    """Everything that is computed with JAX, of a flow fitted before and of one fitted now."""
    encoder = SentenceEncoder.from_pretrained("mini_bert")
    white = Whitening().fit(U)
    now = small_flow().fit(U)
    return {
        "encode": encoder.encode(TEXTS),
        "transform": fitted.transform(U),
        "inverse": fitted.inverse_transform(U),
        "log_prob": fitted.log_prob(U),
        "sample": fitted.sample(KEY, 3),
        "fit": now.transform(U),
        "white": white.sample(KEY, 3),
        "with a whitening": encoder.with_postprocess(
            Whitening(k=2).fit(np.tile(U, (1, 32)) + np.arange(256))
        ).encode(TEXTS),
    }


@pytest.fixture(scope="module")
def fitted():
    return small_flow().fit(U)


@pytest.fixture(scope="module")
def expected(fitted):
    return results(fitted)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_enable_x64", True),
        ("jax_default_prng_impl", "rbg"),
        ("jax_threefry_partitionable", False),
        ("jax_random_seed_offset", 7),
        ("jax_numpy_rank_promotion", "raise"),
        ("jax_numpy_dtype_promotion", "strict"),
        ("jax_transfer_guard", "disallow"),
    ],
)
def test_the_numbers_are_the_same_whatever_is_set(name, value, fitted, expected):
    """float64 results, other random numbers for a seed, and tracebacks of JAX's own checks."""
    with set_to(name, value):
        found = results(fitted)
    for what, wanted in expected.items():
        assert found[what].dtype == np.float32, what
        np.testing.assert_array_equal(found[what], wanted, err_msg=what)


@pytest.mark.parametrize(
    ("name", "value"),
    [("jax_numpy_rank_promotion", "raise"), ("jax_numpy_dtype_promotion", "strict")],
)
@pytest.mark.parametrize("slots", [None, 2])
def test_the_pure_function_under_the_callers_jit(name, value, slots):
    """A ValueError of JAX at the sum of tokens and positions, and inside a flow."""
    plain = SentenceEncoder.from_pretrained("mini_bert")
    wide = np.tile(U, (1, 32)) + np.random.default_rng(1).normal(size=(48, 256))
    for encoder in (
        plain,
        plain.with_postprocess(Whitening(k=3).fit(wide)),
        plain.with_postprocess(small_flow().fit(wide.astype(np.float32))),
    ):
        ids, mask = encoder.tokenize(TEXTS)
        wanted = jax.jit(lambda *a, e=encoder: e.embed_fn(*a, slots))(encoder.params, ids, mask)
        with set_to(name, value):
            found = jax.jit(lambda *a, e=encoder: e.embed_fn(*a, slots))(encoder.params, ids, mask)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("name", "value"), [("jax_numpy_rank_promotion", "raise"), ("jax_transfer_guard", "disallow")]
)
def test_an_export_under_checks_of_jax(name, value, tmp_path):
    """A traceback of JAX's."""
    pytest.importorskip("flatbuffers")
    encoder = SentenceEncoder.from_pretrained("mini_bert")
    with set_to(name, value):
        manifest = export_encoder(encoder, tmp_path / "exported", ["cpu"])
    assert manifest["dimension"] == 256


def test_the_numbers_of_a_seed_are_those_of_threefry():
    """The reference: bits of jax.random.key(seed) as they are by default."""
    with set_to("jax_default_prng_impl", "rbg"):
        bits = jax.random.bits(random_key(3), (2,))
    with set_to("jax_default_prng_impl", "threefry2x32"):
        np.testing.assert_array_equal(bits, jax.random.bits(jax.random.key(3), (2,)))


@pytest.mark.parametrize("seed", [0, 3, 2**31 - 1])
@pytest.mark.parametrize("offset", [7, -7, 2**31 - 1, 5 * 10**9])
def test_the_numbers_of_a_seed_have_no_offset(seed, offset):
    """JAX_RANDOM_SEED_OFFSET: a seed stood for the numbers of another one, also under jax.jit."""
    wanted = jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))
    with set_to("jax_random_seed_offset", offset):
        np.testing.assert_array_equal(jax.random.key_data(random_key(seed)), wanted)
        for kind in (np.uint32, np.int64, jax.numpy.uint32):
            np.testing.assert_array_equal(jax.random.key_data(random_key(kind(seed))), wanted)
        within = jax.jit(lambda seed: jax.random.key_data(random_key(seed)))(np.int32(seed))
    np.testing.assert_array_equal(within, wanted)


def test_a_run_goes_on_with_its_own_random_numbers(tmp_path):
    """A resumed run went on with other orders and dropout, and so ended in other parameters."""
    config = tiny(tmp_path, checkpoint=CheckpointConfig(every=1))
    config.flow.dropout = 0.2
    whole = train(config, tmp_path / "whole").state.variables
    train(
        dataclasses.replace(config, train=dataclasses.replace(config.train, steps=1)),
        tmp_path / "run",
    )
    with set_to("jax_random_seed_offset", 5):
        resumed = train(config, tmp_path / "run", resume=True).state.variables
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(a, b)


def tiny(folder, **changes):
    (folder / "text.txt").write_text("One line.\nAnother one.\nA third.\n", "utf-8")
    return Config(
        encoder=EncoderConfig(path="mini_bert"),
        data=DataConfig(path=str(folder / "text.txt"), format="text"),
        flow=FlowConfig(levels=1, depth=1, width=2),
        train=TrainConfig(steps=2, batch_size=2, tensorboard=False),
        **changes,
    )


def test_a_run_is_refused_in_float64_and_is_never_called_damaged(tmp_path):
    """Checkpoints that were unreadable, with exit code 0; a good run that was called damaged."""
    train(tiny(tmp_path), tmp_path / "run")
    store = CheckpointStore(tmp_path / "run")
    record = Records({"step": 3}, {}, {}, {})
    with set_to("jax_enable_x64", True):
        for call in (
            lambda: train(tiny(tmp_path), tmp_path / "other"),
            lambda: train(tiny(tmp_path), tmp_path / "run", resume=True),
            lambda: train_encoder(tiny(tmp_path, objective="siamese"), tmp_path / "other"),
            lambda: load_run(tmp_path / "run"),
            lambda: SentenceEncoder.from_checkpoint(tmp_path / "run"),
            lambda: store.save({"flow": {"a": np.zeros(1)}}, record),
            lambda: store.restore(2, lambda records: {}),
        ):
            with pytest.raises(ConfigError, match="JAX_ENABLE_X64"):
                call()
    assert not (tmp_path / "other").exists()
    assert load_run(tmp_path / "run").step == 2


def test_a_training_with_other_random_numbers_is_refused(tmp_path):
    """--resume went on with other numbers than the run had begun with."""
    with set_to("jax_threefry_partitionable", False):
        for call in (train, train_encoder):
            with pytest.raises(ConfigError, match="JAX_THREEFRY_PARTITIONABLE"):
                call(tiny(tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_does_not_depend_on_the_default_generator(tmp_path):
    """Other parameters for the same seed."""
    config = tiny(tmp_path)
    one = train(config, tmp_path / "one").state.variables
    with set_to("jax_default_prng_impl", "rbg"), set_to("jax_numpy_rank_promotion", "raise"):
        two = train(config, tmp_path / "two").state.variables
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(a, b)


APPLY = "-m bertflow_jax.embed --encoder=mini_bert --input=given.txt --output=vectors.npy"
TRAIN = "train.py --config=configs/demo.py --workdir=run"


@pytest.mark.parametrize(
    ("line", "variable", "words"),
    [
        (TRAIN, "JAX_ENABLE_X64=1", "JAX_ENABLE_X64 (jax_enable_x64) is on"),
        (APPLY, "JAX_ENABLE_X64=True", "JAX_ENABLE_X64 (jax_enable_x64) is on"),
        (
            "evaluate.py --encoder=mini_bert --tasks=everyday --output=out",
            "JAX_ENABLE_X64=on",
            "JAX_ENABLE_X64 (jax_enable_x64) is on",
        ),
        (TRAIN, "JAX_THREEFRY_PARTITIONABLE=0", "JAX_THREEFRY_PARTITIONABLE"),
        (APPLY, "JAX_PLATFORMS=tpu", "JAX_PLATFORMS=tpu: there is no tpu that JAX can use here"),
        (TRAIN, "JAX_PLATFORMS=cpu,foo", "JAX_PLATFORMS=cpu,foo: there is no foo that JAX can use"),
        (APPLY, "JAX_ENABLE_X64=maybe", "JAX_ENABLE_X64=maybe: JAX does not know this value"),
        (TRAIN, "JAX_DEFAULT_PRNG_IMPL=foo", "JAX_DEFAULT_PRNG_IMPL=foo: JAX does not know this"),
        (APPLY, "JAX_CPU_COLLECTIVES_IMPLEMENTATION=foo", "JAX_CPU_COLLECTIVES_IMPLEMENTATION=foo"),
        (APPLY, "JAX_NUM_CPU_DEVICES=two", "JAX_NUM_CPU_DEVICES=two: JAX does not know this"),
    ],
)
def test_a_command_names_the_variable(line, variable, words, tmp_path):
    """A traceback of JAX's, or numbers of another kind."""
    for name in ("train.py", "evaluate.py", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "given.txt").write_text("A cat.\n", "utf-8")
    name, _, value = variable.partition("=")
    done = subprocess.run(
        [sys.executable, *line.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), name: value},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    (said,) = [text for text in done.stderr.splitlines() if text.startswith("error: ")]
    assert words in said
    assert "Traceback" not in done.stderr
    assert not {"run", "out", "vectors.npy"} & set(os.listdir(tmp_path))
