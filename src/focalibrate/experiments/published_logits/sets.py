"""Published outputs of real models, and generated ones in their place for tests."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.datasets import VARIABLE
from focalibrate.experiments.networks.halves import halves
from focalibrate.io import as_logits, read_predictions
from focalibrate.theory import focal_minimiser

SETS: Mapping[str, str] = {
    "agnews_gpt2": "953b904d32993205cf7bab5002cfc685cc9fd8f41157bf9371727e9d2c04fb85",
    "cifar100_densenetbc100_netcal": (
        "f4f8fd998d0ec2a3c6fbb965ce549dc770693d4c91d08248657cecefe40fff15"
    ),
    "cifar100_lenet5_netcal": "b2971a01fd3ca63a0696ddc8d5863ec9d41e2a9d8ec8b97f9ffd3c4ef0d5abb3",
    "cifar100_resnet20": "7f3f5e3652867e7f031ab283fc282655ea5172e3e2d6764602bcf9055a231f0a",
    "cifar100_vgg19_bn": "8f31f6161e63c9b2ba2a7f16c2165a15ee3e339edd2bbc56b87ae5f02bf6a8df",
    "cifar10_crossval_cleanlab": (
        "dd874f048f4e76fdb3503e28d029c85296264ae4c1a55eed5f8634c38ab42d7d"
    ),
    "cifar10_lenet5_netcal": "3b88419b9a000faf22039577a440c950e130ba4ec17397fda557554f9a0b129c",
    "cifar10_repvgg_a2": "8aa059e0b521d67e1a5e5c58a9f99528a3a67ed05637302848fd767b9b49a4ba",
    "cifar10_resnet20": "3cf32499a8dd08aa498e6797ab116671e912d17e287df97dd639adc283e6e621",
    "cifar10_resnet20_akamaster": (
        "dd7a5bf1166ba0adf228f3964fddbbab2edbd961aac4c151195c4f80dd7286a8"
    ),
    "cifar10_resnet32_akamaster": (
        "ba553e4e54f505c712b9c1f12961164edc8b5369b46b12911f10dfa350c5c60d"
    ),
    "cifar10_resnet50_focalrepo_aigen": (
        "6b65f035f0af0efa47cec2d5b7f1893f89914724beea5a8553a774b97d5a5ce7"
    ),
    "cifar10_resnet50_psrcal": "4b23dbc1b84f5fe2fbfa76d8fff5d795320cb1bf16b2345e82d655fb54d73b41",
    "cifar10_wrn16-4_netcal": "479bbbf0a227be376b0a0e1f9df23f272bc38466706977c4acaaf48188519954",
    "iemocap_emotion_final_psrcal": (
        "74e1779b2b1e6783a26570cb32363979642f81951def3c822a94be154d093ae8"
    ),
    "imdb_crossval_cleanlab": "8bb9f947cb8d86255e1a3f41e1fe2186a593c6562fac623588593eb7885a6e42",
}
"""The sets that a calibrator can be fitted on, with the SHA-256 of their files."""
SEED = 0
"""Random seed of the bootstrap and of generated sets."""


@dataclass(frozen=True, eq=False)
class LogitSet:
    """Outputs of one model: rows to fit on and rows to evaluate on."""

    name: str
    split: str
    """where the two parts come from"""
    fit_logits: NDArray[Any]
    fit_labels: NDArray[np.int64]
    test_logits: NDArray[Any]
    test_labels: NDArray[np.int64]
    checksum: str
    """SHA-256 of the file; "" for generated rows"""


def read_set(name: str, data: Path | None) -> LogitSet:
    """Read ``logits/<name>.npz`` of the folder of data sets.

    The file holds ``<part>_logits`` or ``<part>_probs`` with ``<part>_labels``. If it has the
    parts ``val`` and ``test``, these are used; else ``all`` or ``test`` is split into two random
    halves by a fixed seed. Rows that a model was trained on (``train``) are not used.

    Args:
        name: name of the file.
        data: folder of data sets; FOCALIBRATE_DATA when None.

    Raises:
        ValueError: there is no such folder, or the file has no rows to use.
        FileNotFoundError: there is no such file.
    """
    path = _folder(data) / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: does not exist. It should hold published outputs of a model: put it there, "
            "or use --scale smallest, which needs no data."
        )
    with np.load(path) as arrays:
        keys = set(arrays.files)
    parts = {key.rsplit("_", 1)[0] for key in keys if key.endswith(("_logits", "_probs"))}
    parts = {part for part in parts if f"{part}_labels" in keys}
    if {"val", "test"} <= parts:
        fit, test = _part(path, "val", keys), _part(path, "test", keys)
        return LogitSet(name, "val and test", *fit[:2], *test[:2], test[2])
    if not parts & {"all", "test"}:
        raise ValueError(
            f"{path}: must hold scores and labels of the parts val and test, all, or test; it "
            f"has {', '.join(sorted(keys))}."
        )
    part = "all" if "all" in parts else "test"
    logits, labels, checksum = _part(path, part, keys)
    first, second = halves(len(labels))
    fit_rows, test_rows = (logits[first], labels[first]), (logits[second], labels[second])
    return LogitSet(name, f"halves of {part}", *fit_rows, *test_rows, checksum)


def _folder(data: Path | None) -> Path:
    named = data or os.environ.get(VARIABLE)
    if not named:
        raise ValueError(
            "published logits need the folder of data sets that holds logits/. Give it as --data "
            f"or in {VARIABLE}, or use --scale smallest, which needs no data."
        )
    return Path(named, "logits")


def _part(path: Path, part: str, keys: set[str]) -> tuple[NDArray[Any], NDArray[np.int64], str]:
    kind = "logits" if f"{part}_logits" in keys else "probs"
    named = {f"{kind}_key": f"{part}_{kind}", "labels_key": f"{part}_labels"}
    found = read_predictions(path, need_labels=True, **named)  # type: ignore[arg-type]
    if found.labels is None:
        raise ValueError(f"{path}: `{part}_labels` must be given.")
    return as_logits(found), found.labels, found.checksum


def generated_set(name: str, *, n: int, gamma: float | None) -> LogitSet:
    """Return `n` examples of a known posterior in 4 classes, half to fit on.

    With `gamma`, the scores are what focal training aims at; without, they are twice the true
    logits, as of an overconfident model.
    """
    rng = np.random.default_rng([SEED, n])
    truth = 1.5 * rng.normal(size=(n, 4))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    logits = 2 * truth
    if gamma is not None:
        posterior = np.exp(truth - np.logaddexp.reduce(truth, axis=1, keepdims=True))
        logits = np.log(focal_minimiser(posterior, gamma))
    first, second = slice(None, n // 2), slice(n // 2, None)
    fit_rows, test_rows = (logits[first], labels[first]), (logits[second], labels[second])
    return LogitSet(name, "generated", *fit_rows, *test_rows, "")
