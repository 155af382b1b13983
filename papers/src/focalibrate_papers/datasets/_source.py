"""Where a data set comes from and how it is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from focalibrate_papers.datasets.dataset import Dataset, InputKind


@dataclass(frozen=True)
class DatasetSource:
    """A named data set.

    Attributes:
        kind: of its inputs.
        read: from the folder of data sets (None if none is named) and the seed to the whole
            data set.
        advice: what to download and where to put it; empty for generated sets, which need no
            files.
        url: page of its authors.
        licence: terms under which its authors provide it.
        checksums: MD5 or SHA-256 of each file to download, as ``"md5:…"`` or ``"sha256:…"``.
            Empty where none is published; the number of examples is checked for every set.
    """

    kind: InputKind
    read: Callable[[Path | None, int], Dataset]
    advice: str = ""
    url: str = ""
    licence: str = ""
    checksums: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_generated(self) -> bool:
        """Whether the set is drawn at random and needs no files."""
        return not self.advice
