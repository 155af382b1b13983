"""Data sets of the papers, read from the files they are distributed in."""

from focalibrate.data.sets._error import DataSetError
from focalibrate.data.sets.dataset import Dataset, Inputs, Kind, Split, Tokens
from focalibrate.data.sets.load import DATASETS, VARIABLE, load
from focalibrate.data.sets.tree import Tree

__all__ = [
    "DATASETS",
    "VARIABLE",
    "DataSetError",
    "Dataset",
    "Inputs",
    "Kind",
    "Split",
    "Tokens",
    "Tree",
    "load",
]
