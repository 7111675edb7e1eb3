"""Ray Data: corpora beyond one machine, with one compiled encoder a worker.

    import ray
    from bertflow_jax.integrations.ray_data import EncoderSpec, embed_dataset

    texts = ray.data.read_parquet("corpus/")
    vectors = embed_dataset(texts, EncoderSpec(workdir="/shared/runs/mine"), column="text")
    vectors.write_parquet("vectors/")

The command `python -m bertflow_jax.integrations.ray_data` does that for files, one output file an
input file, and goes on where it was interrupted. Both need ray (the extra `ray`).
"""

# Before the imports, which take seconds: a wrong flag is reported and Ctrl-C heeded without them.
if __name__ == "__main__":
    from bertflow_jax.interrupt import end_at_once

    end_at_once()

    from absl import flags

    from bertflow_jax import cli
    from bertflow_jax.integrations import ray_flags

    # --help shows the docstring of this module and the flags it has adopted.
    __doc__ = ray_flags.__doc__
    flags.adopt_module_key_flags(ray_flags)
    cli.run(ray_flags.main)

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

from bertflow_jax.checks import check_choice, check_count, check_switch
from bertflow_jax.encoder_spec import EncoderSpec
from bertflow_jax.errors import ConfigError, MissingPackageError, shown
from bertflow_jax.integrations.ray_worker import (
    EmbedSettings,
    EmbedTable,
    worker_environment,
)

__all__ = ["EncoderSpec", "Workers", "embed_dataset", "import_ray"]
ROWS = 4096  # of a batch, unless told otherwise: the encoder fills its compiled shapes well
OVERFLOW = ("warn", "error", "ignore")
_RETRIES = 5  # of the same rows: what kills its worker so often is no bad luck


@dataclasses.dataclass(frozen=True)
class Workers:
    """How many workers hold an encoder, and what Ray reserves for each.

    Attributes:
      concurrency: so many, or (least, most); None lets Ray start from 1 as many as it has room for.
      num_cpus: of a worker, which has as many threads.
      num_gpus: of a worker; a part of 1 shares a card.
      resources: others, as {"TPU": 4} for the four chips of a host.
    """

    concurrency: int | tuple[int, int] | None = None
    num_cpus: float = 1
    num_gpus: float = 0
    resources: Mapping[str, float] | None = None

    def check(self) -> None:
        """Raise a BertFlowError for what cannot be."""
        for name in ("num_cpus", "num_gpus"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ConfigError(f"{name}={shown(value)}: must be a number >= 0")
        if self.num_gpus and (self.resources or {}).get("TPU"):
            raise ConfigError("a worker computes on GPUs or on TPUs: leave one of the two out")
        bounds = self.concurrency
        if bounds is None:
            return
        if not isinstance(bounds, tuple):
            check_count(bounds, "concurrency", 1)
        elif len(bounds) != 2 or check_count(bounds[0], "concurrency", 1) > check_count(
            bounds[1], "concurrency", 1
        ):
            raise ConfigError(f"concurrency={shown(bounds)}: must be a number, or (least, most)")

    def environment(self) -> dict[str, str]:
        """Return the environment variables of a worker."""
        return worker_environment(self.num_cpus, self.num_gpus, self.resources)


def embed_dataset(
    dataset: Any,
    encoder: EncoderSpec | str,
    *,
    column: str = "text",
    output_column: str = "embedding",
    rows_per_batch: int = ROWS,
    batch_size: int | None = None,
    normalize: bool = False,
    on_overflow: str = "warn",
    concurrency: int | tuple[int, int] | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
    resources: Mapping[str, float] | None = None,
) -> Any:
    """Add the vectors of a column of texts to a Ray dataset.

    A worker loads the encoder once, computes on the devices that Ray reserves for it and nowhere
    else, and keeps compiled programs in the user's cache folder for the next one. A worker that
    dies is replaced and its rows are computed again; the dataset has every row once. As ever with
    Ray, rows keep their order only with `DataContext.execution_options.preserve_order`.

    Args:
      dataset: a ray.data.Dataset.
      encoder: what the workers load; a str is the folder, Hub id or `mini_bert` of an encoder
        without a flow. Its files must be visible to every machine of the cluster.
      column: of the texts.
      output_column: of the vectors; the other columns stay as they are.
      rows_per_batch: rows that a worker embeds in one go.
      batch_size: of the device calls; see `SentenceEncoder.encode`.
      normalize: scale every vector to length 1.
      on_overflow: texts above max_length are cut; `warn` says so once a worker.
      concurrency: see `Workers`, as the three below.
      num_cpus: of a worker.
      num_gpus: of a worker.
      resources: of a worker.

    Returns:
      A ray.data.Dataset with one more column, fixed-size lists float32[E]; lazy, as all of Ray's.

    Raises:
      ConfigError: arguments that cannot be. What only the workers find (no such file, a row that
        is no str) is raised when the dataset is used, as an error that is both ours and Ray's; for
        that, `raise_original_map_exception` is set in the dataset's context.
      MissingPackageError: without ray.
    """
    spec = EncoderSpec(encoder=encoder) if isinstance(encoder, str) else encoder
    workers = Workers(concurrency, num_cpus, num_gpus, resources)
    workers.check()
    settings = EmbedSettings(
        column,
        output_column,
        batch_size,
        check_switch(normalize, "normalize"),
        on_overflow,
        workers.environment(),
    )
    embedded = map_encoder(dataset, EmbedTable, spec, settings, workers, rows_per_batch)
    # By itself Ray raises a class of its own, which no `except BertFlowError` has.
    embedded.context.raise_original_map_exception = True
    return embedded


def map_encoder(
    dataset: Any,
    kind: type[EmbedTable],
    spec: EncoderSpec,
    settings: EmbedSettings,
    workers: Workers,
    rows_per_batch: int,
) -> Any:
    """Return the dataset mapped by a pool of workers, each with an object of a class."""
    ray = import_ray()
    spec.check()
    check_choice("on_overflow", settings.on_overflow, OVERFLOW)
    if settings.batch_size is not None:
        check_count(settings.batch_size, "batch_size", 1)
    bounds = workers.concurrency
    if isinstance(bounds, tuple):
        pool = ray.data.ActorPoolStrategy(min_size=bounds[0], max_size=bounds[1])
    else:
        pool = ray.data.ActorPoolStrategy(size=bounds)
    with warnings.catch_warnings():
        # Ray Data's own default repeats a batch that kills its worker without end.
        warnings.filterwarnings("ignore", message=".*ray_remote_args.*")
        return dataset.map_batches(
            kind,
            fn_constructor_args=(spec.absolute(), settings),
            compute=pool,
            batch_size=check_count(rows_per_batch, "rows_per_batch", 1),
            batch_format="pyarrow",
            zero_copy_batch=True,
            udf_modifying_row_count=False,
            num_cpus=workers.num_cpus,
            num_gpus=workers.num_gpus or None,
            resources=dict(workers.resources) if workers.resources else None,
            max_task_retries=_RETRIES,
        )


def import_ray() -> Any:
    """Return the package with ray.data; raises MissingPackageError where it is not installed."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingPackageError(
            f"this needs Ray Data ({error}): pip install 'ray[data]>=2.60,<2.64' (the extra ray)"
        ) from error
    return ray
