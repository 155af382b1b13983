"""Data sets of the papers, read from the files they are distributed in."""

from focalibrate_papers.datasets._error import DataSetError
from focalibrate_papers.datasets._files import VARIABLE
from focalibrate_papers.datasets._source import DatasetSource
from focalibrate_papers.datasets.dataset import Dataset, InputKind, Inputs, Split, Tokens
from focalibrate_papers.datasets.registry import DATASETS, load
from focalibrate_papers.datasets.tables import TABLES, TableSource, find_tables, table_checksum
from focalibrate_papers.datasets.tree import Tree

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
