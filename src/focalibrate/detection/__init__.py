"""Detections: boxes matched to the truth become events, a score and whether it was right."""

from focalibrate.detection.boxes import Boxes, read_detections, read_truth
from focalibrate.detection.matching import (
    MatchedDetections,
    Measure,
    average_precision,
    d_ece,
    la_ece,
    lrp_measures,
    match,
    measures_of,
)

__all__ = [
    "Boxes",
    "MatchedDetections",
    "Measure",
    "average_precision",
    "d_ece",
    "la_ece",
    "lrp_measures",
    "match",
    "measures_of",
    "read_detections",
    "read_truth",
]
