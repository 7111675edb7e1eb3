"""A post-processor fitted to a file of vectors."""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bertflow_jax.config import Config, FlowConfig, TrainConfig
from bertflow_jax.errors import ConfigError, DataError, InputError
from bertflow_jax.output_locks import LOCK, refuse_foreign_lock, sole_writer
from bertflow_jax.paths import user_path
from bertflow_jax.postprocess.vector_files import NpyVectors, VectorFile, open_vectors
from bertflow_jax.progress import progress_bar
from bertflow_jax.workdir import folder_to_save

if TYPE_CHECKING:
    from bertflow_jax.postprocess.affine import AffineProcessor
    from bertflow_jax.postprocess.flow import Flow

_log = logging.getLogger(__name__)
_SAMPLE = 2_000  # rows whose random pairs tell how isotropic the vectors are
_LARGE = 2**30  # bytes of a table worth a word
FLOW_SETTINGS = ("levels", "depth", "width", "coupling", "permutation", "activation", "dropout")
TRAIN_SETTINGS = ("steps", "epochs", "batch_size", "learning_rate")
# Method -> the settings that it has.
METHODS: dict[str, tuple[str, ...]] = {
    "center": (),
    "standardize": (),
    "natsv": ("k",),
    "whitening": ("k", "alpha", "kind"),
    "reduce": ("k", "how"),
    "flow": ("seed", "actnorm_init", *FLOW_SETTINGS, *TRAIN_SETTINGS),
}


@dataclasses.dataclass(frozen=True)
class FitOptions:
    """What to fit to what.

    Attributes:
      method: of `METHODS`.
      input: .npy, .parquet or a folder of parts.
      output: folder of the fitted post-processor.
      column: of the vectors in a .parquet input; "" finds it.
      settings: of the method, by name; what is left out has the default of its class.
    """

    method: str
    input: str
    output: str
    column: str = ""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    def check(self) -> None:
        """Raise ConfigError, before anything is loaded, for settings of another method."""
        if self.method not in METHODS:
            raise ConfigError(f"--method={self.method}: must be one of {', '.join(METHODS)}")
        for name in self.settings:
            if name not in METHODS[self.method]:
                having = [method for method, names in METHODS.items() if name in names]
                raise ConfigError(f"--{name} goes with --method={' or '.join(having) or '(none)'}")
        if self.method == "reduce" and "k" not in self.settings:
            raise ConfigError("--method=reduce needs --k, the dimensions that are kept")
        if self.method == "flow":
            flow, train, seed = self._flow()
            Config(seed=seed, flow=flow, train=train).validate()

    def _flow(self) -> tuple[FlowConfig, TrainConfig, int]:
        given = self.settings
        flow = {name: given[name] for name in (*FLOW_SETTINGS, "actnorm_init") if name in given}
        train = {name: given[name] for name in TRAIN_SETTINGS if name in given}
        return FlowConfig(**flow), TrainConfig(**train), given.get("seed", 0)

    def make(self) -> "AffineProcessor | Flow":
        """Return the unfitted post-processor; loads JAX."""
        from bertflow_jax.postprocess.flow import Flow
        from bertflow_jax.postprocess.kinds import AFFINE

        if self.method != "flow":
            return AFFINE[self.method](**self.settings)
        flow, train, seed = self._flow()
        return Flow(flow, seed, train)


@dataclasses.dataclass(frozen=True)
class Fitted:
    """What was fitted.

    Attributes:
      processor: the fitted post-processor, which is saved.
      rows: N.
      features: D.
      seconds: that the fit took, reading included.
      cosine_before: mean cosine of random pairs of a sample, None for one row.
      cosine_after: the same of the mapped ones.
      sampled: rows of the sample.
    """

    processor: "AffineProcessor | Flow"
    rows: int
    features: int
    seconds: float
    cosine_before: float | None
    cosine_after: float | None
    sampled: int


