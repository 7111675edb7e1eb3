"""The flags by which a command joins the other processes of a run."""

import importlib.util
import os
import re

from absl import flags

from bertflow_jax.errors import ConfigError

FLAGS = flags.FLAGS

flags.DEFINE_enum(
    "distributed",
    "auto",
    ["auto", "on", "off"],
    "Several processes: on finds the others by itself (Cloud TPU, SLURM, Open MPI), auto does so "
    "on a Cloud TPU alone. Elsewhere give the next three, or set JAX_COORDINATOR_ADDRESS, "
    "JAX_NUM_PROCESSES and JAX_PROCESS_ID.",
)
flags.DEFINE_string("coordinator", "", "HOST:PORT of the first process.")
flags.DEFINE_integer("num_processes", 0, "Processes of the run.")
flags.DEFINE_integer("process_id", -1, "Number of this process, from 0.")


def join(*, apart: bool = False) -> bool:
    """Join the other processes of the run, if it has any; return whether it may have.

    `apart` as in `distributed.initialize`.

    Raises:
      ConfigError: what the flags or JAX's variables say is incomplete, contradicts itself or leads
        nowhere.
    """
    if FLAGS.distributed == "off":
        return False
    coordinator = FLAGS.coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS", "")
    processes = FLAGS.num_processes or _variable("JAX_NUM_PROCESSES", 1, 0)
    process = FLAGS.process_id if FLAGS.process_id >= 0 else _variable("JAX_PROCESS_ID", 0, -1)
    given = bool(coordinator) or processes > 0 or process >= 0
    if not given and FLAGS.distributed == "auto" and not _on_cloud_tpu():
        return False
    # Imported here so that a wrong flag is reported before the seconds that loading JAX takes.
    from bertflow_jax.distributed import initialize

    initialize(coordinator, processes, process, automatic=not given, apart=apart)
    return True


def named() -> bool:
    """Return whether the flags ask for several processes, whatever the surroundings say."""
    return FLAGS.distributed == "on" or bool(FLAGS.coordinator) or FLAGS.num_processes > 0


def _variable(name: str, least: int, missing: int) -> int:
    """Return a whole number from the environment, `missing` where it is not set."""
    text = os.environ.get(name)
    if not text:
        return missing
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) < least:
        raise ConfigError(f"{name}={text}: must be an integer >= {least}")
    return int(text)


def _on_cloud_tpu() -> bool:
    """Whether this is a machine with TPU chips, and JAX would use them."""
    platforms = os.environ.get("JAX_PLATFORMS", "")
    chips = any(os.path.exists(path) for path in ("/dev/accel0", "/dev/vfio/0"))
    wanted = not platforms or "tpu" in platforms.split(",")
    return chips and wanted and importlib.util.find_spec("libtpu") is not None
