"""A saved post-processor applied to a file of vectors, in flat memory."""

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bertflow_jax.errors import DataError, InputError
from bertflow_jax.paths import output_path, user_path
from bertflow_jax.postprocess.vector_files import VectorFile, open_vectors
from bertflow_jax.postprocess.vector_output import check_output, vector_writer
from bertflow_jax.progress import progress_bar
from bertflow_jax.unit_rows import unit_rows

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class ApplyOptions:
    """What to apply to what.

    Attributes:
      model: folder of a saved post-processor of any kind.
      input: .npy, .parquet or a folder of parts.
      output: .npy or .parquet.
      column: of the vectors in a .parquet input; "" finds it.
      inverse: apply the inverse, latents to embeddings.
      normalize: scale every vector to length 1 afterwards.
    """

    model: str
    input: str
    output: str
    column: str = ""
    inverse: bool = False
    normalize: bool = False


def run_apply(options: ApplyOptions, *, progress: bool = False) -> tuple[int, int]:
    """Write the mapped vectors; return N and K.

    Raises:
      BertFlowError: before anything is computed for an input, an output or a model that cannot be;
        a row that cannot be mapped, with file and row.
    """
    vectors = open_vectors(user_path(options.input, "--input"), options.column)
    output = output_path(options.output, "--output")
    check_output(output, vectors)
    # Imported here so that a wrong file is reported without the seconds that loading JAX takes.
    from bertflow_jax.postprocess.kinds import load

    model = load(user_path(options.model, "--model"))
    taken, given = model.features, model.latent_features
    if taken is None or given is None:
        raise InputError(f"--model={options.model} is not fitted; fit and save it again")
    if options.inverse:
        taken, given = given, taken
    if vectors.features != taken:
        what = f"the inverse of the {model.name}" if options.inverse else f"the {model.name}"
        raise DataError(
            f"--input={vectors.path} holds vectors of {vectors.features} dimensions, {what} in "
            f"--model={options.model} takes {taken}"
        )
    if output.exists():
        _log.warning("%s is there and will be replaced", output)
    function = model.inverse_transform if options.inverse else model.transform
    _write(vectors, output, function, given, options.normalize, progress)
    return vectors.rows, given


def _write(
    vectors: VectorFile,
    output: Path,
    function: Callable[[np.ndarray], np.ndarray],
    features: int,
    normalize: bool,
    progress: bool,
) -> None:
    bar = progress_bar(total=vectors.rows, unit="vector", desc="apply", disable=not progress)
    with bar, vector_writer(output, vectors, features) as write:
        for block in vectors.blocks():
            try:
                rows = function(block.vectors)
            except InputError as error:
                raise DataError(f"{vectors.path}, from row {block.first} on: {error}") from error
            if normalize:
                rows = unit_rows(rows.astype(np.float64)).astype(np.float32)
            write(block, rows)
            bar.update(len(rows))
