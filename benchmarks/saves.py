"""How much of a save is hidden: seconds until `save` returns, and until the step is complete.

    python -m benchmarks.saves [--features=384,1024] [--repeats=5]

The arrays are those of a fit with the default flow and its optimiser. Prints the median and range.
"""

import argparse
import statistics
import tempfile
import time

import jax

from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.config import Config
from bertflow_jax.training.fit import blank_state


def measure(features: int, repeats: int) -> None:
    """Print the two times for a flow over so many features."""
    state = blank_state(Config(), features)
    arrays = {"flow": state.variables, "optimizer": state.opt_state}
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(arrays))
    returned, complete = [], []
    with tempfile.TemporaryDirectory(prefix="bertflow-saves-") as folder:
        store = CheckpointStore(folder, keep=2)
        for step in range(repeats + 1):
            started = time.perf_counter()
            store.save(arrays, Records({"step": step}, {}, {}, {}))
            returned.append(time.perf_counter() - started)
            store.wait()
            complete.append(time.perf_counter() - started)
    texts = [
        f"{statistics.median(times):.3f} s ({min(times):.3f} to {max(times):.3f})"
        for times in (returned[1:], complete[1:])  # the first one imports and compiles
    ]
    print(
        f"D = {features}, {size / 1e6:.1f} MB: returns after {texts[0]}, complete after {texts[1]}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--features", default="384,1024", help="dimensions D of the flow; default: %(default)s"
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="saves that are timed; default: %(default)s"
    )
    options = parser.parse_args()
    for features in options.features.split(","):
        measure(int(features), options.repeats)


if __name__ == "__main__":
    main()
