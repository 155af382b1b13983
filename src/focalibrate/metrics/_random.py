"""The generator behind a seed."""

import numpy as np

_STREAM = 0xCA11B


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """Return `seed` if it is a generator, else a generator of a stream of our own.

    ``default_rng(0)`` is what people simulate data with: outcomes drawn from the very same
    numbers would not be independent of the predictions they are compared with.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng([seed, _STREAM])
