"""TPU chips as their maker describes them, and slices of them to compile for."""

import dataclasses
import os

import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh

from bertflow_jax.parallel import DATA_AXIS

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
    """A TPU: cloud.google.com/tpu/docs/v5e and /v4, "Key chip specifications".

    Attributes:
      hbm: bytes; the documents say 16 and 32 GB, the compiler counts in GiB.
      bandwidth: of it, bytes a second.
      peak: bfloat16 operations a second.
      units: matrix units of 128 x 128.
      options: of the topology; megacore makes the two cores of a v4 chip one device, as JAX on
        a Cloud TPU does.
    """

    hbm: int
    bandwidth: float
    peak: float
    units: int
    options: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def clock(self) -> float:
        """Cycles a second: a unit does 128 x 128 products and sums in one."""
        return self.peak / (2 * 128 * 128 * self.units)


CHIPS = {
    "v5e": Chip(16 * GIB, 819e9, 197e12, 4),
    "v4": Chip(32 * GIB, 1200e9, 275e12, 8, {"chip_config_name": "megacore"}),
}


def topology_mesh(name: str) -> Mesh:
    """Return a one-axis mesh over the devices of a slice such as `v5e:2x4`."""
    # Without these libtpu asks for the machine that it is on, and reports that it is none.
    os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v4-16")
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # other processes may compile too
    options = CHIPS[name.split(":")[0]].options
    topology = topologies.get_topology_desc(topology_name=name, platform="tpu", **options)
    return Mesh(np.asarray(topology.devices), (DATA_AXIS,))
