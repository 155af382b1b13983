"""Errors about the files of a data set."""


class DataSetError(ValueError):
    """A data set is absent or its files are not what they should be."""
