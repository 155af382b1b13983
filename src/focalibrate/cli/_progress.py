"""Progress bars on stderr, shown if that is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)


@contextmanager
def progress_bar(*columns: ProgressColumn) -> Iterator[Progress]:
    """Show a bar of these columns until the block ends."""
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        yield bar


@contextmanager
def steps(what: str, *, total: float | None = None) -> Iterator[Progress]:
    """Show a step, which may get another name, and the percentage that is done of it."""
    name = TextColumn("{task.description}", markup=False)  # a path may have [brackets]
    with progress_bar(name, BarColumn(), TaskProgressColumn(), TimeElapsedColumn()) as bar:
        bar.add_task(what, total=total)
        yield bar


@contextmanager
def counted(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many things are done; call what is yielded with that number and the total."""
    text = TextColumn("{task.description}")
    with progress_bar(text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
