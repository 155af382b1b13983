"""Our calibrators compared with the packages they are named after: the log loss must be the same.

    python -m benchmarks.references

Needs the packages of ``benchmarks/peers.txt``. Two simulated data sets and, if the arena's data
exist, tables of it. Prints a table, writes it to ``results/references``, and writes
``tests/vectors/references.json``: data, versions and the packages' log losses, with which
``tests/vectors/test_references.py`` checks ours without those packages.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._study import markdown
from benchmarks.arena import listing, load
from focalibrate.calibrate import fit

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]
Peer = Callable[[Floats, Labels, Floats], Any]
"""From calibration probabilities and labels, and other probabilities, to those calibrated."""

ROOT = Path(__file__).parents[1]
ARENA = ROOT.parent / "shared" / "data" / "arena"
TOLERANCE = 1e-4
LEAST = float(np.finfo(np.float32).tiny)
"""The value used for a probability of 0."""


@dataclass(frozen=True, eq=False)
class Data:
    """Log-probabilities and labels to fit on, and to score on."""

    cal: Floats
    cal_labels: Labels
    test: Floats
    test_labels: Labels


@dataclass(frozen=True)
class Reference:
    """Another package's version of one of our methods."""

    method: str
    """Ours."""
    package: str
    name: str
    """Its name in the package."""
    calibrated: Peer
    classes: str = "any"
    """``"two"``, ``"many"`` or ``"any"``."""
    why: str = ""
    """Why the log losses differ, if that is by design."""


def _probmetrics(name: str, **options: Any) -> Peer:
    def calibrated(cal: Floats, labels: Labels, probs: Floats) -> Any:
        from probmetrics.calibrators import get_calibrator

        found = get_calibrator(name, **options)
        found.fit(cal, labels)
        return found.predict_proba(probs)

    return calibrated


def _probmetrics_ets(loss: str) -> Peer:
    def calibrated(cal: Floats, labels: Labels, probs: Floats) -> Any:
        from probmetrics.calibrators import ETSCalibrator

        found = ETSCalibrator(loss=loss)
        found.fit(cal, labels)
        return found.predict_proba(probs)

    return calibrated


def _probmetrics_vector(cal: Floats, labels: Labels, probs: Floats) -> Any:
    from probmetrics.calibrators import VectorScalingCalibrator

    found = VectorScalingCalibrator()
    found.fit(cal, labels)
    return found.predict_proba(probs)


def _probmetrics_histogram(cal: Floats, labels: Labels, probs: Floats) -> Any:
    from probmetrics.calibrators import BinaryHistogramBinningCalibrator
    from probmetrics.calibrators.base import MulticlassOneVsRestCalibrator

    one = BinaryHistogramBinningCalibrator(n_bins=15)
    found = one if cal.shape[1] == 2 else MulticlassOneVsRestCalibrator(one)
    found.fit(cal, labels)
    return found.predict_proba(probs)


def _netcal(module: str, name: str, **options: Any) -> Peer:
    def calibrated(cal: Floats, labels: Labels, probs: Floats) -> Any:
        from importlib import import_module

        found = getattr(import_module(f"netcal.{module}"), name)(**options)
        two = cal.shape[1] == 2
        found.fit(cal[:, 1] if two else cal, labels)
        return found.transform(probs[:, 1] if two else probs)

    return calibrated


def _betacal(cal: Floats, labels: Labels, probs: Floats) -> Any:
    from betacal import BetaCalibration

    found = BetaCalibration(parameters="abm")
    found.fit(cal[:, 1], labels)
    return found.predict(probs[:, 1])


def _venn_abers(cal: Floats, labels: Labels, probs: Floats) -> Any:
    from venn_abers import VennAbersCalibrator

    found = VennAbersCalibrator()
    return found.predict_proba(p_cal=cal, y_cal=labels, p_test=probs, va_type="one_vs_all")


def _isotonic(cal: Floats, labels: Labels, probs: Floats) -> Any:
    """scikit-learn's regression, one class against the rest, with our two end rows."""
    from sklearn.isotonic import IsotonicRegression

    columns = []
    for k in range(cal.shape[1]):
        is_class = labels == k
        x, share = cal[:, k], is_class.mean()
        xs = np.concatenate([x, [x.min(), x.max()]])
        ys = np.concatenate([is_class, [1.0, 0.0]])
        weights = np.concatenate([np.ones(len(x)), [share, 1.0 - share]])
        found = IsotonicRegression(out_of_bounds="clip").fit(xs, ys, weights)
        columns.append(found.predict(probs[:, k]))
    return np.stack(columns, axis=1)


