"""A file as named columns and arrays, before anything is decided about their roles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the work done and the total."""

ColumnKind: TypeAlias = Literal["number", "text", "bool", "matrix", "empty", "other"]
"""What the cells of a column are; a matrix has a list of numbers in every row."""

Load: TypeAlias = Callable[[Sequence[int], Progress], list[NDArray[Any]]]
"""Return the columns at these positions as arrays of N rows."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table, or one array of a file of arrays.

    Attributes:
        name: as the file has it; ``"Unnamed: 3"`` where it has none.
        kind: what the cells are.
        shape: of the array; ``(N,)`` for a plain column.
        is_index: the file itself says that this is the index of a data frame.
        unnamed: the file gives no name.
        is_half: numbers have only the precision of float16 or bfloat16.
        problem: why the array cannot be read; raised if it is needed.
    """

    name: str
    kind: ColumnKind
    shape: tuple[int, ...]
    is_index: bool = False
    unnamed: bool = False
    is_half: bool = False
    problem: ValueError | None = None


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The content of one file, or of several parts of one table; values are read when needed.

    Attributes:
        path: the file or folder.
        columns: in the order of the file.
        load: reads columns by position.
        is_table: rows of a table, rather than arrays of any shape.
        has_names: the columns of the table have names.
        is_ordered: the columns have an order; not so if every row lists them in its own.
        is_partial: some rows lack some columns, not only their values.
        class_names: names of the classes stored beside the data, in the order of a matrix.
        numeric_classes: `class_names` were stored as numbers, which labels repeat.
        extra: what the writer of the same format needs (a schema, a delimiter).
        notes: what was decided while opening the file.
    """

    path: Path
    columns: tuple[Column, ...]
    load: Load
    is_table: bool = True
    has_names: bool = True
    is_ordered: bool = True
    is_partial: bool = False
    class_names: tuple[str, ...] | None = None
    numeric_classes: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]


def silent(done: int, total: int) -> None:
    """Report no progress."""
