"""Programs through the real TPU compiler, on a machine without a TPU."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import hlo, tpu_aot
from benchmarks.aot_programs import Case, build
from bertflow_jax.encoder.bert_config import BertConfig

pytestmark = pytest.mark.slow

ENCODER = BertConfig(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=512,
    max_position_embeddings=128,
)
CASES = {
    "flow": Case("flow", 32, table=1024),
    "online": Case("online", 4, 64, "bfloat16"),
    "siamese": Case("siamese", 4, 64, "bfloat16"),
    "embed": Case("embed", 8, 64, "bfloat16"),
}
SLICE, DEVICES = "v5e:2x2", 4


@pytest.fixture(scope="module")
def records():
    """What the TPU compiler says of a small program of each kind."""
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("libtpu is not installed: pip install -e .[tpu-test]")
    mesh = tpu_aot.topology_mesh(SLICE)
    return {
        kind: tpu_aot.examine(build(case, ENCODER, mesh), mesh, tpu_aot.CHIPS["v5e"])
        for kind, case in CASES.items()
    }


@pytest.mark.parametrize("kind", CASES)
def test_program_compiles_for_a_tpu_as_it_should(kind, records):
    """Anything that the benchmark itself calls a failure."""
    assert records[kind]["failed"] == []


@pytest.mark.parametrize(
    ("kind", "name", "local"),
    [
        ("flow", "rows", [128, 32, 1]),
        ("online", "input_ids", [4, 2, 64]),
        ("siamese", "batch.attention_mask", [4, 2, 64]),
        ("embed", "input_ids", [8, 64]),
    ],
)
def test_every_device_is_given_its_share_of_the_batch_alone(kind, name, local, records):
    """A batch that is replicated computes the same gradient on every chip, and slows nothing down."""
    assert records[kind]["arguments"][name] == local
    given = sum(np.prod(shape, dtype=np.int64) for shape in records[kind]["arguments"].values())
    # All arguments but the step counter's key are of four bytes, and tiles of 8 x 128 are padded.
    assert 4 * given <= records[kind]["bytes"]["arguments"] < 4 * given * 1.3 + 300_000


@pytest.mark.parametrize("kind", CASES)
def test_gradients_are_summed_and_embeddings_wait_for_nobody(kind, records):
    """Training without an all-reduce fits each chip to its own data; embedding must need none."""
    found = records[kind]["collectives"]
    if kind == "embed":
        assert found == {}
    else:
        assert found.get("all-reduce", 0) >= 1
        assert set(found) == {"all-reduce"}


@pytest.mark.parametrize(
    ("kind", "by_hand"),
    [
        # 32 sentences, twelve conditioners' worth of D = 128, 64, 32 by 3: in, hidden and out.
        ("flow", 3 * 32 * 3 * sum(2 * (c // 2 * 32 * 2 + 32 * 32) for c in (128, 64, 32))),
        # A layer of D = 128: query, key, value, out 4 D^2, 8 D^2 of the inner layer, attention 2 T D.
        ("siamese", 3 * 3 * 8 * 64 * 2 * (12 * 128**2 + 2 * 64 * 128)),
        ("embed", 3 * 8 * 64 * 2 * (12 * 128**2 + 2 * 64 * 128)),
    ],
)
def test_operations_of_a_device_are_those_counted_by_hand(kind, by_hand, records):
    """A step that is done by every chip for all of them, or an encoder that runs twice."""
    assert records[kind]["flops"]["counted"] == pytest.approx(by_hand, rel=0.1)


@pytest.mark.parametrize(
    ("kind", "float32"),
    [
        ("embed", 0.0),
        # The gradients of attention's two products: of 3 (24 D^2 + 4 T D) operations 8 T D.
        ("siamese", 8 * 64 * 128 / (3 * (24 * 128**2 + 4 * 64 * 128))),
    ],
)
def test_the_encoders_matmuls_are_in_bfloat16_where_asked(kind, float32, records):
    """A dense layer with one float32 operand moves twice the bytes, in full precision six times."""
    work = records[kind]["flops"]
    assert work["bf16"] / work["counted"] == pytest.approx(1 - float32, abs=0.01)


LOOP = """HloModule made, is_scheduled=true