def _dirichlet(cal: Floats, labels: Labels, probs: Floats) -> Any:
    """Minimise dirichletcal's objective by SciPy: the package itself needs an old JAX."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax, softmax

    (n, k), x = cal.shape, np.log(cal)
    free = 1.0 - np.eye(k)

    def loss(flat: Floats) -> tuple[float, Floats]:
        matrix, bias = flat[: k * k].reshape(k, k), flat[k * k :]
        z = x @ matrix.T + bias
        value = -log_softmax(z, axis=1)[np.arange(n), labels].mean()
        slope = (softmax(z, axis=1) - np.eye(k)[labels]) / n
        weight = 1e-3 / (k * (k - 1)) * free
        value += (weight * matrix**2).sum() + 1e-3 / k * (bias**2).sum()
        gradient = slope.T @ x + 2.0 * weight * matrix
        return value, np.concatenate([gradient.ravel(), slope.sum(axis=0) + 2e-3 / k * bias])

    start = np.concatenate([np.eye(k).ravel(), np.zeros(k)])
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return softmax(np.log(probs) @ found[: k * k].reshape(k, k).T + found[k * k :], axis=1)


ENDS = "ours has one more row at both ends of its curves, so that no class gets probability 0"
FLAT = "the penalty is weak and the minimum flat: the fitted rows agree, new rows need not"
EMPTY = "in a bin without rows theirs takes the frequency of the class, ours the bin's centre"
TIES = "ours counts scores that agree to the last digits as one; one row of 300 differs"
SEARCH = (
    "our scales cannot be negative, theirs can; and their search may stop short of the minimum"
)
REFERENCES = (
    Reference("temperature", "probmetrics", "temp-scaling", _probmetrics("temp-scaling")),
    Reference(
        "temperature", "netcal", "TemperatureScaling", _netcal("scaling", "TemperatureScaling")
    ),
    Reference(
        "ensemble_temperature", "probmetrics", "ETS by cross-entropy", _probmetrics_ets("ce")
    ),
    Reference("platt", "probmetrics", "affine-scaling", _probmetrics("affine-scaling"), "two"),
    Reference(
        "platt", "netcal", "LogisticCalibration", _netcal("scaling", "LogisticCalibration"), "two"
    ),
    Reference(
        "quadratic", "probmetrics", "quadratic-scaling", _probmetrics("quadratic-scaling"), "two"
    ),
    Reference("beta", "betacal", "BetaCalibration", _betacal, "two"),
    Reference("vector", "probmetrics", "VectorScaling", _probmetrics_vector, "many", SEARCH),
    Reference("structured_vector", "probmetrics", "svs", _probmetrics("svs")),
    Reference("structured_matrix", "probmetrics", "sms", _probmetrics("sms")),
    Reference("dirichlet", "scipy", "dirichletcal's objective", _dirichlet, "many", FLAT),
    Reference("venn_abers", "venn-abers", "VennAbersCalibrator", _venn_abers, why=TIES),
    Reference("isotonic", "scikit-learn", "IsotonicRegression with our ends", _isotonic),
    Reference("isotonic", "probmetrics", "isotonic", _probmetrics("isotonic"), why=ENDS),
    Reference(
        "histogram", "netcal", "HistogramBinning", _netcal("binning", "HistogramBinning", bins=15)
    ),
    Reference("histogram", "probmetrics", "histogram, uniform", _probmetrics_histogram, why=EMPTY),
)
TABLES = ("credit_a", "diabetes", "phoneme", "vehicle", "segment", "waveform5000")
MODELS = ("LogisticRegression", "XGBoost", "MLP")
"""Models of the arena whose scores have no zeros, which packages treat differently."""


def simulated(n_classes: int, *, n: int = 300) -> Data:
    """Return rounded predictions of a model that is overconfident, skewed and nonlinear."""
    rng = np.random.default_rng(n_classes)
    truth = 1.5 * rng.standard_normal((2 * n, n_classes))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    shift = 0.7 * rng.standard_normal(n_classes)
    logits = np.round(1.8 * truth + shift + 0.5 * np.tanh(truth), 3)
    return Data(logits[:n], labels[:n], logits[n:], labels[n:])


def arena_data() -> Iterator[tuple[str, Data]]:
    """Yield the chosen experiments of the arena; none if its data do not exist."""
    for about in listing(ARENA) if ARENA.is_dir() else ():
        if about["table"] in TABLES and about["model"] in MODELS:
            found = load(ARENA, about)
            data = Data(
                found.cal.astype(float), found.cal_labels,
                found.test.astype(float), found.test_labels,
            )  # fmt: skip
            yield f"{about['table']} {about['model']}", data


def log_loss(probs: Any, labels: Labels) -> float:
    """Return the mean log loss; one column is the probability of class 1."""
    p = np.asarray(probs, dtype=np.float64)
    if p.ndim == 1 or p.shape[1] == 1:
        p = np.stack([1.0 - p.reshape(-1), p.reshape(-1)], axis=1)
    p = p / p.sum(axis=1, keepdims=True)
    return float(-np.log(np.maximum(p[np.arange(len(labels)), labels], LEAST)).mean())


def our_losses(method: str, data: Data) -> list[float]:
    """Return our log loss on the rows fitted on and on the others, from log-probabilities."""
    cal, test = (z - np.logaddexp.reduce(z, axis=1)[:, None] for z in (data.cal, data.test))
    # The packages fit by maximum likelihood: labels are not smoothed.
    options = {"pseudo_count": 0.0} if method in ("platt", "quadratic", "beta") else {}
    found: Any = fit(cal, data.cal_labels, method=method, **options)
    return [
        log_loss(found.probs(cal), data.cal_labels),
        log_loss(found.probs(test), data.test_labels),
    ]


def their_losses(reference: Reference, data: Data) -> list[float]:
    """Return the reference's log loss on the rows fitted on and on the others."""
    cal, test = (z - np.logaddexp.reduce(z, axis=1)[:, None] for z in (data.cal, data.test))
    cal, test = np.exp(cal), np.exp(test)
    return [
        log_loss(reference.calibrated(cal, data.cal_labels, cal), data.cal_labels),
        log_loss(reference.calibrated(cal, data.cal_labels, test), data.test_labels),
    ]


