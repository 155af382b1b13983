"""Metrics: speed against peers, and exactness if a peer's numbers differ."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from statistics import median
from time import process_time

import numpy as np
import torch
from mapie.metrics.calibration import expected_calibration_error
from netcal.metrics import ECE
from numpy.typing import NDArray
from pycalib.metrics import classwise_ECE
from torchmetrics.functional.classification import multiclass_calibration_error

from benchmarks._timing import Row, compare, interleave
from focalibrate.metrics import assess, classwise_ece, ece
from focalibrate.metrics.null import draw_residuals, scale_test
from focalibrate.metrics.residuals import BINS, event_cells, rms_interval
from focalibrate.metrics.rows import read_event

N_BINS = 15
Probs = NDArray[np.float32]
Labels = NDArray[np.int64]


def simulate(n: int, k: int) -> tuple[Probs, Labels]:
    """Return float32 probabilities of an overconfident model, and labels."""
    rng = np.random.default_rng(0)
    probs, labels = np.empty((n, k), dtype=np.float32), np.empty(n, dtype=np.int64)
    for part in np.array_split(np.arange(n), max(1, n * k // 10**6)):
        z = 3 * rng.standard_normal((len(part), k), dtype=np.float32)
        labels[part] = (z / 1.5 + rng.gumbel(size=z.shape)).argmax(axis=1)
        e = np.exp(z - z.max(axis=1, keepdims=True))
        probs[part] = e / e.sum(axis=1, keepdims=True)
    return probs, labels


def exact_ece(probs: Probs, labels: Labels) -> float:
    """Return ECE with correctly rounded sums per bin, by comparison with every edge."""
    top = probs.max(axis=1).astype(np.float64)
    gap = top - (probs.argmax(axis=1) == labels)
    index = (top[:, None] > np.arange(1, N_BINS) / N_BINS).sum(axis=1)
    return sum(abs(math.fsum(gap[index == b])) for b in range(N_BINS)) / len(top)


def classwise() -> list[Row]:
    """Time classwise ECE on 50,000 x 1000."""
    probs, labels = simulate(50_000, 1000)
    one_hot = np.zeros(probs.shape, dtype=np.uint8)
    one_hot[np.arange(len(labels)), labels] = 1

    def netcal() -> float:
        return float(
            np.mean([ECE(N_BINS).measure(probs[:, c], one_hot[:, c]) for c in range(1000)])
        )

    functions = {
        "focalibrate": lambda: classwise_ece(probs, labels),
        "pycalib": lambda: classwise_ECE(one_hot, probs, bins=N_BINS),
        "MAPIE": lambda: expected_calibration_error(
            labels,
            probs,
            num_bins=N_BINS,
            split_strategy="uniform",
            classwise=True,
            class_labels=labels,
        ),
        "netcal": netcal,
    }
    ours = functions["focalibrate"]()
    notes = {
        name: f"values differ by {abs(function() - ours):.1g}"
        for name, function in functions.items()
        if name != "focalibrate"
    }
    seconds = interleave(functions, rounds=3, warm_ups=0)
    return [
        compare(
            "classwise_ece 50,000x1000",
            seconds,
            ours="focalibrate",
            peer=name,
            bar=0.1,
            note=notes[name],
        )
        for name in notes
    ]


def top_label() -> list[Row]:
    """Time ECE on 1e6 x 10, and compare both with exact sums."""
    probs, labels = simulate(1_000_000, 10)
    tensors = torch.from_numpy(probs), torch.from_numpy(labels)

    def theirs() -> float:
        return float(multiclass_calibration_error(*tensors, 10, n_bins=N_BINS))

    def theirs_unchecked() -> float:
        value = multiclass_calibration_error(*tensors, 10, n_bins=N_BINS, validate_args=False)
        return float(value)

    functions = {
        "focalibrate": lambda: ece(probs, labels),
        "torchmetrics": theirs,
        "torchmetrics, unchecked": theirs_unchecked,
    }
    seconds = interleave(functions, rounds=9)
    truth = exact_ece(probs, labels)
    ours_off, theirs_off = abs(ece(probs, labels) - truth), abs(theirs() - truth)
    name = "ece 1e6x10"
    threads = f"theirs on {torch.get_num_threads()} threads, ours on 1"
    return [
        compare(name, seconds, ours="focalibrate", peer="torchmetrics", bar=1.0, note=threads),
        compare(
            name,
            seconds,
            ours="focalibrate",
            peer="torchmetrics, unchecked",
            bar=1.0,
            note="ours still checks its input",
        ),
        Row(
            name=name,
            ours=ours_off,
            peer_name="torchmetrics",
            peer=theirs_off,
            ratio=ours_off / theirs_off,
            bar=1.0,
            unit="off",
            note=f"distance from correctly rounded sums, {truth:.9f}",
        ),
    ]


def full_confidence() -> list[Row]:
    """Compare ECE where half of the rows have confidence exactly 1."""
    probs = np.array([[1.0, 0.0], [0.953125, 0.046875]], dtype=np.float32)
    labels = np.array([1, 0])
    truth = float(abs(Fraction(1) + Fraction(0.953125) - 1) / 2)
    ours = ece(probs, labels)
    theirs = float(
        multiclass_calibration_error(
            torch.from_numpy(probs), torch.from_numpy(labels), 2, n_bins=N_BINS
        )
    )
    return [
        Row(
            name="ece with a confidence of 1.0",
            ours=abs(ours - truth),
            peer_name="torchmetrics",
            peer=abs(theirs - truth),
            ratio=abs(ours - truth) / abs(theirs - truth),
            bar=1.0,
            unit="off",
            note=f"ours {ours:.6f}, theirs {theirs:.6f} (an extra bin), exact {truth:.6f}",
        )
    ]


def inference() -> list[Row]:
    """Time the test with the RMS interval, and whole assessments, against their limits."""
    rows = []
    for n, k, limit in ((1_000_000, 10, 0.5), (10_000, 10, 0.3), (10_000, 100, 0.6)):
        probs, labels = simulate(n, k)

        def test_and_rms(probs: Probs = probs, labels: Labels = labels) -> None:
            cells = event_cells(read_event(probs, labels).cells())
            drawn = draw_residuals(cells, 1999, np.random.default_rng(0))
            _ = scale_test(cells, drawn).p_value
            rms_interval(cells.binned(cells.bin, BINS))

        is_large = n > 10_000
        function = test_and_rms if is_large else partial(assess, probs, labels)
        seconds = processor_seconds(function)
        rows.append(
            Row(
                name=f"{'test and RMS' if is_large else 'assess'} {n:,}x{k}",
                ours=seconds,
                peer_name="limit",
                peer=limit,
                ratio=seconds / limit,
                bar=1.0,
                note="processor time, 1,999 draws",
            )
        )
    return rows


def processor_seconds(function: Callable[[], object], *, rounds: int = 5) -> float:
    """Return the median processor time, which other programs hardly affect."""
    function()
    found = []
    for _ in range(rounds):
        start = process_time()
        function()
        found.append(process_time() - start)
    return median(found)


def run() -> list[Row]:
    """Run all of the above."""
    return [*classwise(), *top_label(), *full_confidence(), *inference()]
