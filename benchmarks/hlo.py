"""What the text of a compiled XLA module says: matmuls, loops, collectives, estimated cycles.

`cost_analysis()` counts the body of a loop once, however often it runs. Here every instruction
counts as often as its computation is executed: the body of a `while` by the trip count that its
condition compares with. A loop whose trip count is data (`training.steps.make_run_steps`) counts
once: the figures are then those of one step.
"""

import dataclasses
import math
import re
from collections.abc import Iterator

import numpy as np

COLLECTIVES = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all",
    "collective-permute", "collective-broadcast",
)  # fmt: skip
_BYTES = {"pred": 1, "bf16": 2, "f16": 2, "f32": 4, "f64": 8, "c64": 8}
_ARRAY = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")
_HEADER = re.compile(r"^(ENTRY )?%([^\s(]+) \(.*\{$")
_CALLED = re.compile(r"(?:calls|to_apply|body|branch_computations)=\{?((?:%[^\s,}]+(?:, )?)+)")


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a computation: `name = result opcode(operands), attributes`."""

    name: str
    result: str
    opcode: str
    operands: str
    attributes: str

    def operand_names(self) -> list[str]:
        """Return the names of the instructions whose results it takes."""
        return re.findall(r"%([^\s,()]+)", self.operands)

    @property
    def argument(self) -> str:
        """Name of the function's argument that a parameter is, or of the Python operation."""
        found = re.search(r'op_name="([^"]*)"', self.attributes)
        return found.group(1).replace("\\'", "'") if found else ""

    @property
    def cycles(self) -> int:
        """Cycles that the TPU compiler estimates; 0 where it gives none (collectives, gathers)."""
        found = re.search(r'"estimated_cycles":"(\d+)"', self.attributes)
        return int(found.group(1)) if found else 0


@dataclasses.dataclass(frozen=True)
class Matmul:
    """A `dot` or `convolution`, executed `times` times.

    Attributes:
      flops: of all executions.
      dtype: the wider type of its operands.
      highest: whether float32 operands are multiplied in full precision: six bfloat16 products.
      source: the operation in Python.
    """

    flops: float
    dtype: str
    highest: bool
    source: str


def shape_of(result: str) -> tuple[str, tuple[int, ...]]:
    """Return dtype and dimensions of the (first) array of a type, as in `f32[8,128]{1,0}`."""
    found = _ARRAY.search(result)
    if found is None:
        raise ValueError(f"no array type in {result!r}")
    return found.group(1), tuple(int(n) for n in found.group(2).split(",") if n)


def bytes_of(result: str) -> int:
    """Return the bytes of an array, without the padding of its tiles."""
    dtype, shape = shape_of(result)
    return _width(dtype) * math.prod(shape)


