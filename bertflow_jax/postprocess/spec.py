"""Post-processors by name, as `evaluate.py --rows` takes them.

center                 standardize
natsv:K                removes the K largest directions (1 without :K)
whitening[:K[:ALPHA]]  K directions (all: every one), eigenvalues to the power -ALPHA / 2
zca[:K[:ALPHA]]        the same, rotated back
block_mean:K   truncate:K   pca:K
flow                   a Glow fitted by maximum likelihood
a+b                    first a, then b, as in standardize+natsv:6
"""

from collections.abc import Callable, Hashable, Mapping

from bertflow_jax.errors import BertFlowError, ConfigError
from bertflow_jax.postprocess.base import PostProcessor
from bertflow_jax.postprocess.compose import Compose
from bertflow_jax.postprocess.reduce import Reduce
from bertflow_jax.postprocess.standardize import Center, Standardize
from bertflow_jax.postprocess.whitening import NATSV, Whitening

RAW = "raw"


def make_postprocessor(spec: str, flow: Callable[[], PostProcessor]) -> PostProcessor:
    """Return an unfitted post-processor.

    Args:
      spec: see the module's docstring.
      flow: makes what `flow` means.

    Raises:
      ConfigError: an unknown name or an impossible argument; the text lists the names.
    """
    steps = [_one(part.strip(), spec, flow) for part in spec.split("+")]
    return steps[0] if len(steps) == 1 else Compose(steps)


def check_different(made: Mapping[str, PostProcessor]) -> None:
    """Raise ConfigError where two specs mean the same, as `whitening:4` and `whitening:004:1`.

    Args:
      made: spec -> what `make_postprocessor` made of it.
    """
    seen: dict[Hashable, str] = {}
    for spec, processor in made.items():
        meant = _meaning(processor)
        if meant in seen:
            raise ConfigError(
                f"--rows={','.join(made)}: {seen[meant]} and {spec} are the same row; name it once"
            )
        seen[meant] = spec


def _meaning(processor: PostProcessor) -> Hashable:
    if isinstance(processor, Compose):
        return tuple(_meaning(step) for step in processor.steps)
    kind = type(processor).__name__
    # Of one evaluation all flows have the same settings.
    own = {} if kind == "Flow" else processor.get_params(deep=False)
    return kind, tuple(sorted(own.items()))


def has_flow(spec: str) -> bool:
    """Return whether a seed changes what the spec gives."""
    return "flow" in (part.strip() for part in spec.split("+"))


def _one(part: str, spec: str, flow: Callable[[], PostProcessor]) -> PostProcessor:
    name, *given = part.split(":")
    arguments = [_number(text, spec) for text in given]
    makers: dict[str, tuple[Callable[..., PostProcessor], int]] = {
        "center": (Center, 0),
        "standardize": (Standardize, 0),
        "natsv": (NATSV, 1),
        "whitening": (Whitening, 2),
        "zca": (lambda k=None, alpha=1.0: Whitening(k, alpha, "zca"), 2),
        "block_mean": (lambda k: Reduce(k, "block_mean"), 1),
        "truncate": (lambda k: Reduce(k, "truncate"), 1),
        "pca": (lambda k: Reduce(k, "pca"), 1),
        "flow": (flow, 0),
    }
    if name not in makers:
        raise ConfigError(f"row {spec!r}: no post-processor {name!r}; known: {', '.join(makers)}")
    make, most = makers[name]
    if len(arguments) > most or (name in ("block_mean", "truncate", "pca") and not arguments):
        raise ConfigError(f"row {spec!r}: {name} takes {most} number(s) after colons")
    try:
        return make(*arguments)
    except BertFlowError as error:
        alpha = name in ("whitening", "zca") and isinstance(arguments[0], float)
        hint = (
            f"; for an exponent with every direction write {name}:all:{given[0]}" if alpha else ""
        )
        raise ConfigError(f"row {spec!r}: {error}{hint}") from error


def _number(text: str, spec: str) -> int | float | None:
    if text == "all":
        return None
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise ConfigError(f"row {spec!r}: {text!r} is not a number (or `all`)") from None
