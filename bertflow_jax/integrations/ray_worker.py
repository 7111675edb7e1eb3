"""What runs in a Ray worker: one encoder, loaded once, tables in and tables with vectors out.

JAX reads what it may use (threads, memory, devices) from the environment when it starts, so a
worker sets that before it imports JAX, and this module imports neither JAX nor Ray at its top.
"""

import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bertflow_jax.data.texts import tell_of_empty
from bertflow_jax.encoder_spec import EncoderSpec
from bertflow_jax.errors import BertFlowError, ConfigError, DataError, InputError

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder

_log = logging.getLogger(__name__)
# Whole hosts, by chips: the default would be the slice, where every host waits for all the others.
# What Ray itself sets for one or two chips of a host has the same names.
_CHIP_BOUNDS = {4: "2,2,1", 8: "2,4,1"}
_MEMORY_FRACTION = 0.75  # of a card, what JAX takes by default


def worker_environment(
    num_cpus: float, num_gpus: float, resources: Mapping[str, float] | None
) -> dict[str, str]:
    """Return the environment variables that bind JAX to what Ray has reserved for a worker.

    Args:
      num_cpus: threads of XLA and of the tokenizer; below 1 counts as 1.
      num_gpus: cards; of part of a card, JAX takes that part of its memory.
      resources: "TPU" is the number of chips.
    """
    threads = str(max(1, int(num_cpus)))
    found = {"NPROC": threads, "RAYON_NUM_THREADS": threads, "JAX_PLATFORMS": "cpu"}
    chips = (resources or {}).get("TPU", 0)
    if chips:
        found["JAX_PLATFORMS"] = "tpu,cpu"
        if (bounds := _CHIP_BOUNDS.get(int(chips))) is not None:
            found |= {"TPU_CHIPS_PER_HOST_BOUNDS": bounds, "TPU_HOST_BOUNDS": "1,1,1"}
    elif num_gpus:
        found["JAX_PLATFORMS"] = "cuda,cpu"
        if num_gpus < 1:
            found["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{_MEMORY_FRACTION * num_gpus:.3f}"
    return found


def load_in_worker(spec: EncoderSpec, environment: Mapping[str, str]) -> "SentenceEncoder":
    """Set the environment, then load; raises ConfigError where the devices are not there."""
    os.environ.update(environment)
    import jax

    platforms = environment["JAX_PLATFORMS"]
    # In a process that has imported JAX before, the variable is read no more.
    jax.config.update("jax_platforms", platforms)
    try:
        found = jax.default_backend()
    except RuntimeError as error:
        raise ConfigError(
            f"a worker on {os.uname().nodename} finds no {platforms.partition(',')[0]} device: "
            f"{error}; install JAX for it on that machine"
        ) from error
    wanted = platforms.partition(",")[0].replace("cuda", "gpu")
    if found != wanted:
        raise ConfigError(
            f"a worker on {os.uname().nodename} was to use a {wanted}, but JAX has started on a "
            f"{found} in that process before; give the encoder workers of their own"
        )
    return spec.load()


@dataclasses.dataclass(frozen=True)
class EmbedSettings:
    """How a table gets its vectors.

    Attributes:
      column: of the texts.
      output_column: of the vectors.
      batch_size: see `SentenceEncoder.encode`.
      normalize: scale every vector to length 1.
      on_overflow: see `SentenceEncoder.encode`; `warn` says so once a worker.
      environment: of `worker_environment`.
      encoder: `describe` of the encoder that the job began with; None where nobody has looked.
    """

    column: str
    output_column: str
    batch_size: int | None
    normalize: bool
    on_overflow: str
    environment: Mapping[str, str]
    encoder: Mapping[str, Any] | None = None


class Embedded(NamedTuple):
    """What became of a table.

    Attributes:
      vectors: float32[N, E].
      cut: texts that were longer than max_length.
      empty: texts that are empty or white space alone.
    """

    vectors: np.ndarray
    cut: int
    empty: int


class EmbedTable:
    """The class that `map_batches` makes one object of in every worker."""

    def __init__(self, spec: EncoderSpec, settings: EmbedSettings):
        """Load the encoder.

        What keeps it from loading is raised by the first call: raised here, it would reach the
        caller as the death of a worker, without the error itself.
        """
        self._settings = settings
        self._warned = self._told_of_empty = False
        self._failed: BertFlowError | None = None
        try:
            self._encoder = load_in_worker(spec, settings.environment)
            if settings.encoder is not None:
                _check_same(settings.encoder, self._encoder.describe())
        except BertFlowError as error:
            self._failed = error

    def __call__(self, table: Any) -> Any:
        """Return a pyarrow.Table with the vectors as one more column, float32[E] a row.

        Raises:
          DataError: no such column, one of that name already, a row that is not a str.
          InputError: see `SentenceEncoder.encode`.
        """
        vectors, cut, empty = self.embed(table)
        if empty and not self._told_of_empty:
            self._told_of_empty = True
            place = f"column {self._settings.column!r} (this worker tells it once)"
            tell_of_empty(place, empty=empty, total=len(vectors))
        if cut and not self._warned and self._settings.on_overflow == "warn":
            self._warned = True
            _log.warning(
                "%d of %d texts are longer than max_length=%d tokens and were cut; this worker "
                "tells it once",
                cut,
                len(vectors),
                self._encoder.encoder.tokenizer.max_length,
            )
        return with_vectors(table, vectors, self._settings.output_column)

    def embed(self, table: Any) -> Embedded:
        """Return the vectors of a table's texts; errors as `__call__`."""
        if self._failed is not None:
            raise self._failed
        texts = self._texts(table)
        before = self._encoder.cut_texts
        on_overflow = "error" if self._settings.on_overflow == "error" else "ignore"
        try:
            windows = self._encoder.encode_stream(
                texts,
                self._settings.batch_size,
                self._settings.normalize,
                on_overflow=on_overflow,
                window=max(1, len(texts)),
            )
            parts = list(windows)
        except InputError as error:
            raise self.placed(table, error) from error
        if not parts:
            return Embedded(np.zeros((0, self._encoder.dimension), np.float32), 0, 0)
        empty = sum(not text.strip() for text in texts)
        return Embedded(parts[0], self._encoder.cut_texts - before, empty)

    def placed(self, table: Any, error: InputError) -> BertFlowError:
        """Return the error of a table's rows with a word on where they are from."""
        return InputError(f"a batch of {table.num_rows} rows, counted from 0 in it: {error}")

    def _texts(self, table: Any) -> list[Any]:
        column, new = self._settings.column, self._settings.output_column
        if table.column_names.count(column) != 1:
            raise DataError(
                f"no column {column!r} of texts among {', '.join(map(repr, table.column_names))}; "
                "set column to that of the texts"
            )
        if new in table.column_names:
            raise DataError(f"there is a column {new!r} already; set output_column to another name")
        try:
            return table.column(column).to_pylist()
        except UnicodeDecodeError as error:
            raise DataError(f"column {column!r} holds bytes that are not UTF-8") from error


def with_vectors(table: Any, vectors: np.ndarray, name: str) -> Any:
    """Return a pyarrow.Table with float32[N, E] as a column of lists of fixed size, not copied."""
    import pyarrow

    values = pyarrow.array(vectors.reshape(-1))
    column = pyarrow.FixedSizeListArray.from_arrays(values, vectors.shape[1])
    return table.append_column(pyarrow.field(name, column.type), column)


def _check_same(began: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise InputError where a worker has another encoder than the others, or the manifest.

    Workers load when they are started, which Ray does late and again: meanwhile a run may have
    gone on, a branch of the Hub moved, or a folder been replaced.
    """
    names = [name for name in sorted({*began, *found}) if began.get(name) != found.get(name)]
    if names:
        raise InputError(
            f"a worker has loaded another encoder than the job began with (other: "
            f"{', '.join(names)}): leave its files as they are, name the --step of a run that goes "
            "on or the --revision of a Hub id, and start the job again"
        )


def describe(spec: EncoderSpec) -> dict[str, Any]:
    """Return what decides the vectors, and their length, in a process that ends afterwards."""
    encoder = load_in_worker(spec, worker_environment(1, 0, None))
    return {"encoder": encoder.describe(), "dimension": encoder.dimension}
