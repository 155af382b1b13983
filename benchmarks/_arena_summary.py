"""Summary of the arena's results: win rates with intervals, tables and a figure."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._study import Record, markdown, read_rows

Key = tuple[str, str]
Results = dict[Key, dict[str, dict[str, float]]]
"""``(table, model) -> method -> score -> value``."""

TIE = 1e-7
AUTO = "focalibrate auto"
N_RESAMPLES = 2000
GROUPS = {
    "two classes": lambda e: e["K"] == 2 and e["benchmark"] != "published",
    "many classes": lambda e: e["K"] > 2 and e["benchmark"] != "published",
    "published, many": lambda e: e["K"] > 2 and e["benchmark"] == "published",
}


def read_results(path: Path) -> Results:
    """Return the scores of a results file."""
    found: Results = {}
    for row in read_rows(path):
        value = {s: float(row[s]) if row[s] else np.inf for s in ("logloss", "brier")}
        value["seconds"] = float(row["seconds"] or 0)
        found.setdefault((row["table"], row["model"]), {})[row["method"]] = value
    return found


def win(a: float, b: float) -> float:
    """Return 1 if `a` is lower, a half for a tie."""
    return 0.5 if abs(a - b) < TIE or (np.isinf(a) and np.isinf(b)) else float(a < b)


def write_summary(
    listed: dict[Key, dict[str, Any]], results: Path, peers_path: Path | None, out: Path
) -> None:
    """Write ``summary.json``, the tables, the figures and the page.

    Args:
        listed: what is known about every experiment.
        results: our results.
        peers_path: results of other packages, which ours are compared with if there are any.
        out: folder to write.
    """
    ours = read_results(results)
    peers = {} if peers_path is None else read_results(peers_path)
    summary = {}
    for group, is_in in GROUPS.items():
        keys = [k for k, e in listed.items() if k in ours and is_in(e)]
        if keys:
            summary[group] = summarise(keys, ours, peers)
    lines = json.dumps(summary).replace("}, ", "},\n")  # one per method
    (out / "summary.json").write_text(lines + "\n")
    (out / "table.md").write_text(_table(summary))
    if peers:
        (out / "binned.md").write_text(binned(listed, ours, peers))
    cuts = gamma_cuts(listed, read_rows(results))
    (out / "gamma.md").write_text(gamma_table(cuts))
    if cuts:
        draw_gamma(cuts, out / "gamma.svg")
    print((out / "table.md").read_text())


def summarise(
    keys: list[tuple[str, str]], ours: Results, peers: Results
) -> dict[str, dict[str, Any]]:
    """Return, for each method, win rates and gains with intervals over resampled tables."""
    base = "Base-model" if peers else "identity"
    everyone: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for key in keys:
        for name, value in ours[key].items():
            everyone.setdefault(f"focalibrate {name}", {})[key] = value
        for name, value in peers.get(key, {}).items():
            everyone.setdefault(name, {})[key] = value
    found = {}
    for name, scores in everyone.items():
        if len(scores) < len(keys):
            continue
        per_table: dict[str, list[list[float]]] = {}
        for key, value in scores.items():
            field = peers.get(key) or {f"focalibrate {n}": v for n, v in ours[key].items()}
            rivals = [v for n, v in field.items() if n != name]
            both = ("logloss", "brier")
            numbers = [np.mean([win(value[s], r[s]) for r in rivals]) for s in both]
            raw = field.get(base, field.get("focalibrate identity"))
            if raw is not None:
                numbers += [raw[s] - value[s] for s in both]
                numbers.append(float(value["logloss"] > raw["logloss"] + TIE))
            if AUTO in everyone:  # both last: other columns keep their places
                numbers += [0.0] * (5 - len(numbers))
                numbers += [value[s] - everyone[AUTO][key][s] for s in both]
            per_table.setdefault(key[0], []).append([float(x) for x in numbers])
        found[name] = _with_intervals(list(per_table.values())) | {
            "n": len(scores),
            "seconds": float(np.mean([v["seconds"] for v in scores.values()])),
        }
    return dict(sorted(found.items(), key=lambda item: -item[1]["win_logloss"][0]))


NAMES = (
    *("win_logloss", "win_brier", "gain_logloss", "gain_brier", "worse_than_model"),
    *("above_auto_logloss", "above_auto_brier"),
)


def _with_intervals(tables: list[list[list[float]]]) -> dict[str, Any]:
    """Return each mean over experiments with a 95 % interval from resampled tables."""
    sums = np.array([np.sum(t, axis=0) for t in tables])
    counts = np.array([len(t) for t in tables], dtype=float)
    mean = sums.sum(axis=0) / counts.sum()
    picks = np.random.default_rng(0).integers(len(tables), size=(N_RESAMPLES, len(tables)))
    drawn = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)[:, None]
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return {
        name: [round(float(v), 6) for v in triple]
        for name, *triple in zip(NAMES, mean, low, high, strict=False)
    }


def _table(summary: dict[str, dict[str, dict[str, Any]]]) -> str:
    head = (
        "method",
        "log loss ×100 above auto's",
        "Brier ×100 above auto's",
        "wins by log loss",
        "wins by Brier",
        "worse than the model",
        "seconds",
    )
    parts = []
    for group, rows in summary.items():
        n = next(iter(rows.values()))["n"]
        table = markdown(head, [_cells(name, row) for name, row in rows.items()])
        parts.append(f"### {group}: {n} experiments\n\n{table}")
    return "\n".join(parts)


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    label = f"**{name}**" if name == "focalibrate auto" else name

    def share(key: str) -> str:
        mean, low, high = row[key]
        return f"{mean:.3f} [{low:.3f}, {high:.3f}]"

    def above(key: str) -> str:
        if key not in row or not np.isfinite(row[key]).all():
            return "–"
        mean, low, high = (f"{100 * v:+.2f}".replace("-", "−") for v in row[key])
        return f"{mean} [{low}, {high}]"

    worse = f"{100 * row['worse_than_model'][0]:.1f} %"
    differences = above("above_auto_logloss"), above("above_auto_brier")
    shares = share("win_logloss"), share("win_brier")
    return [label, *differences, *shares, worse, f"{row['seconds']:.3f}"]


MANY = {
    "Isotonic": "isotonic regression (scikit-learn's)",
    "Hist-uniform": "histogram binning, 10 equal bins",
    "Hist-quantile": "histogram binning, 10 quantiles",
}
OURS_MANY = {
    "isotonic": "our isotonic regression",
    "histogram": "our histogram binning, 15 equal bins",
}


def binned(listed: dict[Key, dict[str, Any]], ours: Results, peers: Results) -> str:
    """Return how often binned and isotonic curves do worse than no calibration."""
    keys = [k for k, e in listed.items() if e["K"] > 2 and k in peers]
    body = []
    for field, names in ((peers, MANY), (ours, OURS_MANY)):
        for name, words in names.items():
            known = [k for k in keys if name in field.get(k, {})]
            if not known:
                continue
            gap = [field[k][name]["logloss"] - peers[k]["Base-model"]["logloss"] for k in known]
            body.append((words, len(known), f"{100 * np.mean([g > TIE for g in gap]):.0f} %"))
    return (
        "With more than two classes, one curve per class, renormalised, often has a higher log "
        "loss on new rows than no calibration at all:\n\n"
    ) + markdown(("method", "many-class experiments", "worse than uncalibrated"), body)


@dataclass(frozen=True)
class Cut:
    """A kind of experiments, and the gain by the second parameter of focal temperature there."""

    name: str
    n: int
    gain: tuple[float, float, float]
    """Log loss of temperature minus that of focal temperature, times 100, with an interval."""
    share: tuple[float, float, float]
    """Fraction of experiments with a gain, in percent."""


def gamma_cuts(listed: dict[Key, dict[str, Any]], rows: list[Record]) -> list[Cut]:
    """Return where the second parameter of focal temperature scaling lowers the test log loss."""
    loss = {(r["table"], r["model"], r["method"]): float(r["logloss"]) for r in rows}
    right = {
        (r["table"], r["model"]): float(r["accuracy"])
        for r in rows
        if r["method"] == "temperature"
    }
    gains = {}
    for key in listed:
        pair = [(*key, m) for m in ("temperature", "focal_temperature")]
        if all(p in loss for p in pair):
            gains[key] = 100 * (loss[pair[0]] - loss[pair[1]])
    about = {k: listed[k] for k in gains}
    cuts: dict[str, Any] = {
        "all": lambda k: True,
        "2 classes": lambda k: about[k]["K"] == 2,
        "3 to 10 classes": lambda k: 3 <= about[k]["K"] <= 10,
        "more classes": lambda k: about[k]["K"] > 10,
        "up to 500 rows": lambda k: about[k]["n_cal"] <= 500,
        "501 to 2,000 rows": lambda k: 500 < about[k]["n_cal"] <= 2000,
        "more rows": lambda k: about[k]["n_cal"] > 2000,
        "accuracy below 80 %": lambda k: right[k] < 0.8,
        "accuracy 80 to 95 %": lambda k: 0.8 <= right[k] < 0.95,
        "accuracy from 95 %": lambda k: right[k] >= 0.95,
        "trained with focal loss": lambda k: bool(about[k].get("gamma")),
        "given as probabilities": lambda k: about[k]["kind"] == "probs",
    }
    found = []
    for name, is_in in cuts.items():
        tables: dict[str, list[list[float]]] = {}
        for key in about:
            if is_in(key):
                numbers = [gains[key], 100 * win(0.0, gains[key])]
                tables.setdefault(key[0], []).append([float(x) for x in numbers])
        if tables:
            both = _with_intervals(list(tables.values()))
            n = sum(map(len, tables.values()))
            found.append(Cut(name, n, tuple(both["win_logloss"]), tuple(both["win_brier"])))
    return found


def gamma_table(cuts: list[Cut]) -> str:
    """Return where the second parameter helps, as a table."""
    body = []
    for cut in cuts:
        mean, low, high = cut.gain
        share = "{:.0f} % [{:.0f}, {:.0f}]".format(*cut.share)
        body.append((cut.name, cut.n, f"{mean:.2f} [{low:.2f}, {high:.2f}]", share))
    return markdown(("experiments", "number", "gain in log loss ×100 by γ", "better with γ"), body)


def draw_gamma(cuts: list[Cut], path: Path) -> None:
    """Draw the gain by the second parameter, with intervals."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for y, cut in enumerate(reversed(cuts)):
        for axes, (mean, low, high) in ((left, cut.gain), (right, cut.share)):
            axes.plot([low, high], [y, y], color="#475569", lw=2)
            axes.plot(mean, y, "o", color="#c2410c")
    left.set_yticks(range(len(cuts)), [f"{c.name} ({c.n})" for c in reversed(cuts)])
    left.axvline(0.0, color="#94a3b8", lw=1)
    right.axvline(50.0, color="#94a3b8", lw=1)
    left.set_xlabel("gain in log loss ×100 by γ")
    right.set_xlabel("experiments better with γ, %")
    # The same file every time; text as text, not as the outlines of its letters.
    with rc_context({"svg.hashsalt": "focalibrate", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