%add (l: f32[], r: f32[]) -> f32[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  ROOT %l_r = f32[] add(%l, %r)
}

%body (p.1: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %p.1 = (s32[]{:T(128)}, f32[4,8]{1,0:T(8,128)}) parameter(0)
  %i = s32[] get-tuple-element(%p.1), index=0
  %x = f32[4,8]{1,0} get-tuple-element(%p.1), index=1
  %w = f32[8,8]{1,0} constant({...})
  %y = f32[4,8]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  %c = f32[4,8]{0,1} copy(%y), backend_config={"window_config":{"estimated_cycles":"10"}}
  %sum = f32[4,8]{1,0} all-reduce(%c), to_apply=%add
  ROOT %t = (s32[], f32[4,8]{1,0}) tuple(%i, %sum)
}

%condition (p.2: (s32[], f32[4,8])) -> pred[] {
  %p.2 = (s32[]{:T(128)}, f32[4,8]{1,0:T(8,128)}) parameter(0)
  %n = s32[] constant(12)
  %j = s32[] get-tuple-element(%p.2), index=0
  ROOT %less = pred[] compare(%j, %n), direction=LT
}

ENTRY %main (a: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %a = (s32[]{:T(128)}, f32[4,8]{1,0:T(8,128)}) parameter(0), metadata={op_name="state[\\'x\\']"}
  ROOT %loop = (s32[], f32[4,8]{1,0}) while(%a), condition=%condition, body=%body
}
"""


def test_a_loop_counts_as_often_as_it_runs():
    """The compiler's own analysis counts a body once: a twelfth of BERT-base."""
    module = hlo.Module(LOOP)
    assert [m.flops for m in module.matmuls()] == [12 * 2 * 4 * 8 * 8]
    assert module.matmuls()[0].highest
    assert module.cycles() == {"matmul": 0, "copy": 120, "other": 0}
    assert module.collectives() == {"all-reduce": 1}
    assert module.parameters()[0].argument == "state['x']"


@pytest.mark.parametrize(
    ("lhs", "rhs", "stride", "pads", "lhs_dilation", "rhs_dilation"),
    [
        # A batched matmul as TPU programs write it: outputs and inputs of a batch of six meet once.
        ((6, 5, 7), (6, 7, 3), 5, (0, 0), 6, 1),
        ((6, 5, 7), (6, 7, 3), 6, (5, 5), 5, 1),
        ((9, 2, 4), (3, 4, 5), 2, (1, 1), 1, 2),
    ],
)
def test_a_convolution_counts_the_products_with_data(
    lhs, rhs, stride, pads, lhs_dilation, rhs_dilation
):
    """Counting the whole window would make a thousand-fold of an attention product."""
    labels = ("0NC", "0IO", "0NC")
    out = jax.lax.conv_general_dilated(
        jnp.ones(lhs),
        jnp.ones(rhs),
        (stride,),
        [pads],
        (lhs_dilation,),
        (rhs_dilation,),
        dimension_numbers=labels,
    )

    def shape(dims):
        return f"f32[{','.join(map(str, dims))}]{{2,1,0}}"

    text = f"""HloModule made

ENTRY %main (a: f32[1], b: f32[1]) -> f32[1] {{
  %a = {shape(lhs)} parameter(0)
  %b = {shape(rhs)} parameter(1)
  ROOT %c = {shape(out.shape)} convolution(%a, %b), window={{size={rhs[0]} stride={stride} pad={pads[0]}_{pads[1]} lhs_dilate={lhs_dilation} rhs_dilate={rhs_dilation}}}, dim_labels=0bf_0io->0bf
}}
"""
    # Products of ones: their sum is their number.
    assert hlo.Module(text).matmuls()[0].flops == 2 * float(out.sum())


def test_flags_that_name_nothing_are_an_error(capsys, monkeypatch):
    """A misspelt program would compile nothing and pass."""
    monkeypatch.setattr("sys.argv", ["tpu_aot", "--programs=embedding"])
    with pytest.raises(SystemExit) as stopped:
        tpu_aot.main()
    assert stopped.value.code == 2
    assert "--programs: 'embedding' is none of flow" in capsys.readouterr().err
