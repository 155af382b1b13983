"""An estimate with its confidence interval."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class ConfidenceInterval:
    """An estimate and the interval that holds the true value at `level`."""

    estimate: float
    low: float
    high: float
    level: float = 0.95

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.low > 0.0 or self.high < 0.0

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name, for JSON."""
        return {"estimate": self.estimate, "low": self.low, "high": self.high, "level": self.level}


class NoiseFloor(NamedTuple):
    """What a calibrated model with the same predictions would show."""

    median: float
    q95: float
    """exceeded by 5 % of calibrated models"""
