"""Interleaved timing, and one row of the benchmark table."""

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter


@dataclass(frozen=True, kw_only=True)
class Row:
    """One comparison; smaller is better for both figures and for their ratio.

    Attributes:
        name: what was measured.
        ours: our figure, in `unit`.
        peer_name: what it is compared with.
        peer: their figure, in `unit`.
        ratio: ours / peer.
        bar: the largest ratio that meets the aim, or None if there is no aim.
        unit: of both figures.
        note: what a reader must know to judge the row.
    """

    name: str
    ours: float
    peer_name: str
    peer: float
    ratio: float
    bar: float | None = None
    unit: str = "s"
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the ratio is within the bar; None without a bar."""
        return None if self.bar is None else self.ratio <= self.bar


def interleave(
    functions: Mapping[str, Callable[[], object]], *, rounds: int = 7, warm_ups: int = 1
) -> dict[str, list[float]]:
    """Return the seconds of each function in each round; every round runs all of them.

    A drift of the machine then affects all functions equally, and ratios are computed within a
    round. The order is rotated, so that none always runs first.
    """
    names = list(functions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(warm_ups):
        for function in functions.values():
            function()
    for turn in range(rounds):
        for i in range(len(names)):
            name = names[(turn + i) % len(names)]
            start = perf_counter()
            functions[name]()
            seconds[name].append(perf_counter() - start)
    return seconds


def compare(
    name: str,
    seconds: Mapping[str, list[float]],
    *,
    ours: str,
    peer: str,
    bar: float | None = None,
    note: str = "",
) -> Row:
    """Return the row of `ours` against `peer`: medians, and the median ratio within a round."""
    return Row(
        name=name,
        ours=median(seconds[ours]),
        peer_name=peer,
        peer=median(seconds[peer]),
        ratio=median(a / b for a, b in zip(seconds[ours], seconds[peer], strict=True)),
        bar=bar,
        note=note,
    )


def machine() -> dict[str, object]:
    """Return what ran the code, and its load: processes that wanted a CPU in 1, 5, 15 minutes."""
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }
