"""Fits of calibrators: speed against peers and plain loops, memory, accuracy."""

import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from netcal.scaling import TemperatureScaling as NetcalTemperature
from numpy.typing import NDArray
from probmetrics.calibrators import TemperatureScalingCalibrator
from probmetrics.distributions import CategoricalLogits
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from benchmarks._timing import Row, compare, interleave
from focalibrate.calibrate import fit_focal_temperature, fit_temperature
from focalibrate.calibrate.fit_focal_temperature import FINE_TEMPERATURES, FOCAL_GAMMAS
from focalibrate.calibrate.focal_rows import focal_rows
from focalibrate.calibrate.grid import Criterion, searched

Logits = NDArray[np.float32]
Labels = NDArray[np.int64]
N_POINTS = len(FOCAL_GAMMAS) * len(FINE_TEMPERATURES)


def simulate(n: int, k: int) -> tuple[Logits, Labels]:
    """Return float32 logits of an overconfident classifier, right about three times in four."""
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.standard_normal((n, k), dtype=np.float32)
    labels = rng.integers(k, size=n)
    logits[np.arange(n), labels] += rng.uniform(0, 2 * np.log(k) + 2, n).astype(np.float32)
    logits *= np.float32(1.8)
    return logits, labels


class Frozen(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose inputs are its logits."""

    def fit(self, X: Logits, y: Labels) -> "Frozen":
        """Remember the classes."""
        self.classes_ = np.arange(X.shape[1])
        return self

    def decision_function(self, X: Logits) -> Logits:
        """Return the logits."""
        return X

    def predict(self, X: Logits) -> Labels:
        """Return the class of the largest logit."""
        return X.argmax(axis=1)


def scikit_learn(logits: Logits, labels: Labels) -> None:
    """Fit scikit-learn's temperature on a frozen estimator."""
    frozen = FrozenEstimator(Frozen().fit(logits, labels))
    CalibratedClassifierCV(frozen, method="temperature").fit(logits, labels)


def probmetrics(logits: Logits, labels: Labels) -> None:
    """Fit probmetrics' temperature by bisection."""
    scores = CategoricalLogits(torch.from_numpy(logits))
    TemperatureScalingCalibrator().fit_torch(scores, torch.from_numpy(labels))


def netcal(logits: Logits, labels: Labels) -> None:
    """Fit netcal's temperature, which takes probabilities."""
    probs = torch.softmax(torch.from_numpy(logits), dim=1).numpy()
    NetcalTemperature().fit(probs, labels, tensorboard=False)


def temperature(n: int, k: int, *, bar: float, rounds: int, with_netcal: bool) -> list[Row]:
    """Time the fit by log loss, and measure its distance from the optimum."""
    logits, labels = simulate(n, k)
    peers = {"scikit-learn": scikit_learn, "probmetrics": probmetrics}
    if with_netcal:
        peers["netcal"] = netcal
    functions: dict[str, Callable[[], object]] = {
        name: lambda f=f: f(logits, labels) for name, f in peers.items()
    }
    functions["ours"] = lambda: fit_temperature(logits, labels)
    seconds = interleave(functions, rounds=rounds)
    name = f"temperature by log loss, {n:,} x {k}"
    found = fit_temperature(logits, labels).temperature
    error = abs(found * _best_inverse(logits, labels, found) - 1.0)
    return [
        *(compare(name, seconds, ours="ours", peer=peer, bar=bar) for peer in peers),
        Row(
            name=f"{name}: relative error of T",
            ours=error,
            peer_name="1e-6",
            peer=1e-6,
            ratio=error / 1e-6,
            bar=1.0,
            unit="",
            note="against Brent in float64",
        ),
    ]


def _best_inverse(logits: Logits, labels: Labels, near: float) -> float:
    def slope(beta: float) -> float:
        total = 0.0
        for i in range(0, len(logits), 2000):
            z = logits[i : i + 2000].astype(np.float64)
            mean = (softmax(beta * z, axis=1) * z).sum()
            total += mean - z[np.arange(len(z)), labels[i : i + 2000]].sum()
        return total

    return float(brentq(slope, 0.99 / near, 1.01 / near, xtol=1e-12))


def plain_psi(z: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
    """Return the recovered posterior as a short NumPy function would."""
    v = np.exp(z - z.max(axis=1, keepdims=True))
    v /= v.sum(axis=1, keepdims=True)
    if gamma == 0:
        return v
    rest = np.maximum(1.0 - v, 1e-300)
    r = -v * np.log(np.maximum(v, 1e-300)) / rest
    h = v / (rest**gamma * (1.0 + gamma * r))
    is_saturated = ~np.isfinite(h)
    h[is_saturated] = 1e300
    return h / h.sum(axis=1, keepdims=True)


def plain_point(logits: Logits, labels: Labels, gamma: float, t: float) -> float:
    """Return AdaECE at one grid point as a plain loop computes it: all logits, in chunks."""
    confidence, correct = [], []
    for i in range(0, len(logits), 2000):
        z = logits[i : i + 2000].astype(np.float64)
        probs = plain_psi(z / t, gamma)
        confidence.append(probs.max(axis=1))
        correct.append(probs.argmax(axis=1) == labels[i : i + 2000])
    top, hit = np.concatenate(confidence), np.concatenate(correct)
    gap = (top - hit)[np.argsort(top)]
    return float(sum(abs(part.sum()) for part in np.array_split(gap, 15)) / len(gap))


def focal_temperature(n: int, k: int, *, bar: float, n_loop: int, rounds: int) -> list[Row]:
    """Time the whole grid against the double loop, measured on random points and scaled."""
    logits, labels = simulate(n, k)
    rng = np.random.default_rng(1)
    points = [
        (FOCAL_GAMMAS[rng.integers(len(FOCAL_GAMMAS))], FINE_TEMPERATURES[rng.integers(500)])
        for _ in range(n_loop)
    ]

    def loop() -> None:
        for gamma, t in points:
            plain_point(logits, labels, gamma, t)

    seconds = interleave(
        {
            "ours": lambda: fit_focal_temperature(logits, labels, criterion="adaptive_ece"),
            "plain double loop": loop,
        },
        rounds=rounds,
    )
    whole = N_POINTS / n_loop
    seconds["plain double loop"] = [whole * s for s in seconds["plain double loop"]]
    name = f"focal temperature, whole grid by AdaECE, {n:,} x {k}"
    note = f"loop: {n_loop} random points of {N_POINTS}, scaled"
    excess = _excess(logits, labels)
    return [
        compare(name, seconds, ours="ours", peer="plain double loop", bar=bar, note=note),
        Row(
            name=f"{name}: excess over the minimum",
            ours=excess,
            peer_name="1e-4",
            peer=1e-4,
            ratio=excess / 1e-4,
            bar=1.0,
            unit="",
            note="AdaECE in float64 on all logits, at the 12 best grid points",
        ),
    ]


def _excess(logits: Logits, labels: Labels) -> float:
    """Return the exact criterion at the point found − the smallest among the best twelve.

    The engine's confidences are accurate to about 1e-5, so the true minimum is among them.
    """
    criterion = Criterion(focal_rows(logits, labels), "adaptive_ece", 15)
    grid = searched(criterion, FOCAL_GAMMAS, FINE_TEMPERATURES)
    best = np.argsort(np.where(np.isnan(grid), np.inf, grid), axis=None)[:12]
    exact = [
        plain_point(logits, labels, FOCAL_GAMMAS[g], FINE_TEMPERATURES[t])
        for g, t in zip(*np.unravel_index(best, grid.shape), strict=True)
    ]
    return exact[0] - min(exact)


def memory() -> list[Row]:
    """Measure the peak memory of the fits, relative to the size of the logits."""
    logits, labels = simulate(20_000, 1000)
    fits: dict[str, Callable[[], Any]] = {
        "temperature by log loss": lambda: fit_temperature(logits, labels),
        "temperature by ECE": lambda: fit_temperature(logits, labels, criterion="ece"),
        "focal temperature, whole grid": lambda: fit_focal_temperature(
            logits, labels, criterion="adaptive_ece"
        ),
    }
    rows = []
    for name, fit in fits.items():
        tracemalloc.start()
        fit()
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        size = logits.nbytes / 1e6
        rows.append(
            Row(
                name=f"peak memory of {name}, 20,000 x 1000",
                ours=peak,
                peer_name="the logits",
                peer=size,
                ratio=peak / size,
                bar=0.25,
                unit="MB",
            )
        )
    return rows


def streaming() -> list[Row]:
    """Fit 200,000 x 1000 from a memory map, against reading the map once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "logits.npy"
        mapped = np.lib.format.open_memmap(path, "w+", np.float32, (200_000, 1000))
        labels = np.empty(200_000, dtype=np.int64)
        for i in range(0, 200_000, 20_000):
            mapped[i : i + 20_000], labels[i : i + 20_000] = simulate(20_000, 1000)
        mapped.flush()
        mapped = np.load(path, mmap_mode="r")
        functions: dict[str, Callable[[], object]] = {
            "ours": lambda: fit_temperature(mapped, labels),
            "one read of the map": lambda: mapped.max(axis=1),
        }
        seconds = interleave(functions, rounds=3)
        tracemalloc.start()
        start = perf_counter()
        fit_focal_temperature(mapped, labels, criterion="adaptive_ece")
        took = perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        name = "memory map, 200,000 x 1000"
        return [
            compare(f"{name}: temperature", seconds, ours="ours", peer="one read of the map"),
            Row(
                name=f"{name}: peak memory of the focal grid",
                ours=peak / 1e6,
                peer_name="the logits",
                peer=mapped.nbytes / 1e6,
                ratio=peak / mapped.nbytes,
                bar=0.25,
                unit="MB",
                note=f"the fit took {took:.1f} s",
            ),
        ]


def run() -> list[Row]:
    """Run all; takes a few minutes."""
    return [
        *temperature(50_000, 1000, bar=1 / 15, rounds=2, with_netcal=False),
        *temperature(10_000, 100, bar=1 / 5, rounds=5, with_netcal=True),
        *temperature(1_000, 3, bar=1.0, rounds=7, with_netcal=False),
        *focal_temperature(5_000, 10, bar=1 / 10, n_loop=200, rounds=3),
        *focal_temperature(5_000, 100, bar=1 / 10, n_loop=50, rounds=3),
        *focal_temperature(20_000, 1000, bar=1 / 100, n_loop=3, rounds=2),
        *memory(),
        *streaming(),
    ]
