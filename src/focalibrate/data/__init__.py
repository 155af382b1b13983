"""Files of predictions: reading with checks, writing whole or not at all."""

from focalibrate.data._error import PredictionFileError
from focalibrate.data.atomic import atomic_path
from focalibrate.data.predictions import (
    Kind,
    Layout,
    Predictions,
    as_logits,
    blocks,
    logit_blocks,
)
from focalibrate.data.read import FORMATS, read_predictions
from focalibrate.data.write import write_probs

__all__ = [
    "FORMATS",
    "Kind",
    "Layout",
    "PredictionFileError",
    "Predictions",
    "as_logits",
    "atomic_path",
    "blocks",
    "logit_blocks",
    "read_predictions",
    "write_probs",
]
