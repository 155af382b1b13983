"""What evaluation logs and detections have besides: position bias, detection errors."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate.rows import rank_of
from focalibrate.detection import Measure, measures_of
from focalibrate.io.formats.answers import LETTERS
from focalibrate.metrics.position import PositionBias, position_bias
from focalibrate.pipeline.examples import Examples

WHY = (
    "D-ECE depends on the score that detections are counted from: thousands of boxes near 0 are "
    "almost always wrong, as they say, and make it small. Intervals are by image."
)


@dataclass(frozen=True)
class Besides:
    """Findings that only some data have."""

    measures: tuple[Measure, ...] = ()
    """of detections"""
    bias: PositionBias | None = None
    """of options that are letters"""

    @property
    def lines(self) -> list[str]:
        """The findings in words."""
        found = [_line(measure) for measure in self.measures]
        if self.measures:
            found = [*found, WHY]
        if self.bias is not None:
            found.append(self.bias.summary(LETTERS))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        bias = None
        if self.bias is not None:
            bias = {
                k: v.tolist() if isinstance(v, np.ndarray) else v
                for k, v in asdict(self.bias).items()
            }
        return {"measures": [asdict(one) for one in self.measures], "position_bias": bias}


def _line(measure: Measure) -> str:
    text = f"{measure.name}: {100 * measure.estimate:.2f} %"
    if measure.low is None or measure.high is None:
        return text
    return f"{text} [{100 * measure.low:.2f}, {100 * measure.high:.2f}]"


def besides_of(examples: Examples, probs: NDArray[Any], *, seed: int) -> Besides:
    """Return what the data's format can be asked for, of these probabilities ``[N, K]``."""
    matched = examples.layout.matched
    if matched is not None and len(matched) == len(probs):
        now = replace(matched, confidence=np.asarray(probs[:, 1], np.float64))
        return Besides(tuple(measures_of(now, seed=seed)))
    if not (examples.layout.letters and examples.order is not None):
        return Besides()
    back = np.argsort(examples.order, axis=1)
    shown = np.take_along_axis(probs, back, axis=1)
    right = rank_of(examples.labels, back)
    return Besides(bias=position_bias(shown, right, cluster=examples.cluster))
