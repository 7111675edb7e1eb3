"""The four programs that run on devices, as shapes: nothing is allocated and nothing is run.

- flow: a step of a fit from cached embeddings, `compiled_steps.compile_run_steps`;
- online: BERT's forward pass with dropout and a step of the flow on it,
  `compiled_steps.compile_online_step`;
- siamese: forward, backward and AdamW of the encoder, `compiled_steps.compile_train_step`;
- embed: a batch of packed rows to vectors, `batch_embed.compiled_call`.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from benchmarks.counting import flops, flow_flops
from bertflow_jax import compiled_steps, parallel
from bertflow_jax.batch_embed import compiled_call
from bertflow_jax.config import Config, EncoderConfig, FlowConfig, TrainConfig
from bertflow_jax.encoder.bert import init_params
from bertflow_jax.encoder.bert_config import COMPUTE_DTYPES, BertConfig
from bertflow_jax.encoder.embedding import make_embed_fn
from bertflow_jax.encoder.pooling import parse_pooling
from bertflow_jax.supervision_config import SupervisionConfig
from bertflow_jax.training.fit import blank_state
from bertflow_jax.training.online import make_online_step
from bertflow_jax.training.optimizer import make_optimizer
from bertflow_jax.training.steps import make_run_steps
from bertflow_jax.training.supervised_batches import PairBatch
from bertflow_jax.training.supervised_losses import init_head
from bertflow_jax.training.supervised_optimizer import make_encoder_optimizer, split_params
from bertflow_jax.training.supervised_steps import SupervisedState, make_train_step

KINDS = ("flow", "online", "siamese", "embed")
_CHUNK = 128  # steps in one call of a cached fit
_BACKWARD = 2  # a matmul's gradients with respect to its weights and its input


@dataclasses.dataclass(frozen=True)
class Case:
    """What to compile.

    Attributes:
      kind: of `KINDS`.
      batch: examples a device; of online and siamese an example is two sentences.
      tokens: T; of flow unused.
      dtype: compute type of the encoder.
      table: of flow: rows of the table of embeddings.
      remat: of siamese: whether layers are computed again in the backward pass.
      mode: of siamese: `jit` or `fsdp`.
    """

    kind: str
    batch: int
    tokens: int = 0
    dtype: str = "float32"
    table: int = 0
    remat: bool = False
    mode: str = "jit"

    def __str__(self) -> str:
        if self.kind == "flow":
            return f"flow, table of {self.table:,} rows"
        said = [self.kind, f"T={self.tokens}", self.dtype]
        return ", ".join([*said, *["remat"] * self.remat, *["fsdp"] * (self.mode == "fsdp")])


@dataclasses.dataclass(frozen=True)
class Program:
    """A function compiled over a mesh, and what is known of it beforehand.

    Attributes:
      call: the jitted function.
      shapes: its arguments.
      flops: operations of the matmuls of one call (of one step for flow), of all devices together.
      split: global shapes of the arguments that are split over the devices, by name.
      split_axis: which axis of them is split.
      trained: whether the devices must agree on a gradient.
      gathered: arguments of which a call reads a few rows only.
    """

    call: Any
    shapes: tuple[Any, ...]
    flops: float
    split: dict[str, tuple[int, ...]]
    split_axis: int = 0
    trained: bool = True
    gathered: tuple[str, ...] = ()


def build(case: Case, encoder: BertConfig, mesh: Mesh) -> Program:
    """Return the program of a case over a mesh, which may be of devices that are elsewhere."""
    makers = {"flow": _flow, "online": _online, "siamese": _siamese, "embed": _embed}
    return makers[case.kind](case, encoder, mesh)


def _ids(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def _params(encoder: BertConfig) -> Any:
    return jax.eval_shape(lambda key: init_params(encoder, key), jax.random.key(0))


def _embedder(case: Case, encoder: BertConfig, mesh: Mesh) -> Any:
    spec = parse_pooling("mean", encoder.num_hidden_layers)
    gather = parallel.gather_over(mesh) if case.mode == "fsdp" else None
    return make_embed_fn(encoder, spec, COMPUTE_DTYPES[case.dtype], remat=case.remat, gather=gather)


def _flow(case: Case, encoder: BertConfig, mesh: Mesh) -> Program:
    config, features = Config(flow=FlowConfig()), encoder.hidden_size
    run_steps = make_run_steps(config.flow, make_optimizer(config.train), features, config.seed)
    state = jax.eval_shape(lambda: blank_state(config, features))
    table = jax.ShapeDtypeStruct((case.table, features), jnp.float32)
    batch = case.batch * mesh.size
    rows = _ids(_CHUNK, batch, 1)
    return Program(
        compiled_steps.compile_run_steps(run_steps, mesh),
        (state, table, rows, jax.ShapeDtypeStruct((), jnp.int32)),
        (1 + _BACKWARD) * flow_flops(config.flow, features, batch),
        {"rows": rows.shape},
        split_axis=1,
        gathered=("embeddings",),
    )


def _online(case: Case, encoder: BertConfig, mesh: Mesh) -> Program:
    config, features = Config(train=TrainConfig(mode="online")), encoder.hidden_size
    step = make_online_step(
        config, _embedder(case, encoder, mesh), make_optimizer(config.train), features, None
    )
    state = jax.eval_shape(lambda: blank_state(config, features))
    ids = _ids(case.batch * mesh.size, 2, case.tokens)
    sentences = 2 * case.batch * mesh.size
    work = flops(encoder, sentences, case.tokens)
    work += (1 + _BACKWARD) * flow_flops(config.flow, features, sentences)
    return Program(
        compiled_steps.compile_online_step(step, mesh, case.dtype == "float32"),
        (state, _params(encoder), ids, ids),
        work,
        {"input_ids": ids.shape, "attention_mask": ids.shape},
    )


def _siamese(case: Case, encoder: BertConfig, mesh: Mesh) -> Program:
    config = Config(
        objective="siamese",
        encoder=EncoderConfig(pooling="mean"),
        supervision=SupervisionConfig(path="pairs.tsv", learning_rate=2e-5),
    )
    optimizer = make_encoder_optimizer(config.supervision, 1000, config.train.clip_norm)
    spec = parse_pooling("mean", encoder.num_hidden_layers)

    def blank() -> SupervisedState:
        key = jax.random.key(0)
        params = {
            "encoder": split_params(init_params(encoder, key), spec),
            "head": init_head(key, encoder.hidden_size),
        }
        return SupervisedState(jnp.zeros((), jnp.int32), params, optimizer.init(params), {}, {})

    pairs = case.batch * mesh.size
    ids = _ids(pairs, 2, case.tokens)
    batch = PairBatch(ids, ids, _ids(pairs), jax.ShapeDtypeStruct((pairs,), jnp.float32))
    step = make_train_step(config, _embedder(case, encoder, mesh), optimizer)
    state, float32 = jax.eval_shape(blank), case.dtype == "float32"
    return Program(
        compiled_steps.compile_train_step(step, mesh, float32, case.mode, state),
        (state, batch),
        (1 + case.remat + _BACKWARD) * flops(encoder, 2 * pairs, case.tokens),
        {"batch.input_ids": ids.shape, "batch.attention_mask": ids.shape},
    )


def _embed(case: Case, encoder: BertConfig, mesh: Mesh) -> Program:
    embed = _embedder(case, encoder, mesh)

    def packed(params: Any, ids: jax.Array, mask: jax.Array, slots: int | None = None) -> jax.Array:
        return embed(params, ids, mask, slots=slots)

    ids = _ids(case.batch * mesh.size, case.tokens)
    call, _ = compiled_call(packed, mesh, case.dtype == "float32")
    return Program(
        call,
        (_params(encoder), ids, ids, jax.ShapeDtypeStruct((), jnp.bool_)),
        flops(encoder, case.batch * mesh.size, case.tokens),
        {"input_ids": ids.shape, "attention_mask": ids.shape},
        trained=False,
    )
