"""What a job on Ray is: its input, its output, its settings, and which of them cannot be."""

import dataclasses
from typing import Any

from bertflow_jax.checks import check_choice, check_count
from bertflow_jax.data.columns import shown
from bertflow_jax.encoder_spec import EncoderSpec
from bertflow_jax.errors import ConfigError, DataError
from bertflow_jax.errors import shown as shown_value
from bertflow_jax.integrations.ray_data import OVERFLOW, ROWS, Workers
from bertflow_jax.integrations.ray_inputs import InputFile, Place, split_glob
from bertflow_jax.integrations.ray_stages import HIDDEN


@dataclasses.dataclass(frozen=True)
class RayJob:
    """What to embed, with what, and where to.

    Attributes:
      input: folder, glob or file; a path or SCHEME://...
      output: folder, likewise.
      spec: the encoder.
      column: of the texts.
      id_column: the one column that is kept beside the vectors; "" keeps all.
      output_column: of the vectors.
      rows_per_batch: rows that a worker embeds in one go, and at most loses when it dies.
      batch_size: see `SentenceEncoder.encode`.
      normalize: scale every vector to length 1.
      on_overflow: see `SentenceEncoder.encode`.
      workers: how many, and what each has.
      address: see `ray_cluster.cluster`.
    """

    input: str
    output: str
    spec: EncoderSpec
    column: str = "text"
    id_column: str = ""
    output_column: str = "embedding"
    rows_per_batch: int = ROWS
    batch_size: int | None = None
    normalize: bool = False
    on_overflow: str = "warn"
    workers: Workers = dataclasses.field(default_factory=Workers)
    address: str = ""

    def check(self) -> None:
        """Raise a BertFlowError before anything is loaded."""
        for name, kind in (("spec", EncoderSpec), ("workers", Workers)):
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(
                    f"{name}={shown_value(getattr(self, name))}: must be of type {kind.__name__}"
                )
            getattr(self, name).check()
        check_choice("on_overflow", self.on_overflow, OVERFLOW)
        check_count(self.rows_per_batch, "rows_per_batch", 1)
        for name in ("column", "output_column"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name).strip():
                raise ConfigError(f"--{name} is blank; name a column")

    def kept(self, schema: Any) -> list[str]:
        """Return the names of the columns beside the vectors.

        Raises:
          DataError: a column is not there, is no text, or has a name that is taken.
        """
        import pyarrow

        names = schema.names
        for name in [self.column, *([self.id_column] if self.id_column else [])]:
            if names.count(name) != 1:
                raise DataError(
                    f"{self.input}: {names.count(name) or 'no'} columns are named {name!r} "
                    f"({shown(names)}); set --column and --id_column to others"
                )
        kind = schema.field(self.column).type
        inner = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
        if not any(
            test(inner)
            for test in (
                pyarrow.types.is_string,
                pyarrow.types.is_large_string,
                pyarrow.types.is_string_view,
            )
        ):
            raise DataError(
                f"{self.input}: column {self.column!r} holds {kind}, not text; set --column"
            )
        kept = [self.id_column] if self.id_column else list(names)
        taken = [name for name in (self.output_column, *HIDDEN) if name in (*kept, self.column)]
        if taken or len(set(kept)) != len(kept):
            name = taken[0] if taken else next(n for n in kept if kept.count(n) > 1)
            raise DataError(
                f"{self.input}: the column {name!r} is there already; set --output_column to "
                "another name, or --id_column to keep one column alone"
            )
        return kept


def check_apart(source: Place, target: Place, files: list[InputFile]) -> None:
    """Raise ConfigError where outputs would be inputs of the next run, or overwrite them."""
    if source.filesystem != target.filesystem:
        return
    root, rest = split_glob(source.path)
    if (not rest or "**" in rest) and f"{target.path}/".startswith(f"{root}/"):
        raise ConfigError(
            f"--output={target.given} lies in --input={source.given}: the next run would take the "
            "vectors for texts; name another folder"
        )
    inside = next((file for file in files if file.path.startswith(f"{target.path}/")), None)
    if inside is not None:
        raise ConfigError(
            f"--output={target.given} is the folder of the input {inside.path}; name another one"
        )