def applies(reference: Reference, data: Data) -> bool:
    """Return whether a reference is for this number of classes."""
    return reference.classes == "any" or (reference.classes == "two") == (data.cal.shape[1] == 2)


def compared(sets: dict[str, Data]) -> Iterator[dict[str, Any]]:
    """Yield one record per reference and data set."""
    for name, data in sets.items():
        for reference in REFERENCES:
            if not applies(reference, data):
                continue
            try:
                theirs: list[float] | None = their_losses(reference, data)
                note = reference.why
            except Exception as error:
                theirs, note = None, f"{type(error).__name__}: {error}"[:100]
            yield {
                "data": name,
                "method": reference.method,
                "package": reference.package,
                "name": reference.name,
                "ours": our_losses(reference.method, data),
                "theirs": theirs,
                "note": note,
            }
            print(".", end="", flush=True)
    print()


def table(records: list[dict[str, Any]]) -> str:
    """Return the largest differences over the data sets."""
    body = []
    for r in REFERENCES:
        mine = [x for x in records if (x["package"], x["name"]) == (r.package, r.name)]
        mine = [x for x in mine if x["theirs"] is not None]
        if not mine:
            continue
        gaps = np.array([np.subtract(x["ours"], x["theirs"]) for x in mine])
        ends = zip(gaps.min(0), gaps.max(0), strict=True)
        spans = [f"{low:+.1e} to {high:+.1e}" for low, high in ends]
        equal = "equal" if np.abs(gaps).max() <= TOLERANCE else r.why
        who = f"{r.package} {version(r.package)}, {r.name}"
        body.append((f"`{r.method}`", who, len(mine), *spans, equal))
    head = ("method", "reference", "data sets", "ours − theirs, fitted rows", "test rows", "")
    return markdown(head, body)


def main() -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "references")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    # First: a package that is missing would only be missing from the table.
    versions = {p: version(p) for p in sorted({r.package for r in REFERENCES})}
    sets = {"two classes": simulated(2), "four classes": simulated(4)}
    records = list(compared(sets | dict(arena_data())))
    lines = table(records)
    print(lines)
    for x in records:
        if x["theirs"] is None or np.abs(np.subtract(x["ours"], x["theirs"])).max() > TOLERANCE:
            print(x)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "table.md").write_text(lines)
    found = {"command": "python -m benchmarks.references", "versions": versions}
    data = {
        name: {
            "cal": d.cal.tolist(), "cal_labels": d.cal_labels.tolist(),
            "test": d.test.tolist(), "test_labels": d.test_labels.tolist(),
        }
        for name, d in sets.items()
    }  # fmt: skip
    kept = [_rounded(x) for x in records if x["data"] in sets]
    vectors = [{k: v for k, v in x.items() if k != "ours"} for x in kept]
    path = ROOT / "tests" / "vectors" / "references.json"
    path.write_text(_json(found | {"records": vectors, "data": data}))


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    both = {k: record[k] and [round(v, 7) for v in record[k]] for k in ("ours", "theirs")}
    return record | both


def _json(value: dict[str, Any]) -> str:
    """Return JSON with one record per line."""
    lines = ",\n".join("  " + json.dumps(x) for x in value["records"])
    head = json.dumps({k: v for k, v in value.items() if k not in ("records",)})
    return head[:-1] + ', "records": [\n' + lines + "\n]}\n"


if __name__ == "__main__":
    main()
