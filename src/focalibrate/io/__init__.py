"""Reading files of predictions with checks, and writing them atomically."""

from focalibrate.io.errors import Doubt, PredictionFileError, flags, printable, without_user
from focalibrate.io.predictions import Predictions, ScoreKind, align, as_logits, blocks
from focalibrate.io.scan import Scan, read_predictions, scan_predictions
from focalibrate.io.sketches import (
    SketchFile,
    check_time,
    merge_sketches,
    parse_sketch,
    read_sketch,
    sketch_bytes,
    write_sketch,
)
from focalibrate.io.source import FORMATS, is_data_set, url_of
from focalibrate.io.values.labels import is_negative
from focalibrate.io.write import (
    MANIFEST,
    PartDone,
    PartsOutput,
    PartsWritten,
    parts_written,
    write_part,
    write_probs,
)

__all__ = [
    "FORMATS",
    "MANIFEST",
    "Doubt",
    "PartDone",
    "PartsOutput",
    "PartsWritten",
    "PredictionFileError",
    "Predictions",
    "Scan",
    "ScoreKind",
    "SketchFile",
    "align",
    "as_logits",
    "blocks",
    "check_time",
    "flags",
    "is_data_set",
    "is_negative",
    "merge_sketches",
    "parse_sketch",
    "parts_written",
    "printable",
    "read_predictions",
    "read_sketch",
    "scan_predictions",
    "sketch_bytes",
    "url_of",
    "without_user",
    "write_part",
    "write_probs",
    "write_sketch",
]
