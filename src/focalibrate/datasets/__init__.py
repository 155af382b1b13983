"""Data sets of the papers, read from the files they are distributed in."""

from focalibrate.datasets._error import DataSetError
from focalibrate.datasets._files import VARIABLE
from focalibrate.datasets._source import DatasetSource
from focalibrate.datasets.dataset import Dataset, InputKind, Inputs, Split, Tokens
from focalibrate.datasets.registry import DATASETS, load
from focalibrate.datasets.table_sources import TABLES, TableSource, table_checksum
from focalibrate.datasets.tables import find_tables
from focalibrate.datasets.tree import Tree

__all__ = [
    "DATASETS",
    "TABLES",
    "VARIABLE",
    "DataSetError",
    "Dataset",
    "DatasetSource",
    "InputKind",
    "Inputs",
    "Split",
    "TableSource",
    "Tokens",
    "Tree",
    "find_tables",
    "load",
    "table_checksum",
]
