"""The tables of an experiment as Markdown, for pages that include them."""

from collections.abc import Iterable, Sequence

from focalibrate.experiments.engine.experiment import Table


def tables_markdown(tables: Iterable[Table]) -> str:
    """Return the tables one below the other, each under its title."""
    parts = []
    for table in tables:
        parts.append(f"**{_cell(table.title)}**\n\n{_grid(table.head, table.body)}")
        if table.note:
            parts.append(f"{_cell(table.note)}\n")
    return "\n".join(parts)


def _grid(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rows = [_row(head), "|-" * len(head) + "|", *map(_row, body)]
    return "\n".join(rows) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    """Escape what would end the cell or be read as a tag."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
    return " ".join(escaped.split())
