"""How a data set is read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from focalibrate.datasets.dataset import Dataset, Kind


@dataclass(frozen=True)
class Source:
    """A data set with a name of its own.

    Attributes:
        kind: of its inputs.
        read: from the directory (None where none is named) and the seed to the whole data set.
        advice: what to download and where to put it.
    """

    kind: Kind
    read: Callable[[Path | None, int], Dataset]
    advice: str
