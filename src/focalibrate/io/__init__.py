"""Reading files of predictions with checks, and writing them atomically."""

from focalibrate._atomic import atomic_path
from focalibrate.io._error import PredictionFileError, flags, printable, shown, without_user
from focalibrate.io._find_streams import is_data_set
from focalibrate.io._parts import check_one_split
from focalibrate.io._place import url_of
from focalibrate.io.predictions import (
    Layout,
    Predictions,
    ScoreKind,
    align,
    as_logits,
    blocks,
    logit_blocks,
)
from focalibrate.io.read import FORMATS, read_predictions
from focalibrate.io.scan import Part, Scan, scan_predictions
from focalibrate.io.sketches import (
    SketchFile,
    check_time,
    merge_sketches,
    parse_sketch,
    read_sketch,
    sketch_bytes,
    write_sketch,
)
from focalibrate.io.write import write_probs
from focalibrate.io.write_parts import (
    PartDone,
    PartsOutput,
    PartsWritten,
    part_names,
    parts_written,
    write_part,
    write_parts,
)

__all__ = [
    "FORMATS",
    "Layout",
    "Part",
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
    "atomic_path",
    "blocks",
    "check_one_split",
    "check_time",
    "flags",
    "is_data_set",
    "logit_blocks",
    "merge_sketches",
    "parse_sketch",
    "part_names",
    "parts_written",
    "printable",
    "read_predictions",
    "read_sketch",
    "scan_predictions",
    "shown",
    "sketch_bytes",
    "url_of",
    "without_user",
    "write_part",
    "write_parts",
    "write_probs",
    "write_sketch",
]
