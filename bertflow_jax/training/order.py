"""Which examples a step sees: a pure function of seed and step.

The examples form an endless stream of shuffled epochs; step t takes positions t B ... t B + B - 1.
Nothing is dropped at the end of an epoch, a resumed run sees what an uninterrupted one would, and
the number of devices changes nothing.
"""

import functools

import numpy as np


class ExampleOrder:
    """The order of `num_examples` examples in batches of `batch_size`.

    Attributes:
      num_examples: N.
      batch_size: B.
      seed: of the shuffles.
    """

    def __init__(self, num_examples: int, batch_size: int, seed: int):
        self.num_examples = num_examples
        self.batch_size = batch_size
        self.seed = seed
        self._epoch = functools.lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self.seed, epoch]).permutation(self.num_examples)

    def batches(self, first_step: int, count: int) -> np.ndarray:
        """Return the example numbers of `count` steps, int32[count, B]."""
        start = first_step * self.batch_size
        stop = start + count * self.batch_size
        epochs = range(start // self.num_examples, -(-stop // self.num_examples))
        stream = np.concatenate([self._epoch(epoch) for epoch in epochs])
        offset = start - epochs.start * self.num_examples
        taken = stream[offset : offset + stop - start]
        return taken.reshape(count, self.batch_size).astype(np.int32)

    def steps_for(self, epochs: float) -> int:
        """Return the steps of so many passes, at least one; a started batch does not count."""
        return max(1, int(epochs * self.num_examples / self.batch_size + 1e-9))
