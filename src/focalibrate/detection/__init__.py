"""Detections: boxes matched to the truth become events, a score and whether it was right."""

from focalibrate.detection.boxes import Boxes, read_detections, read_truth
from focalibrate.detection.matching import MatchedDetections, match
from focalibrate.detection.measures import average_precision, d_ece, la_ece, lrp_thresholds

__all__ = [
    "Boxes",
    "MatchedDetections",
    "average_precision",
    "d_ece",
    "la_ece",
    "lrp_thresholds",
    "match",
    "read_detections",
    "read_truth",
]
