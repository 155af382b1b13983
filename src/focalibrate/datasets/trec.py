"""TREC's questions, six kinds of answer: a small text set."""

from pathlib import Path

import numpy as np

from focalibrate.datasets._documents import Documents, chosen, document_set
from focalibrate.datasets._error import DataSetError
from focalibrate.datasets._files import check_count, need, read_text
from focalibrate.datasets._json_lines import read_json_lines
from focalibrate.datasets._source import DatasetSource
from focalibrate.datasets._split import split_sizes
from focalibrate.datasets.dataset import Dataset

CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
COUNTS = {"train": 5_452, "test": 500}
HELD_OUT = 0.1
N_WORDS, LONGEST = 20_000, 50
URL = "https://cogcomp.seas.upenn.edu/Data/QA/QC"
LICENCE = "none stated; cite Li and Roth (2002)"
ADVICE = (
    f"Download train_5500.label and TREC_10.label from {URL} and put them there "
    "(or trec6_train.jsonl and trec6_test.jsonl with text and label)."
)
FILES = {
    "train": ("trec6_train.jsonl", "train_5500.label"),
    "test": ("trec6_test.jsonl", "TREC_10.label"),
}


def read_questions(path: Path) -> Documents:
    """Return questions and labels of JSON lines, or of lines ``COARSE:fine question``."""
    if ".jsonl" in path.name:
        texts, found = read_json_lines(path)
    else:
        lines = [line for line in read_text(path, "latin-1").split("\n") if line]
        texts = [line.partition(" ")[2] for line in lines]
        found = [line.partition(":")[0] for line in lines]
    for i, label in enumerate(found, start=1):
        if label not in CLASSES:
            raise DataSetError(
                f"{path}: label must be one of {', '.join(CLASSES)}, found {label!r} in "
                f"question {i}."
            )
    return texts, [CLASSES.index(str(label)) for label in found]


def _read(root: Path | None, seed: int) -> Dataset:
    parts = {}
    for stem, names in FILES.items():
        path = need(root, names, advice=ADVICE)
        parts[stem] = read_questions(path)
        check_count(path, "questions", len(parts[stem][0]), COUNTS[stem])
    train = parts["train"]
    held_out = round(HELD_OUT * len(train[0]))
    rows = split_sizes(np.array(train[1]), [len(train[0]) - held_out, held_out], seed=[seed, 0])
    splits = [*(chosen(train, [int(row) for row in part]) for part in rows), parts["test"]]
    return document_set(
        "trec6", splits, CLASSES, root=root, seed=seed, n_words=N_WORDS, longest=LONGEST
    )


TREC: dict[str, DatasetSource] = {"trec6": DatasetSource("text", _read, ADVICE, URL, LICENCE)}
