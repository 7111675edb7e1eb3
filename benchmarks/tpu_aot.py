"""What the TPU compiler makes of training and embedding, on a machine without a TPU.

    python -m benchmarks.tpu_aot [--topologies=v5e:2x4,v4:2x2x2] [--models=base,large]
        [--programs=flow,online,siamese,embed] [--json=FILE]

Needs `libtpu` (`pip install -e .[tpu-test]`). Every program is compiled for the devices of a
slice and nothing is run. Printed for each, as a Markdown table:

- memory of a device: arguments + outputs + temporaries - what outputs share with arguments, of the
  chip's HBM;
- operations: the matmuls of the compiled program over the analytic count: those of the encoder's
  layers and of the flow's conditioners, a trained matmul three times (its gradients with respect to
  weights and input are one more each), four times where layers are computed again. Loops count as
  often as they run (`benchmarks.hlo`). What neither counts: softmax, LayerNorm, gelu, dropout, the
  optimiser;
- collectives: training needs an all-reduce (or reduce-scatter), embedding none at all;
- compiler: the cycles that it estimates for one device, at the clock that the published peak
  implies, and the share of them in copies. Collectives, gathers and copies that run beside other
  work have no estimate, so that this is a lower bound of the time;
- bound: the roofline: the larger of operations / peak (a float32 product of full precision is six
  bfloat16 ones) and bytes of arguments and outputs / bandwidth, and the rate of all chips from it.

Exits with 1 if a program is not what it should be, with 2 for a mistake in the flags.
"""

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import inspect
import json
import math
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from benchmarks.aot_programs import KINDS, Case, Program, build
from benchmarks.gpu import MODELS, model_config
from benchmarks.hlo import Module, shape_of
from benchmarks.tpu_chips import CHIPS, GIB, Chip, topology_mesh
from bertflow_jax.encoder.bert_config import BertConfig

TABLE = 1_000_000
CASES = (
    Case("flow", 32, table=TABLE),
    Case("flow", 1024, table=TABLE),
    Case("online", 32, 64, "bfloat16"),
    Case("siamese", 2, 128),  # configs/siamese_nli.py on eight devices: 16 pairs
    Case("siamese", 32, 128, "bfloat16", remat=True),
    Case("siamese", 32, 128, "bfloat16", remat=True, mode="fsdp"),
    Case("embed", 1024, 128, "bfloat16"),
)
_HIGHEST = 6  # bfloat16 products in one float32 product of full precision
_TOLERANCE = 0.1


def examine(program: Program, mesh: Mesh, chip: Chip) -> dict[str, Any]:
    """Compile a program and return what is known of it then; "failed" names what is not right."""
    started = time.perf_counter()
    try:
        compiled = program.call.lower(*program.shapes).compile()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        used = re.search(r"\(([\d.]+\w)\) exceeds available HBM \(([\d.]+\w)\)", str(error))
        said = f"{used[1]} of {used[2]}" if used else str(error).splitlines()[0]
        return {"fits": False, "out_of_memory": said, "failed": [f"out of memory: {said}"]}
    seconds = time.perf_counter() - started
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    module = Module(compiled.as_text())
    sizes = {
        "arguments": memory.argument_size_in_bytes,
        "outputs": memory.output_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
    }
    needed = sizes["arguments"] + sizes["outputs"] + sizes["temporaries"] - sizes["aliased"]
    cycles = module.cycles()
    record = {
        "fits": needed <= chip.hbm,
        "bytes": {**sizes, "needed": needed, "hbm": chip.hbm},
        "flops": _flops(module, program, mesh),
        "cost_analysis": {k: cost.get(k) for k in ("flops", "bytes accessed", "optimal_seconds")},
        "collectives": module.collectives(),
        "drawing_matmuls": module.drawing_matmuls(),
        "arguments": {p.argument: list(shape_of(p.result)[1]) for p in module.parameters()},
        "cycles": cycles,
        "compiler_seconds": sum(cycles.values()) / chip.clock,
        "copies": [
            {"share": c / max(1, sum(cycles.values())), "bytes": b, "operation": name}
            for c, b, name in module.copies()[:8]
        ],
        "bound_seconds": _roofline(module, program, mesh, chip),
        "compile_seconds": seconds,
    }
    return {**record, "failed": failures(record, program, mesh.size)}


def _flops(module: Module, program: Program, mesh: Mesh) -> dict[str, float]:
    """Return the operations of one device: counted, expected, and in which types they are done."""
    shares: dict[str, float] = {}
    for matmul in module.matmuls():
        name = matmul.dtype + (", full precision" if matmul.highest else "")
        shares[name] = shares.get(name, 0.0) + matmul.flops
    return {"counted": sum(shares.values()), "expected": program.flops / mesh.size, **shares}


def _roofline(module: Module, program: Program, mesh: Mesh, chip: Chip) -> float:
    """Return the seconds of one call that no program of these operations can go below."""
    work = sum(m.flops * (_HIGHEST if m.highest else 1) for m in module.matmuls())
    read = sum(
        _nbytes(leaf) / (mesh.size if any(name in path for name in program.split) else 1)
        for path, leaf in _leaves(program.shapes, program.call)
        if not any(name in path for name in program.gathered)
    )
    written = jax.eval_shape(program.call, *program.shapes)
    moved = read + sum(map(_nbytes, jax.tree.leaves(written))) / (
        1 if program.trained else mesh.size
    )
    return max(work / chip.peak, moved / chip.bandwidth)


