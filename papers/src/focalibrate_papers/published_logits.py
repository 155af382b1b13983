"""Temperature and focal temperature scaling on the published outputs of real models."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Calibrator, fit_temperature
from focalibrate.calibrate.fit_focal_temperature import FINE_TEMPERATURES
from focalibrate.calibrate.fit_temperature import TemperatureCalibrator
from focalibrate.comparison import compare_methods
from focalibrate.io import as_logits, read_predictions
from focalibrate.metrics import METRICS
from focalibrate.metrics.errors import MetricName
from focalibrate.theory import focal_minimiser
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.datasets import VARIABLE
from focalibrate_papers.networks import halves, quiet
from focalibrate_papers.scorecard import Scorecard, scorecard

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


METHODS = {
    "identity": "raw",
    "posterior_recovery": "Ψ",
    "temperature": "TS_NLL",
    "temperature_ece": "TS_ECE",
    "focal_temperature": "FTS_NLL",
    "focal_temperature_ece": "FTS",
}
"""Methods compared, by their names in the literature; both ECE fits minimise AdaECE."""
FINE = "TS_ECE_fine"
"""Temperature by AdaECE on paper 003's grid, as for FTS; TS_ECE uses paper 002's grid."""
PAIRS = (
    ("TS_NLL", "raw"),
    ("FTS", "raw"),
    ("Ψ", "raw"),
    ("Ψ", "TS_NLL"),
    ("TS_ECE", "TS_NLL"),
    ("FTS_NLL", "TS_NLL"),
    ("FTS", "TS_NLL"),
    ("FTS", "TS_ECE"),
    ("FTS", FINE),
)
"""Methods whose difference is measured."""
COUNTED: dict[MetricName, str] = {"adaptive_ece": "AdaECE", "nll": "NLL"}
"""Metrics of that difference."""


def measure(one: LogitSet, *, gamma: float | None, n_resamples: int) -> list[tuple[str, float]]:
    """Fit every method on one part of a set and evaluate it on the other.

    Args:
        one: the set.
        gamma: exponent of the training loss, if it is focal loss; Ψ is then among the methods, and
            paper 002's row is measured.
        n_resamples: number of bootstrap resamples.

    Returns:
        Names and values: ``<method> <metric>``, ``<method> less <other> <metric>`` (paired), both
        with `` low`` and `` high``; ``<method> T`` and ``<method> γ``.
    """
    found = compare_methods(
        one.fit_logits,
        one.fit_labels,
        one.test_logits,
        one.test_labels,
        methods=[m for m in METHODS if m != "posterior_recovery" or gamma is not None],
        trained_gamma=gamma,
        n_resamples=n_resamples,
        seed=SEED,
    )
    calibrators: dict[str, Calibrator] = {
        METHODS[row.method]: row.calibrator for row in found.rows
    }
    calibrators[FINE] = _fit(one, criterion="adaptive_ece", temperatures=FINE_TEMPERATURES)
    # intervals of calibration errors too: they are part of the published comparison
    cards = {
        method: scorecard(
            calibrator.probs(one.test_logits), one.test_labels, n_resamples=n_resamples, seed=SEED
        )
        for method, calibrator in calibrators.items()
    }
    numbers: list[tuple[str, float]] = [
        ("rows fitted on", found.n_fitted),
        ("rows judged on", found.n_judged),
        ("classes", found.n_classes),
    ]
    numbers += _parameters(calibrators)
    numbers += _scores(cards)
    if gamma is not None:
        numbers += _by_ece(one)
    return numbers


def _fit(one: LogitSet, **options: Any) -> TemperatureCalibrator:
    with quiet():
        return fit_temperature(one.fit_logits, one.fit_labels, **options)


def _parameters(calibrators: dict[str, Calibrator]) -> Iterator[tuple[str, float]]:
    for method, calibrator in calibrators.items():
        for name, letter in (("gamma", "γ"), ("temperature", "T")):
            if hasattr(calibrator, name):
                yield f"{method} {letter}", float(getattr(calibrator, name))


def _scores(cards: dict[str, Scorecard]) -> Iterator[tuple[str, float]]:
    """Yield each metric and the paired differences, with both ends of the 95 % interval."""
    found = {
        f"{method} {metric}": card.interval(metric)
        for method, card in cards.items()
        for metric in METRICS
    }
    found |= {
        f"{method} less {other} {metric}": cards[method].difference(cards[other], metric)
        for method, other in PAIRS
        if method in cards
        for metric in COUNTED
    }
    for name, interval in found.items():
        yield name, interval.estimate
        yield f"{name} low", interval.low
        yield f"{name} high", interval.high


def _by_ece(one: LogitSet) -> Iterator[tuple[str, float]]:
    """Yield what paper 002 prints after the temperature that minimises ECE, its own criterion."""
    found = _fit(one, criterion="ece")
    yield "T_ece T", found.temperature
    card = scorecard(found.probs(one.test_logits), one.test_labels)
    for metric in METRICS:
        yield f"T_ece {metric}", card.estimates[metric]


SHOWN = ("raw", "Ψ", "TS_NLL", "TS_ECE", FINE, "FTS_NLL", "FTS")


def number(rows: lab.Rows, name: str, metric: str) -> float:
    """Return a number of the set `name`; nan if it was not measured."""
    found = rows.values(metric, set=name)
    return float(found[0]) if found.size else float("nan")


def interval(rows: lab.Rows, name: str, metric: str) -> lab.Interval:
    """Return a number of the set `name` with its bootstrap interval."""
    return lab.Interval(*(number(rows, name, f"{metric}{end}") for end in ("", " low", " high")))


def counts(rows: lab.Rows) -> lab.Table:
    """Return in how many sets each method differs significantly from another."""
    body = []
    for method, other in PAIRS:
        for metric, shown in COUNTED.items():
            name = f"{method} less {other} {metric}"
            gaps = [interval(rows, one, name) for one in rows.each("set")]
            gaps = [gap for gap in gaps if gap.estimate == gap.estimate]
            lower, higher = sum(gap.high < 0 for gap in gaps), sum(gap.low > 0 for gap in gaps)
            counted = map(str, (lower, len(gaps) - lower - higher, higher))
            body.append((method, other, shown, *counted))
    return lab.Table(
        "In how many sets a method is significantly lower or higher (paired 95 % interval)",
        ("method", "against", "metric", "lower", "no significant difference", "higher"),
        tuple(body),
    )


def every_method(rows: lab.Rows) -> lab.Table:
    """Return the errors of every set and method."""
    body = []
    for name in rows.each("set"):
        methods = [m for m in SHOWN if rows.values(f"{m} ece", set=name).size]
        for i, method in enumerate(methods):
            errors = [
                _bracket(interval(rows, name, f"{method} {m}").times(100), 2)
                for m in ("ece", "adaptive_ece")
            ]
            nll = _bracket(interval(rows, name, f"{method} nll"), 4)
            wrong = f"{100 * number(rows, name, f'{method} error'):.2f}"
            fitted = f"{method}{_fitted(rows, name, method)}"
            body.append((name if i == 0 else "", fitted, *errors, nll, wrong))
    return lab.Table(
        "Every set and method",
        ("set", "method", "ECE %", "AdaECE %", "NLL", "error %"),
        tuple(body),
        "Brackets: 95 % basic bootstrap intervals over the evaluated rows, 15 bins.",
    )


def _bracket(found: lab.Interval, digits: int) -> str:
    values = (found.estimate, found.low, found.high)
    return "{} [{}, {}]".format(*(f"{x:.{digits}f}" for x in values))


def _fitted(rows: lab.Rows, name: str, method: str) -> str:
    """Return the parameters of a method as short text."""
    values = {letter: rows.values(f"{method} {letter}", set=name) for letter in ("γ", "T")}
    found = [f"{letter}={value[0]:.4g}" for letter, value in values.items() if value.size]
    return f" ({', '.join(found)})" if found else ""


def chart(rows: lab.Rows) -> Chart:
    """Return AdaECE per set, and the effect of the second parameter."""
    methods = [(f"{m} adaptive_ece", m) for m in ("raw", "TS_NLL", "FTS")]
    fits = [(f"FTS less {FINE} adaptive_ece", "")]
    log_loss = [("FTS_NLL less TS_NLL nll", "")]
    return Chart(
        "sets",
        "AdaECE per set, and the effect of the second parameter of focal temperature scaling, "
        "fitted by AdaECE (both on paper 003's grid) and by log loss. Intervals: 95 % bootstrap, "
        "paired for the differences; below 0, the second parameter helps.",
        (
            _panel(rows, "calibration error", "AdaECE (%)", methods, factor=100),
            _panel(rows, "FTS − TS, by AdaECE", "AdaECE (%)", fits, factor=100),
            _panel(rows, "FTS − TS, by log loss", "log loss", log_loss, factor=1),
        ),
        size=(3.6, 4.2),
    )


def _panel(
    rows: lab.Rows, title: str, unit: str, drawn: Sequence[tuple[str, str]], *, factor: float
) -> Panel:
    names, series = rows.each("set"), []
    for metric, label in drawn:
        found = [interval(rows, name, metric).times(factor) for name in names]
        series.append(Series.of_intervals(names, found, label))
    return Panel(title, "", unit, series)


PAPER_VALUES = (
    ("error", "Table 3", "raw error", 4.98, "%"),
    ("ECE", "Table 1", "raw ece", 1.55, "%"),
    ("AdaECE", "Table 2", "raw adaptive_ece", 1.56, "%"),
    ("MCE", "Table 12", "raw mce", 14.89, "%"),
    ("NLL", "Table 10", "raw nll", 17.55, "%"),
    ("T by ECE", "Table 1", "T_ece T", 1.1, ""),
    ("ECE after T by ECE", "Table 1", "T_ece ece", 0.95, "%"),
    ("NLL after T by ECE", "Table 11", "T_ece nll", 17.37, "%"),
    ("MCE after T by ECE", "Table 13", "T_ece mce", 26.37, "%"),
    ("T by AdaECE", "Table 2", "TS_ECE T", 1.1, ""),
    ("AdaECE after T by AdaECE", "Table 2", "TS_ECE adaptive_ece", 1.26, "%"),
)
"""What paper 002 prints for its ResNet-50 on CIFAR-10 with sample-wise exponents 5, 3."""
MARGINAL = 0.02
"""How much more log loss still counts as 003's "marginally", in our reading."""
INFERRED = (
    "That this published ResNet-50 was trained with that loss is inferred: its source does not "
    "say so, but its numbers equal the paper's row."
)