def _width(dtype: str) -> int:
    return _BYTES.get(dtype) or max(1, int(dtype.lstrip("su")) // 8)


class Module:
    """A parsed module."""

    def __init__(self, text: str):
        """Read `compiled.as_text()`; raises ValueError for text without an entry computation."""
        self.computations: dict[str, dict[str, Instruction]] = {}
        self.entry = ""
        current: dict[str, Instruction] | None = None
        for line in text.splitlines():
            if header := _HEADER.match(line):
                current = self.computations.setdefault(header.group(2), {})
                self.entry = header.group(2) if header.group(1) else self.entry
            elif line.startswith("}"):
                current = None
            elif current is not None and (instruction := _instruction(line)):
                current[instruction.name] = instruction
        if not self.entry:
            raise ValueError("this is not the text of an XLA module: it has no ENTRY")

    def parameters(self) -> list[Instruction]:
        """Return the parameters of the entry computation: what one device is given."""
        entry = self.computations[self.entry].values()
        return [instruction for instruction in entry if instruction.opcode == "parameter"]

    def executed(self) -> Iterator[tuple[Instruction, str, int]]:
        """Yield every instruction, its computation, and how often one run executes it.

        Instructions inside fusions come after the fusion itself.
        """
        yield from self._executed(self.entry, 1)

    def _executed(self, name: str, times: int) -> Iterator[tuple[Instruction, str, int]]:
        for instruction in self.computations[name].values():
            yield instruction, name, times
            inner = times
            if instruction.opcode == "while":
                inner = times * (self.trip_count(instruction) or 1)
            for group in _CALLED.findall(instruction.attributes):
                for called in re.findall(r"%([^\s,}]+)", group):
                    yield from self._executed(called, inner)

    def trip_count(self, loop: Instruction) -> int | None:
        """Return how often a `while` runs its body; None where that is data."""
        if known := re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.attributes):
            return int(known.group(1))
        condition = re.search(r"condition=%([^\s,]+)", loop.attributes)
        body = self.computations[condition.group(1)] if condition else {}
        for instruction in body.values():
            if instruction.opcode == "compare" and "direction=LT" in instruction.attributes:
                bound = body.get(instruction.operand_names()[-1])
                if bound is not None and bound.opcode == "constant":
                    return int(bound.operands)
        return None

    def collectives(self) -> dict[str, int]:
        """Return how many collectives of each kind the module has; a start and its done are one."""
        counts: dict[str, int] = {}
        for body in self.computations.values():
            for instruction in body.values():
                kind = instruction.opcode.removesuffix("-start")
                if kind in COLLECTIVES:
                    counts[kind] = counts.get(kind, 0) + 1
        return counts

    def matmuls(self) -> list[Matmul]:
        """Return every matmul that a run executes."""
        found = []
        for instruction, name, times in self.executed():
            if instruction.opcode not in ("convolution", "dot"):
                continue
            table = self.computations[name]
            sides = [shape_of(table[operand].result) for operand in instruction.operand_names()]
            count = _dot if instruction.opcode == "dot" else _convolution
            work = times * count(instruction, sides[0][1], sides[1][1])
            dtype = max((side[0] for side in sides), key=_width)
            highest = dtype == "f32" and "highest" in instruction.attributes
            found.append(Matmul(work, dtype, highest, instruction.argument))
        return found

    def cycles(self) -> dict[str, int]:
        """Return the compiler's estimate of a run by kind: `matmul`, `copy`, `other`.

        What has no estimate (collectives, gathers, copies that run beside other work) is not in it.
        """
        total = {"matmul": 0, "copy": 0, "other": 0}
        for instruction, _, times in self.executed():
            kind = "copy" if instruction.opcode in ("copy", "transpose") else "other"
            called = re.search(r"calls=%([^\s,]+)", instruction.attributes)
            if called and any(
                inner.opcode in ("convolution", "dot")
                for inner in self.computations[called.group(1)].values()
            ):
                kind = "matmul"
            total[kind] += times * instruction.cycles
        return total

    def drawing_matmuls(self) -> list[str]:
        """Return the fusions that hold a matmul and draw random numbers for its result.

        A threefry draw is some hundred operations on integers: the TPU compiler runs out of
        registers in such a fusion, and on a v4 out of vector memory.
        """
        found = []
        for body in self.computations.values():
            for fusion in (i for i in body.values() if i.opcode == "fusion"):
                held = {i.opcode for i, _, _ in self._executed(_called(fusion), 1)}
                if held & {"convolution", "dot"} and "shift-right-logical" in held:
                    found.append(fusion.name)
        return found

    def copies(self) -> list[tuple[int, int, str]]:
        """Return (estimated cycles of all executions, bytes, operation), largest first."""
        found = [
            (times * i.cycles, bytes_of(i.result), i.argument or i.name)
            for i, _, times in self.executed()
            if i.opcode in ("copy", "transpose") and i.cycles
        ]
        return sorted(found, reverse=True)


def _called(fusion: Instruction) -> str:
    found = re.search(r"calls=%([^\s,]+)", fusion.attributes)
    if found is None:
        raise ValueError(f"fusion {fusion.name} calls nothing")
    return found.group(1)


def _instruction(line: str) -> Instruction | None:
    found = re.match(r"^\s+(?:ROOT )?%(\S+) = (.*)$", line)
    if found is None:
        return None
    rest = found.group(2)
    end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    result, rest = rest[:end], rest[end:].lstrip()
    start = rest.index("(")
    stop = _closing(rest, start)
    return Instruction(
        found.group(1), result, rest[:start], rest[start + 1 : stop], rest[stop + 1 :]
    )


def _closing(text: str, start: int) -> int:
    """Return the place of the parenthesis that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(f"unbalanced parentheses in {text[start : start + 80]!r}")


def _dot(instruction: Instruction, lhs: tuple[int, ...], rhs: tuple[int, ...]) -> float:
    del rhs
    found = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", instruction.attributes)
    axes = [int(n) for n in found.group(1).split(",") if n] if found else []
    return 2.0 * math.prod(shape_of(instruction.result)[1]) * math.prod(lhs[axis] for axis in axes)


def _convolution(instruction: Instruction, lhs: tuple[int, ...], rhs: tuple[int, ...]) -> float:
    """Return 2 * batch * features out * features in * pairs (output, kernel) that meet an input.

    TPU programs write a batched matmul as a convolution over the batch axes, dilated so that every
    output meets one input: most of the window's positions fall beside the data and cost nothing.
    """
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", instruction.attributes)
    if labels is None:
        raise ValueError(f"convolution {instruction.name} without dim_labels")
    left, kernel, out = labels.groups()
    output = shape_of(instruction.result)[1]
    window = re.search(r"window=\{([^}]*)\}", instruction.attributes)
    fields = dict(f.split("=") for f in window.group(1).split()) if window else {}
    total = 2.0 * output[out.index("b")] * output[out.index("f")] * rhs[kernel.index("i")]
    for axis in range(len(left) - 2):
        size = rhs[kernel.index(str(axis))]
        stride, base, dilation = (
            int(fields[key].split("x")[axis]) if key in fields else 1
            for key in ("stride", "lhs_dilate", "rhs_dilate")
        )
        low = int(fields["pad"].split("x")[axis].split("_")[0]) if "pad" in fields else 0
        place = (
            np.arange(output[out.index(str(axis))])[:, None] * stride
            + np.arange(size)[None, :] * dilation
            - low
        )
        last = (lhs[left.index(str(axis))] - 1) * base
        total *= int(((place >= 0) & (place <= last) & (place % base == 0)).sum())
    return total
