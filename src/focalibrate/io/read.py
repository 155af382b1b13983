"""Reading a file of predictions, whatever its format."""

from typing import Unpack

from focalibrate.io.options import ReadOptions
from focalibrate.io.predictions import Predictions
from focalibrate.io.scan import scan_predictions
from focalibrate.io.source import FORMATS, Paths

__all__ = ["FORMATS", "read_predictions"]


def read_predictions(path: Paths, **options: Unpack[ReadOptions]) -> Predictions:
    """Read scores, labels and class names from a file, with every row checked.

    Formats: ``.csv``, ``.tsv``, ``.txt`` (also ``.gz``, ``.bz2``, ``.xz``), ``.parquet``,
    ``.feather``, ``.arrow``, ``.jsonl``, ``.json``, ``.xlsx``, ``.npz``, ``.npy``,
    ``.safetensors``, ``.pt`` with tensors only; a folder or glob of parts, read as one table
    in natural order; a list of these; ``-`` for a text table on standard input.

    Which column is what is decided in one way for all formats. The label is the column called
    ``label``, ``y``, ``y_true``, ``target``, ``class``, ``truth`` or the like. Scores are columns
    with a prefix (``prob_cat``, ``logit_cat``), an array or list column (``probs``, ``logits``),
    or the columns whose rows all lie in [0, 1] and sum to 1. One column of probabilities or
    log-odds is that of the positive class of two. Ids, an index, predicted classes and all other
    columns are ignored. Whether scores are logits or probabilities follows from their name, from
    `input`, or from every row summing to 1; it is never guessed. `Predictions.describe` and
    `Predictions.notes` say what was decided.

    Labels are class positions from 0, or class names. Where a table's columns name classes by
    numbers, labels are those names: the label 7 belongs to ``prob_7``. Columns called 0, 1, 2,
    ... are put in that order and count as unnamed. Object arrays and pickles are refused.

    Args:
        path: the file, folder or glob, or a list of these, which are parts of one table; the
            suffix says the format.
        labels_path: a file of labels in any of the formats, used in place of labels in `path`.
        truth: objects that detections are matched to: a COCO file or a folder of YOLO labels.
        iou: least overlap of a detection that is right.
        input: ``"logits"``, ``"probs"`` or ``"percent"``.
        logits_key: name of the array or column of logits.
        probs_key: name of the array or column of probabilities.
        labels_key: name of the array of labels.
        label_column: column of the labels, a name or a position from 0 (-1: the last); or
            ``"none"``.
        score_columns: names, positions or a pattern of the score columns, in order.
        id_column: columns that name the rows, never classes.
        ignore: columns to ignore.
        weight_column: column of weights of the examples.
        by: columns to group by.
        cluster: column whose equal values mark rows that belong together, such as the tries at
            one question.
        positive: name of the positive class, where one column holds its score.
        class_names: names of the classes in the order of the scores, where the file has none.
        header: whether a text table has a header. Default: detected.
        encoding: of a text table. Default: UTF-8.
        sheet: of a workbook. Default: the only one that is not empty.
        drop_missing: leave out rows without a label or with a missing score.
        need_labels: raise where there are no labels.
        probs_atol: how far a row of probabilities may be from summing to 1; rows off by more
            than 1e-5 are then divided by their sum. Half-precision floats: at least 1e-2.
        max_memory: most memory to use, such as ``"4GB"``; default 80 % of the machine's.
        progress: called with the rows done and, where it is known, the total.

    Returns:
        The predictions: float32 scores stay float32, float16 and bfloat16 become float32,
        integers float64; labels become int64 positions.

    Raises:
        PredictionFileError: with the file's name, the rule broken, where, and the next step.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "val.csv")
        ...     _ = file.write_text("id,cat,dog,y_true\\n7,0.25,0.75,dog\\n8,0.5,0.5,cat\\n")
        ...     found = read_predictions(file)
        >>> found.describe()
        'val.csv: 2 rows × 2 classes (cat, dog), probabilities, labels in "y_true"'
    """
    return scan_predictions(path, **options).read()
