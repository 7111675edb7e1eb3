"""The compiled calls lower for CPUs, NVIDIA GPUs and TPUs, and survive being written to a file."""

from typing import Any

import jax
import jax.export
import numpy as np
import optax
import pytest
from jax.sharding import Mesh

from benchmarks.aot_programs import Case, Program, build
from bertflow_jax.encoder.bert_config import BertConfig
from bertflow_jax.parallel import DATA_AXIS
from bertflow_jax.training.optimizer import UncorrectedAdamState
from bertflow_jax.training.steps import FitState, StepMetrics
from bertflow_jax.training.supervised_batches import PairBatch
from bertflow_jax.training.supervised_steps import SupervisedMetrics, SupervisedState

PLATFORMS = ("cpu", "cuda", "tpu")
ENCODER = BertConfig(
    vocab_size=60,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=56,
    max_position_embeddings=64,
)
CASES = {
    "flow": Case("flow", 8, table=50),
    "online": Case("online", 4, 16),
    "siamese": Case("siamese", 4, 16),
    "embed": Case("embed", 4, 32),
}


@pytest.fixture(scope="module", autouse=True)
def _trees():
    """An exported function keeps the structure of its arguments: every class of it by name."""
    for kind in (FitState, StepMetrics, PairBatch, SupervisedState, SupervisedMetrics):
        jax.export.register_pytree_node_serialization(
            kind,
            serialized_name=kind.__name__,
            serialize_auxdata=lambda _: b"",
            deserialize_auxdata=lambda _: (),
            from_children=lambda _, children, kind=kind: kind(*children),
        )
    for kind in (
        UncorrectedAdamState,
        optax.EmptyState,
        optax.MaskedState,
        optax.ScaleByAdamState,
        optax.ScaleByScheduleState,
    ):
        jax.export.register_namedtuple_serialization(kind, serialized_name=kind.__name__)


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    """The four calls over a mesh of one CPU."""
    mesh = Mesh(np.asarray(jax.devices("cpu")[:1]), (DATA_AXIS,))
    return {kind: build(case, ENCODER, mesh) for kind, case in CASES.items()}


def arguments(program: Program) -> Any:
    """Return arrays of the program's shapes: small positive numbers, masks of ones."""
    rng = np.random.default_rng(0)

    def array(path: Any, leaf: Any) -> np.ndarray:
        if leaf.dtype == np.bool_:
            return np.ones(leaf.shape, bool)
        if leaf.dtype != np.int32:
            return np.abs(rng.normal(0.02, 0.01, leaf.shape)).astype(leaf.dtype)
        mask = "attention_mask" in jax.tree_util.keystr(path)
        return np.ones(leaf.shape, np.int32) if mask else rng.integers(0, 3, leaf.shape, np.int32)

    return jax.tree_util.tree_map_with_path(array, program.shapes)


@pytest.mark.parametrize("kind", CASES)
def test_exported_call_serves_every_platform_with_the_same_numbers(kind, programs):
    """An operation that one platform lacks, or a branch for CPUs that takes another path's place."""
    program = programs[kind]
    exported = jax.export.export(program.call, platforms=PLATFORMS)(*program.shapes)
    assert exported.platforms == PLATFORMS
    restored = jax.export.deserialize(exported.serialize())
    given = arguments(program)
    got = jax.tree.leaves(restored.call(*given))
    wanted = jax.tree.leaves(program.call(*jax.tree.map(np.array, given)))
    assert len(got) == len(wanted)
    moved = 0
    for ours, direct in zip(got, wanted, strict=True):
        np.testing.assert_allclose(ours, direct, rtol=2e-5, atol=2e-6)
        moved += float(np.abs(np.asarray(direct, np.float64)).sum())
    assert np.isfinite(moved)
    assert moved > 0


@pytest.mark.parametrize("kind", ["online", "siamese", "embed"])
def test_a_bfloat16_product_has_its_own_form_on_a_cpu_alone(kind, programs):
    """The CPU's detour through float32 would halve the speed of a TPU's or GPU's matmuls."""
    mesh = Mesh(np.asarray(jax.devices("cpu")[:1]), (DATA_AXIS,))
    case = CASES[kind]
    program = build(Case(kind, case.batch, case.tokens, "bfloat16"), ENCODER, mesh)

    def dense(platform: str) -> list[str]:
        text = jax.export.export(program.call, platforms=(platform,))(*program.shapes).mlir_module()
        lines = [line for line in text.splitlines() if "dot_general" in line and "bf16" in line]
        return [line.rsplit("->", 1)[1].split(" loc")[0] for line in lines if "x56x" in line]

    assert dense("tpu")
    assert all("bf16" in result for result in dense("tpu"))
    assert dense("tpu") == dense("cuda")
    assert any("f32" in result for result in dense("cpu"))
