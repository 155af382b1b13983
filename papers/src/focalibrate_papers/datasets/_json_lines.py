"""Documents as lines of JSON."""

import json
from pathlib import Path

from focalibrate_papers.datasets._error import DataSetError
from focalibrate_papers.datasets._files import read_text


def read_json_lines(path: Path) -> tuple[list[str], list[int | str]]:
    """Return the texts and the labels of a file of objects with ``text`` and ``label``."""
    texts: list[str] = []
    labels: list[int | str] = []
    for i, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            text, label = entry["text"], entry["label"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise DataSetError(
                f"{path}: line {i} must be a JSON object with text and label ({error!r})."
            ) from error
        texts.append(str(text))
        labels.append(label)
    return texts, labels
