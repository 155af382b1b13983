"""The losses of the papers' tables, by short name."""

from collections.abc import Mapping
from types import MappingProxyType

from focalibrate._check import check_choice

SMOOTHING_OF_000 = 0.1
"""Label smoothing in paper 000."""
SMOOTHING_ELSEWHERE = 0.05
"""Label smoothing in the other papers."""
MMCE_WEIGHT_IMAGES, MMCE_WEIGHT_TEXT = 2.0, 8.0
"""Weight of the MMCE penalty in paper 002."""

LOSSES: Mapping[str, str] = MappingProxyType(
    {
        "ce": "CE",
        "ls": "LS",
        "brier": "Brier",
        "mmce": "MMCE",
        "fl1": "FL-1",
        "fl2": "FL-2",
        "fl3": "FL-3",
        "fl5": "FL-5",
        "fl7": "FL-7",
        "fls531": "FLS-531",
        "fls532": "FLS-532",
        "flsd532": "FLSD-532",
        "flsd53": "FLSD-53",
        "adafocal": "AdaFocal",
    }
)
"""Label of each loss in a table."""


def loss_settings(
    name: str,
    *,
    label_smoothing: float = SMOOTHING_ELSEWHERE,
    mmce_weight: float = MMCE_WEIGHT_IMAGES,
) -> dict[str, float | str]:
    """Return the fields of a `focalibrate_papers.train.Recipe` that choose the loss `name`.

    Args:
        name: a key of `LOSSES`.
        label_smoothing: of ``"ls"``, cross-entropy with smoothed labels. The papers differ: 0.1
            in paper 000, 0.05 elsewhere.
        mmce_weight: of ``"mmce"``: 2 for images, 8 for text.

    Example:
        >>> loss_settings("fl3"), loss_settings("flsd53"), loss_settings("ls", label_smoothing=0.1)
        ({'gamma': 3.0}, {'gamma': 'flsd-53'}, {'label_smoothing': 0.1})
    """
    check_choice(name, LOSSES, name="name")
    special: dict[str, dict[str, float | str]] = {
        "ce": {},
        "ls": {"label_smoothing": label_smoothing},
        "brier": {"loss": "brier"},
        "mmce": {"loss": "mmce", "mmce_weight": mmce_weight},
        "adafocal": {"gamma": "adafocal"},
    }
    if name in special:
        return special[name]
    kind = name.rstrip("0123456789")
    digits = name.removeprefix(kind)
    return {"gamma": float(digits) if kind == "fl" else f"{kind}-{digits}"}