def _nbytes(leaf: Any) -> float:
    return float(np.dtype(leaf.dtype).itemsize * math.prod(leaf.shape))


def _leaves(shapes: tuple[Any, ...], call: Any) -> list[tuple[str, Any]]:
    """Return (name as in the compiled module, shape) of every argument."""
    names = list(inspect.signature(call).parameters)
    return [
        (name + jax.tree_util.keystr(path), leaf)
        for name, tree in zip(names, shapes, strict=True)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def failures(record: dict[str, Any], program: Program, devices: int) -> list[str]:
    """Return what is wrong with a compiled program."""
    wrong = []
    if not record["fits"]:
        wrong.append("needs more than the chip's HBM")
    ratio = record["flops"]["counted"] / record["flops"]["expected"]
    if abs(ratio - 1) > _TOLERANCE:
        wrong.append(f"{ratio:.2f} times the operations that the analytic count says")
    for name, shape in program.split.items():
        local = list(shape)
        local[program.split_axis] //= devices
        if record["arguments"].get(name) != local:
            wrong.append(f"{name} is {record['arguments'].get(name)} a device, not {local}")
    if record["drawing_matmuls"]:
        wrong.append(f"dropout is drawn inside {len(record['drawing_matmuls'])} matmuls")
    summed = {"all-reduce", "reduce-scatter"} & set(record["collectives"])
    if program.trained and not summed:
        wrong.append("no all-reduce of the gradient")
    if not program.trained and record["collectives"]:
        wrong.append(f"devices wait for each other: {record['collectives']}")
    return wrong


HEADER = (
    "| chips | model | program | examples a chip | HBM, GiB | operations, compiled / analytic (a "
    "chip) | collectives | compiler: ms, share in copies | bound: ms, rate of all chips |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def table_row(topology: str, model: str, case: Case, record: dict[str, Any], devices: int) -> str:
    """Return a row of the table."""
    cells = [topology, model, str(case), f"{case.batch:,}"]
    if "out_of_memory" in record:
        return f"| {' | '.join([*cells, 'does not fit: ' + record['out_of_memory']])} | | | | |"
    size, work = record["bytes"], record["flops"]
    seconds, bound = record["compiler_seconds"], record["bound_seconds"]
    copied = record["cycles"]["copy"] / max(1, sum(record["cycles"].values()))
    rows = case.kind == "embed"
    rate = (devices * case.batch if rows else 1) / bound
    cells += [
        f"{size['needed'] / GIB:.2f} of {size['hbm'] / GIB:.0f}",
        f"{work['counted'] / work['expected']:.3f} ({work['expected'] / 1e9:,.2f} GFLOP)",
        ", ".join(f"{n} {kind}" for kind, n in record["collectives"].items()) or "none",
        f"{1e3 * seconds:.2f}, {copied:.0%}",
        f"{1e3 * bound:.3f}, {rate:,.0f} {'texts' if rows else 'steps'}/s",
    ]
    return f"| {' | '.join(cells)} |"


def run(topology: str, model: str, encoder: BertConfig, case: Case) -> tuple[str, dict[str, Any]]:
    """Compile a case; return its row of the table and its record."""
    mesh = topology_mesh(topology)
    record = examine(build(case, encoder, mesh), mesh, CHIPS[topology.split(":")[0]])
    row = table_row(topology, model, case, record, mesh.size)
    return row, {"topology": topology, "model": model, **dataclasses.asdict(case), **record}


def main() -> None:
    """Compile the programs asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--topologies",
        default="v5e:2x4,v4:2x2x2",
        help="slices as KIND:SHAPE; default: %(default)s",
    )
    parser.add_argument(
        "--models", default="base,large", help="BERT shapes of benchmarks.gpu; default: %(default)s"
    )
    parser.add_argument(
        "--programs", default=",".join(KINDS), help="which kinds of them; default: %(default)s"
    )
    parser.add_argument("--json", type=Path, help="file for everything measured; default: none")
    options = parser.parse_args()
    chosen = {"topologies": CHIPS, "models": MODELS, "programs": KINDS}
    for flag, known in chosen.items():
        for name in getattr(options, flag).split(","):
            if name.split(":")[0] not in known:
                parser.error(f"--{flag}: {name!r} is none of {', '.join(known)}")
    if importlib.util.find_spec("libtpu") is None:
        parser.error("libtpu is not installed: pip install -e .[tpu-test]")
    if "JAX_PLATFORMS" not in os.environ:
        jax.config.update("jax_platforms", "cpu")  # else JAX looks for a TPU that is not there
    versions = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "libtpu")}
    print(f"{time.strftime('%Y-%m-%d')} " + ", ".join(" ".join(v) for v in versions.items()))
    print(HEADER, flush=True)
    records = []
    for topology in options.topologies.split(","):
        for model in options.models.split(","):
            for case in (c for c in CASES if c.kind in options.programs.split(",")):
                row, record = run(topology, model, model_config(model), case)
                print(row, flush=True)
                records.append(record)
                if options.json:
                    text = json.dumps({"versions": versions, "programs": records}, indent=1)
                    options.json.write_text(text + "\n", encoding="utf-8")
    wrong = [r for r in records if r["failed"]]
    for r in wrong:
        case = f"{r['topology']} {r['model']} {r['kind']} of {r['batch']}, {r['dtype']}"
        print(f"{case}: {'; '.join(r['failed'])}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
