"""Which dimensions of embeddings do not vary: one rule for the flow, Standardize and Whitening."""

import numpy as np
from numpy.typing import NDArray

# A dimension that varies by less than this share of a typical one counts as constant: scaling it
# up to the size of the others would blow up the first unseen value that differs there.
CONSTANT_SHARE = 1e-3
# float32 rounding of a constant c leaves a deviation of up to about 1e-7 |c|.
ROUNDING = 1e-6


def ordinary_dimensions(
    mean: NDArray[np.float64], deviation: NDArray[np.float64], resolution: float = ROUNDING
) -> tuple[NDArray[np.bool_], float]:
    """Return which dimensions vary, bool[D], and the typical deviation of those.

    A dimension varies where its deviation is above what rounding leaves of its mean and above
    `CONSTANT_SHARE` of the median deviation. The median is over the dimensions above rounding, so
    that neither a crowd of exact constants nor one huge dimension changes what is typical.

    Args:
      mean: float[D].
      deviation: float[D], the population deviation.
      resolution: relative rounding of the numbers; that of float32 embeddings by default.

    Returns:
      (bool[D], median deviation); (all False, 0.0) where no dimension varies.
    """
    rounding = resolution * np.abs(mean)
    above = deviation > rounding
    if not above.any():
        return above, 0.0
    typical = float(np.median(deviation[above]))
    return deviation > np.maximum(rounding, CONSTANT_SHARE * typical), typical
