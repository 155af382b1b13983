"""What the studies share: runs kept as rows of a file, tables, and how a study was made."""

import csv
import json
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from focalibrate.engines import commit

Record = dict[str, str]
"""A row of a file, by the names of its columns."""


def read_rows(path: Path) -> list[Record]:
    """Return the rows of a file; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run_missing(
    path: Path,
    columns: Sequence[str],
    plan: Iterable[tuple[Any, ...]],
    run: Callable[..., Iterable[Any]],
) -> list[Record]:
    """Make the runs of `plan` that the file does not have, write each as it ends, return all rows.

    Args:
        path: the file; a line that a killed run has left incomplete is removed.
        columns: its columns: first the settings of a run, as in `plan`, then what `run` returns.
        plan: settings of the runs.
        run: returns the other cells of the row of these settings.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    drop_torn_line(path)
    known = {tuple(row.values()) for row in read_rows(path)}
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not path.stat().st_size:
            writer.writerow(columns)
        for settings in plan:
            key = tuple(map(str, settings))
            if not any(cells[: len(key)] == key for cells in known):
                writer.writerow([*settings, *run(*settings)])
                file.flush()
                print(path.name, *settings, flush=True)
    return read_rows(path)


def drop_torn_line(path: Path) -> None:
    """Remove an incomplete last line."""
    if path.exists():
        text = path.read_bytes()
        path.write_bytes(text[: text.rfind(b"\n") + 1])


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    texts = [[str(cell).replace("|", "\\|") for cell in cells] for cells in (head, *rows)]
    lines = [f"| {' | '.join(cells)} |" for cells in texts]
    return "\n".join([lines[0], "|-" * len(head) + "|", *lines[1:]]) + "\n"


def write_made(path: Path, packages: Sequence[str] = (), **facts: Any) -> None:
    """Write the facts about a study with its command, commit and versions."""
    arguments = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    record = {
        "command": " ".join(["python -m", f"benchmarks.{Path(sys.argv[0]).stem}", *arguments]),
        "commit": commit(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("focalibrate", "numpy", *packages)},
    }
    write_json(path, facts | record)


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(path)
