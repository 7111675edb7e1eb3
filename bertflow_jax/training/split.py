"""Which examples a flow is fitted on, and which are kept out for the held-out loss."""

import logging

import numpy as np

from bertflow_jax.errors import TrainingError

_log = logging.getLogger(__name__)


def split_examples(
    rows: np.ndarray, held_out: float, seed: int, alike: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the examples to fit on and those kept out, int32[N, S] and int32[M, S], shuffled.

    Args:
      rows: int32[N + M, S], the sentences of every example.
      held_out: share to keep out.
      seed: of the choice.
      alike: int32[U], `data.texts.alike` of the sentences; None where each is its own kind.

    Raises:
      TrainingError: fewer than two different sentences are left.
    """
    shuffled = np.random.default_rng([seed, 2]).permutation(len(rows))
    alone = _share_nothing(rows[shuffled], alike)
    kept_out = _held_out_examples(alone, round(held_out * len(rows)), held_out)
    fitted = rows[shuffled[~kept_out]]
    if kept_out.any() and len(np.unique(fitted)) < 2:
        raise too_few(held_out)
    return fitted, rows[shuffled[kept_out]]


def too_few(held_out: float) -> TrainingError:
    """Return the error of a share that leaves nothing to fit on."""
    return TrainingError(
        f"data.held_out={held_out} leaves fewer than two different sentences to fit on; lower it, "
        "or give more text"
    )


def fitted_count(rows: np.ndarray, held_out: float, alike: np.ndarray | None = None) -> int:
    """Return how many examples `split_examples` leaves to fit on."""
    return len(rows) - min(round(held_out * len(rows)), int(_share_nothing(rows, alike).sum()))


def _share_nothing(rows: np.ndarray, alike: np.ndarray | None) -> np.ndarray:
    """Return which examples have no sentence that is like one of another example, bool[N]."""
    kinds = rows if alike is None else alike[rows]
    return (np.bincount(kinds.reshape(-1))[kinds] == 1).all(axis=1)


def _held_out_examples(alone: np.ndarray, count: int, share: float) -> np.ndarray:
    """Return which examples are kept out, bool[N]: the first ones that are alone.

    A sentence that is also fitted would make the held-out loss one of the fit.
    """
    chosen = np.zeros(len(alone), bool)
    chosen[np.flatnonzero(alone)[:count]] = True
    if share and chosen.sum() < max(count, 1):
        _log.warning(
            "data.held_out=%g: %d example(s) are held out; %d of %d share no sentence with others",
            share,
            chosen.sum(),
            alone.sum(),
            len(alone),
        )
    return chosen