def claims(rows: lab.Rows) -> tuple[lab.ClaimResult, ...]:
    """Compare with paper 002's row, and judge what 003 and 000 say."""
    return (*_digits(rows), *_second_parameter(rows), _psi(rows))


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    equal = sum(
        abs(round(number(rows, _focal(rows), metric) * (100 if unit else 1), 2) - value) < 1e-9
        for _, _, metric, value, unit in PAPER_VALUES
    )
    return (
        f"A published ResNet-50, evaluated by our own metrics and fits, gives {equal} of "
        f"{len(PAPER_VALUES)} numbers of a row of paper 002 to the last digit."
    )


def _focal(rows: lab.Rows) -> str:
    """Return the set whose training exponent is known."""
    return str(next(name for name, gamma in rows.each("set", "gamma") if gamma is not None))


def _digits(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    for what, table, metric, value, unit in PAPER_VALUES:
        ours = number(rows, _focal(rows), metric) * (100 if unit else 1)
        yield lab.judged(
            "published-logits/digits",
            round(ours, 2),
            measure=what,
            bound=value,
            paper_value=f"002 {table}: {value:g}{f' {unit}' if unit else ''}",
            unit=unit or "T",
            note=INFERRED
            if _focal(rows) in SETS
            else "generated logits are used in place of that network",
        )


def _second_parameter(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    note = (
        "Nine of the sixteen sets are from CIFAR-10, so these are fewer than sixteen independent "
        "trials."
    )
    yield lab.judged(
        "published-logits/fts-lower",
        lab.mean_interval(_over_sets(rows, f"FTS less {FINE} adaptive_ece")).times(100),
        note=note,
    )
    yield lab.judged(
        "published-logits/same-nll",
        _over_sets(rows, "FTS_NLL less TS_NLL nll"),
        bound=MARGINAL,
        note=note,
    )


def _over_sets(rows: lab.Rows, metric: str) -> list[float]:
    return [number(rows, name, metric) for name in rows.each("set")]


def _psi(rows: lab.Rows) -> lab.ClaimResult:
    return lab.judged(
        "published-logits/psi-raises",
        interval(rows, _focal(rows), "Ψ less raw adaptive_ece").times(100),
        covers=False,
        note=f"One ResNet-50, with γ = 3 for all rows. {INFERRED}"
        if _focal(rows) in SETS
        else "The generated logits are those of the focal minimiser, where Ψ does help.",
    )


NAME = "published-logits"
TRAINED_GAMMA = {"cifar10_resnet50_focalrepo_aigen": 3.0}
"""Exponents of the training loss, if it is focal loss.

That set has the numbers of paper 002's sample-wise exponent: 3 if the true class has a probability
of at least 0.2, as for nearly all rows, and 5 below.
"""


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return one task per set of logits."""
    if scale == "smallest":
        common = {"sha256": "", "n": 600, "resamples": 40}
        made: dict[str, float | None] = {"generated_overconfident": None, "generated_focal": 3.0}
        return [lab.Task.of(NAME, set=name, gamma=gamma, **common) for name, gamma in made.items()]
    return [
        lab.Task.of(NAME, set=name, sha256=sha256, gamma=TRAINED_GAMMA.get(name), resamples=1000)
        for name, sha256 in SETS.items()
    ]


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Measure every method on one set."""
    options = {"gamma": task["gamma"], "n_resamples": task["resamples"]}
    if not task["sha256"]:
        return measure(generated_set(task["set"], n=task["n"], gamma=task["gamma"]), **options)
    one = read_set(task["set"], folders.data)
    if one.checksum != task["sha256"]:
        raise ValueError(
            f"logits/{one.name}.npz: its SHA-256 must be {task['sha256']}, that of the file "
            f"behind the committed results, got {one.checksum}. Download the published file; for "
            "your own outputs use `focalibrate calibrate`."
        )
    return measure(one, **options)


EXPERIMENT = lab.Experiment.of(__name__, tables=(counts, every_method), charts=(chart,))
