"""Data sets of the papers, read from the files they are distributed in."""

from focalibrate.data.sets._error import DataSetError
from focalibrate.data.sets._files import VARIABLE
from focalibrate.data.sets._source import Source
from focalibrate.data.sets.dataset import Dataset, Inputs, Kind, Split, Tokens
from focalibrate.data.sets.registry import DATASETS, load
from focalibrate.data.sets.tables import find_tables
from focalibrate.data.sets.tree import Tree

__all__ = [
    "DATASETS",
    "VARIABLE",
    "DataSetError",
    "Dataset",
    "Inputs",
    "Kind",
    "Source",
    "Split",
    "Tokens",
    "Tree",
    "find_tables",
    "load",
]
