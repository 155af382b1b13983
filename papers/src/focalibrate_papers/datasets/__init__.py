"""Data sets of the papers, read from the files they are distributed in."""

from pathlib import Path

from focalibrate._check import did_you_mean
from focalibrate_papers.datasets._files import VARIABLE, root_of
from focalibrate_papers.datasets._split import check_fraction, take, thinned
from focalibrate_papers.datasets.cifar import CIFAR
from focalibrate_papers.datasets.dataset import (
    Dataset,
    DataSetError,
    DatasetSource,
    InputKind,
    Inputs,
    Split,
    Tokens,
    Tree,
)
from focalibrate_papers.datasets.idx import MNIST_FAMILY
from focalibrate_papers.datasets.newsgroups import NEWSGROUPS
from focalibrate_papers.datasets.sentiment import SENTIMENT
from focalibrate_papers.datasets.synthetic import SYNTHETIC
from focalibrate_papers.datasets.tables import (
    TABLES,
    TableSource,
    find_tables,
    read_table,
    table_checksum,
)

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

DATASETS: dict[str, DatasetSource] = {
    **CIFAR,
    **MNIST_FAMILY,
    **NEWSGROUPS,
    **SENTIMENT,
    **SYNTHETIC,
}
"""The named data sets: how each is read, and what to download.

Any other name is that of a table, ``name.npz`` or ``name.csv``, in the folder of data sets."""


def load(
    name: str, *, data: str | Path | None = None, seed: int = 0, fraction: float = 1.0
) -> Dataset:
    """Return a data set, split as in the papers.

    Args:
        name: a key of `DATASETS`, or the name of a table in the folder `data`.
        data: folder of data sets, with the files as their authors distribute them; the
            environment variable FOCALIBRATE_DATA names it when None. Generated sets need none.
        seed: random seed of the split into training and validation examples, of generated
            examples and of `fraction`.
        fraction: share of the training and of the validation examples that is kept, the same in
            every class; all test examples are kept. Smaller fractions are parts of larger ones.

    Raises:
        DataSetError: files are absent, with what to download and where to put it, or are not
            what they should be.

    Example:
        >>> data = load("overlap_1d", seed=1, fraction=0.1)
        >>> data.n_classes, data.train.inputs.shape
        (3, (500, 1))
    """
    check_fraction(fraction)
    root = root_of(data)
    source = DATASETS.get(name)
    try:
        if source is not None:
            whole = source.read(root, seed)
        elif name in find_tables(root):
            whole = read_table(root, name, seed=seed)
        else:
            raise DataSetError(_unknown(name, root))
    except DataSetError as error:
        raise DataSetError(f"data set {name!r}: {error}") from error
    return Dataset(
        name,
        take(whole.train, thinned(whole.train.labels, fraction=fraction, seed=[seed, 1])),
        take(
            whole.validation, thinned(whole.validation.labels, fraction=fraction, seed=[seed, 2])
        ),
        whole.test,
        whole.n_classes,
        whole.class_names,
        whole.kind,
        whole.words,
        whole.vectors,
    )


def _unknown(name: str, root: Path | None) -> str:
    known = TABLES.get(name)
    if known is not None:
        return (
            f"there is no {name}.npz or {name}.csv in {root or 'a folder of data sets'}. It is "
            f"made from {known.url} (licence: {known.licence}). Save it as {name}.csv with a "
            "header and the class in the last column, and name its folder by `data` (command "
            "line: --data) or by FOCALIBRATE_DATA. Nothing is downloaded for you."
        )
    hint = did_you_mean(name, [*DATASETS, *TABLES, *find_tables(root)])
    where = f"{root} has no {name}.npz or {name}.csv" if root else "no `data` is named"
    return (
        f"is none of {', '.join(DATASETS)}, and {where}.{hint} For a table, name its "
        "folder by `data` (command line: --data) or by FOCALIBRATE_DATA."
    )