def run_fit_files(options: FitOptions, *, progress: bool = False) -> Fitted:
    """Fit to a file of vectors and save.

    All but the flow are fitted in one pass in flat memory. The flow's fit keeps float32[N, D] in
    memory, several times over.

    Raises:
      BertFlowError: before anything is computed for flags, an input or an output that cannot be;
        a bad row, with file and row; as the method's `fit`.
    """
    options.check()
    vectors = open_vectors(user_path(options.input, "--input"), options.column)
    output = folder_to_save(options.output)
    if any(file.parent.resolve() == output.resolve() for file in vectors.files[1:]):
        raise ConfigError(
            f"--output={options.output} is the folder of the parts that are read; name another"
        )
    refuse_foreign_lock(output / LOCK, f"--output={options.output}")
    # Imported here so that a wrong flag is reported without the seconds that loading JAX takes.
    from bertflow_jax.evaluation.metrics import mean_random_cosine
    from bertflow_jax.postprocess.flow import Flow
    from bertflow_jax.postprocess.storage import described_in, refuse_links

    refuse_links(output, f"--output={options.output}")
    with sole_writer(output / LOCK, f"--output={options.output}"):
        if found := described_in(output):
            _log.warning("%s holds a saved %s, which will be replaced", output, found)
        processor, sample = options.make(), _Sample(vectors.rows)
        started = time.perf_counter()
        if isinstance(processor, Flow):
            processor.fit(_table(vectors, sample, progress), progress=progress)
        else:
            with _bar(vectors, "fit", progress) as bar:
                processor.fit_batches(_batches(vectors, sample, bar))
        seconds = time.perf_counter() - started
        rows = sample.rows()
        # Before it is saved: what cannot map the rows of its own fit is of no use.
        mapped = sample.mapped(processor.transform, vectors.path)
        processor.save(output)
    return Fitted(
        processor,
        vectors.rows,
        vectors.features,
        seconds,
        mean_random_cosine(rows),
        mean_random_cosine(mapped),
        len(rows),
    )


class _Sample:
    """Some rows of blocks that pass by, the same ones for the same N."""

    def __init__(self, total: int):
        rng = np.random.default_rng(0)
        self._wanted = np.sort(rng.choice(total, min(total, _SAMPLE), replace=False))
        self._kept: list[NDArray[Any]] = []

    def take(self, first: int, rows: NDArray[Any]) -> None:
        """Keep those of rows `first` and on that are of the sample."""
        inside = (self._wanted >= first) & (self._wanted < first + len(rows))
        self._kept.append(rows[self._wanted[inside] - first])

    def rows(self) -> NDArray[Any]:
        """Return what was kept, float[n, D]."""
        return np.concatenate(self._kept)

    def mapped(
        self, transform: Callable[[NDArray[Any]], NDArray[np.float32]], path: Path
    ) -> NDArray[np.float32]:
        """Return what was kept, mapped; raises DataError naming a row that cannot be."""
        rows = self.rows()
        try:
            return transform(rows)
        except InputError:
            for number, row in zip(self._wanted, rows, strict=True):
                try:
                    transform(row[None])
                except InputError as error:
                    said = str(error).removeprefix("row 0: ")
                    raise DataError(f"{path}, row {number}: {said}") from error
            raise


def _bar(vectors: VectorFile, what: str, progress: bool) -> tqdm:
    return progress_bar(total=vectors.rows, unit="vector", desc=what, disable=not progress)


def _batches(vectors: VectorFile, sample: _Sample, bar: tqdm) -> Iterator[NDArray[Any]]:
    for block in vectors.blocks():
        sample.take(block.first, block.vectors)
        yield block.vectors
        bar.update(len(block.vectors))


def _table(vectors: VectorFile, sample: _Sample, progress: bool) -> NDArray[np.float32]:
    """Return all vectors as float32[N, D]: mapped from the file where it holds them so."""
    size = 4 * vectors.rows * vectors.features
    if size > _LARGE:
        _log.info(
            "the flow is fitted on all %d vectors in memory, %.1f GB and their copies; on less "
            "memory fit on a part of the rows",
            vectors.rows,
            size / 2**30,
        )
    mapped = vectors.mapped() if isinstance(vectors, NpyVectors) else None
    if mapped is not None and (mapped.dtype != np.float32 or not mapped.flags.c_contiguous):
        mapped = None
    table = np.empty((vectors.rows, vectors.features), np.float32) if mapped is None else mapped
    with _bar(vectors, "read", progress) as bar, np.errstate(over="ignore"):  # `fit` refuses it
        for block in vectors.blocks():
            sample.take(block.first, block.vectors)
            if mapped is None:
                table[block.first : block.first + len(block.vectors)] = block.vectors
            bar.update(len(block.vectors))
    return table
