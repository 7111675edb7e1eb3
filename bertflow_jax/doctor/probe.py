"""What runs on the devices, as a process of its own: one JSON object a line for every check.

{"check": "...", "value": "...", "problem": "..."}; before a check begins, {"starts": "..."}.
"""

import json
from typing import Any

# mini_bert, pooling mean, of TEXT: made once on a CPU in float32.
TEXT = "A man is playing a guitar."
VECTOR = (0.15386, 0.26144, -0.47816, -0.20747)
NORM = 9.3234


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def devices() -> tuple[str, str]:
    """Return platform, kind, number and memory of the devices."""
    import jax

    found = jax.local_devices()
    memory = (found[0].memory_stats() or {}).get("bytes_limit")
    room = f", {memory / 2**30:.1f} GiB each for JAX" if memory else ""
    others = jax.device_count() - len(found)
    more = f", {others} of other processes" if others else ""
    return f"{len(found)} x {found[0].platform} ({found[0].device_kind}){room}{more}", ""


def matmul() -> tuple[str, str]:
    """Multiply on every device; whole numbers below 8, so that every precision is exact."""
    import jax
    import numpy as np

    x = np.arange(256 * 256).reshape(256, 256) % 7
    wanted = x @ x.T
    product = jax.jit(lambda a: a @ a.T)
    for device in jax.local_devices():
        got = np.asarray(product(jax.device_put(x.astype(np.float32), device)))
        if not np.array_equal(got, wanted):
            return "wrong", (
                f"a matmul on {device} differs by {np.abs(got - wanted).max()} from NumPy's: the "
                "device or its driver is damaged; try others with CUDA_VISIBLE_DEVICES, or "
                "JAX_PLATFORMS=cpu"
            )
    return f"256 x 256, exact on {len(jax.local_devices())} device(s)", ""


def step() -> tuple[str, str]:
    """Take a gradient step with the batch split over all devices; NumPy knows the result."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    from bertflow_jax.parallel import DATA_AXIS, local_mesh

    mesh = local_mesh()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16 * mesh.size, 8)).astype(np.float32)
    y, w = x @ np.arange(8, dtype=np.float32), np.ones(8, np.float32)

    def update(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        product = lambda w: jnp.matmul(x, w, precision="highest")  # noqa: E731
        return w - 0.1 * jax.grad(lambda w: jnp.mean((product(w) - y) ** 2))(w)

    split = NamedSharding(mesh, PartitionSpec(DATA_AXIS))
    whole = NamedSharding(mesh, PartitionSpec())
    got = np.asarray(
        jax.jit(update, in_shardings=(whole, split, split), out_shardings=whole)(w, x, y)
    )
    wanted = w - 0.2 * x.T.astype(np.float64) @ (x @ w - y) / len(x)
    error = float(np.abs(got - wanted).max())
    if not error < 1e-3:
        return "wrong", (
            f"a compiled step over {mesh.size} device(s) is {error:.2g} away from NumPy's: the "
            "devices do not exchange data rightly; use fewer with CUDA_VISIBLE_DEVICES, or "
            "JAX_PLATFORMS=cpu"
        )
    return f"over {mesh.size} device(s), {error:.1e} from NumPy's", ""


def mini_bert() -> tuple[str, str]:
    """Embed a sentence with the bundled encoder; the vector is known."""
    import numpy as np

    from bertflow_jax import SentenceEncoder

    vector = SentenceEncoder.from_pretrained("mini_bert", pooling="mean").encode(TEXT)
    off = max(
        float(np.abs(vector[: len(VECTOR)] - VECTOR).max()),
        abs(float(np.linalg.norm(vector)) - NORM),
    )
    if not off < 1e-3:
        return "wrong", (
            f"the bundled mini_bert gives a vector {off:.2g} away from the known one: its files "
            "are damaged (install bertflow_jax again), or the device computes wrongly"
        )
    return f"gives the known vector, {off:.1e} away", ""


CHECKS = {"devices": devices, "matmul": matmul, "step": step, "mini_bert": mini_bert}


def main() -> None:
    """Run every check; an error is one's finding, and ends those that build on it."""
    for name, check in CHECKS.items():
        _say(starts=name)
        try:
            value, problem = check()
        except Exception as error:
            # Of whatever kind: this is the place where the machine's errors are found.
            text = next((line for line in str(error).splitlines() if line.strip()), "no message")
            first = f"{type(error).__name__} ({text.strip()})"
            _say(
                check=name,
                value="failed",
                problem=first if name == "devices" else f"{name}: {first}",
            )
            if name == "devices":
                return
        else:
            _say(check=name, value=value, problem=problem)


if __name__ == "__main__":
    main()
