"""The generator behind a seed."""

import numpy as np

_STREAM = 0xCA11B


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """Return `seed` if it is a generator, else a generator of a stream of our own.

    Users often simulate data with ``default_rng(0)``: outcomes drawn from the same random
    numbers would not be independent of those data.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng([seed, _STREAM])
