"""Posterior recovery on networks trained on images."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import (
    Calibrator,
    FocalTemperatureScaling,
    Identity,
    PosteriorRecovery,
    TemperatureScaling,
    fit_temperature,
)
from focalibrate.metrics import Cells, nll
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.networks import (
    SET_NAMES,
    UNPUBLISHED,
    Fold,
    Problem,
    by_problem,
    folds,
    network_recipe,
    quiet,
    trained,
)
from focalibrate_papers.recipe import Recipe

LOSS = {0: "ce", 1: "fl1", 2: "fl2", 3: "fl3"}
"""Loss of the pool by gamma."""
SEEDS: Mapping[lab.Scale, int] = {"smallest": 2, "reduced": 3, "full": 10}
PROBLEMS: Mapping[lab.Scale, tuple[Problem, ...]] = {
    "smallest": ("fashion_mnist",),
    "reduced": ("cifar10", "fashion_mnist"),
    "full": ("cifar10", "fashion_mnist"),
}
GAMMAS: dict[lab.Scale, tuple[int, ...]] = {
    "smallest": (0, 1, 3),
    "reduced": (0, 1, 2, 3),
    "full": (0, 1, 2, 3),
}
SMOOTHED_GAMMAS: Mapping[lab.Scale, tuple[int, ...]] = GAMMAS | {"reduced": (0, 1, 2)}
"""Exponents of the networks trained with smoothed labels, which only this experiment trains."""
PARADIGMS = ("Standard", "TS_FL", "LS")
WITHOUT = {"Standard": "raw", "TS_FL": "TS_FL", "LS": "raw"}
"""The name in the rows of a paradigm's probabilities without Ψ."""
WITH = {"Standard": "Ψ", "TS_FL": "TS_FL+Ψ", "LS": "Ψ"}


def paradigms(problem: Problem, scale: lab.Scale) -> tuple[str, ...]:
    """Return the paradigms of a problem; at reduced scale CIFAR-10 has no smoothed networks."""
    return PARADIGMS[:2] if scale == "reduced" and problem == "cifar10" else PARADIGMS


@dataclass(frozen=True)
class Setting:
    """One curve of the paper's Fig. 5 and 6."""

    problem: Problem
    paradigm: str
    rows: lab.Rows
    """of its networks"""

    @property
    def gammas(self) -> list[int]:
        """Return the exponents, 0 first."""
        return self.rows.each("gamma")

    @property
    def name(self) -> str:
        """Return the data set and the paradigm."""
        return f"{SET_NAMES[self.problem]}, {self.paradigm}"

    @property
    def is_papers(self) -> bool:
        """Return whether the paper has the data set."""
        return self.problem not in UNPUBLISHED

    def values(self, metric: str, gamma: int, *, is_after: bool) -> NDArray[np.float64]:
        """Return a number per seed, fractions in percent; `is_after`: with Ψ."""
        method = (WITH if is_after else WITHOUT)[self.paradigm]
        unit = 1.0 if metric == "nll" else 100.0
        return unit * self.rows.values(f"{metric}, {method}", gamma=gamma)

    def change(self, metric: str, gamma: int) -> NDArray[np.float64]:
        """Return by how many points Ψ changes a metric, per seed."""
        after, before = (self.values(metric, gamma, is_after=x) for x in (True, False))
        return np.asarray(after - before)

    def eces(self, *, is_after: bool) -> NDArray[np.float64]:
        """Return the ECE by exponent and seed."""
        return np.array([self.values("ece", gamma, is_after=is_after) for gamma in self.gammas])


Found: TypeAlias = dict[tuple[Problem, str], Setting]


def settings_in(rows: lab.Rows) -> Found:
    """Return the problems and paradigms that have rows."""
    found: Found = {}
    for problem, own in by_problem(rows).items():
        for paradigm in PARADIGMS:
            networks = own.of(label_smoothing=SMOOTHING if paradigm == "LS" else 0.0)
            if len(networks):
                found[problem, paradigm] = Setting(problem, paradigm, networks)
    return found


def problems_in(found: Found) -> list[Problem]:
    """Return the problems of the settings."""
    return list(dict.fromkeys(problem for problem, _ in found))


FEWEST_ROWS = 20
"""Least number of rows of a bin, over all seeds, for its point to be drawn."""
_LOOKS = ((False, "without Ψ", 1), (True, "with Ψ", 2))


def score_table(found: Found) -> lab.Table:
    """Return every setting with its scores without and with Ψ."""
    body = []
    for setting in found.values():
        for gamma in setting.gammas:
            cells = [SET_NAMES[setting.problem], setting.paradigm, str(gamma)]
            cells += [
                lab.spread(setting.values(metric, gamma, is_after=is_after), digits)
                for metric, digits in (("ece", 2), ("gap", 2), ("nll", 4))
                for is_after in (False, True)
            ]
            body.append((*cells, lab.spread(setting.values("error", gamma, is_after=False))))
    return lab.Table(
        "Mean and standard deviation over seeds",
        (
            "data",
            "paradigm",
            "γ",
            "ECE %",
            "with Ψ",
            "gap %",
            "with Ψ",
            "NLL",
            "with Ψ",
            "error %",
        ),
        tuple(body),
        "ECE with 10 bins; gap: mean confidence − accuracy, above 0 if overconfident. Numbers "
        "are means of the two halves of the test rows.",
    )


def charts(found: Found) -> Iterator[Chart]:
    """Yield the reliability diagrams of each problem, then ECE against gamma."""
    for problem in problems_in(found):
        yield Chart(
            f"reliability-{problem.replace('_', '-')}",
            f"Reliability on {SET_NAMES[problem]} without and with Ψ, as in Fig. 4; all seeds "
            f"together. Above the diagonal: underconfident. Bins with fewer than {FEWEST_ROWS} "
            "rows are left out.",
            [
                _reliability(setting, gamma)
                for setting in found.values()
                if setting.problem == problem
                for gamma in setting.gammas[1:]
            ],
            columns=len(found[problem, "Standard"].gammas) - 1,
        )
    yield Chart(
        "ece",
        "ECE against γ without and with Ψ, as in Fig. 5 and 6: mean, smallest and largest value "
        "over the seeds.",
        [_ece_panel(setting) for setting in found.values()],
    )


def _reliability(setting: Setting, gamma: int) -> Panel:
    series = [Series([0.0, 1.0], [0.0, 1.0], style="dashed", color=6)]
    for is_after, label, color in _LOOKS:
        method = (WITH if is_after else WITHOUT)[setting.paradigm]
        n, sure, right = (
            setting.rows.curve(f"{what} in bin, {method}", gamma=gamma)[1]
            for what in ("rows", "confidence", "right")
        )
        seen = n * len(setting.rows.each("seed")) >= FEWEST_ROWS
        ece = setting.values("ece", gamma, is_after=is_after).mean()
        text = f"{label}: ECE {ece:.1f} %"
        points = sure[seen] / n[seen], right[seen] / n[seen]
        series.append(Series(*points, text, "line and points", color=color))
    title = f"{setting.paradigm}, γ = {gamma}"
    return Panel(title, "confidence", "accuracy", series, is_square=True)


def _ece_panel(setting: Setting) -> Panel:
    series = [
        Series.over_seeds(
            [float(gamma) for gamma in setting.gammas],
            setting.eces(is_after=is_after),
            label,
            color=color,
        )
        for is_after, label, color in _LOOKS
    ]
    return Panel(setting.name, "γ", "ECE, %", series)


COMPARABLE = 1.0
"""Points of ECE within which two losses count as comparable; the paper gives no number."""
SILENT = "the paper's text does not mention this data set"
_WORDS = {
    "Standard": 'Sec. 6.2: "although our transformation Ψ can greatly improve the performance for '
    'Standard in SVHN, it worsens the performance for Standard in CIFAR10" (ResNet110)',
    "TS_FL": 'Fig. 6: "Box plots of ECEs with varying γ for ResNet110 using TS_FL for CIFAR10 and '
    "CIFAR10-s, and LS for CIFAR10. It can be observed that using the transformation Ψ is "
    'preferable."',
}
_WORDS["LS"] = _WORDS["TS_FL"]


def claims(found: Found) -> Iterator[lab.ClaimResult]:
    """Yield one result per claim."""
    yield from _change_by_psi(found)
    yield _same_error(found)
    for problem in problems_in(found):
        yield from _temperature_results(found[problem, "TS_FL"], found[problem, "Standard"])
    yield from _smoothing_results(found)
    for problem in problems_in(found):
        yield _against_cross_entropy(found[problem, "Standard"])
    yield _most_settings(found)
    yield _overconfident_ones(found)


def _change_by_psi(found: Found) -> Iterator[lab.ClaimResult]:
    """Yield the sign of the change by Ψ: the paper says that Standard gets worse on CIFAR-10."""
    for setting in found.values():
        below = not (setting.is_papers and setting.paradigm == "Standard")
        for gamma in setting.gammas[1:]:
            gap = setting.values("gap", gamma, is_after=False).mean()
            side = "over" if gap > 0 else "under"
            yield lab.side_result(
                setting.change("ece", gamma),
                claim=f"Ψ {'lowers' if below else 'raises'} the ECE of FL-{gamma}: {setting.name}",
                what="ECE with Ψ − ECE without, paired by seed",
                paper_value=_WORDS[setting.paradigm] if setting.is_papers else SILENT,
                unit="points of ECE, with Ψ − without",
                below=below,
                is_papers=setting.is_papers,
                note=f"Without Ψ, {side}confident by {abs(gap):.1f} points on average.",
            )


def _same_error(found: Found) -> lab.ClaimResult:
    changes = [s.change("error", g) for s in found.values() for g in s.gammas]
    return lab.judged(
        "psi-images/same-error",
        float(max(np.abs(change).max() for change in changes)),
        covers=True,
    )


def _temperature_results(scaled: Setting, standard: Setting) -> Iterator[lab.ClaimResult]:
    name, is_papers = SET_NAMES[scaled.problem], scaled.is_papers
    before, after = (
        lab.mean_interval(_of_focal(scaled, is_after=x) - _of_focal(standard, is_after=x))
        for x in (False, True)
    )
    yield lab.judged("psi-images/ts-raises", before, name=name, is_papers=is_papers)
    yield lab.judged("psi-images/ts-lowers", after, name=name, is_papers=is_papers)
    yield _rises_with_gamma(scaled)


def _of_focal(setting: Setting, *, is_after: bool) -> NDArray[np.float64]:
    """Return the ECE per seed, the mean over the exponents above 0."""
    return np.asarray(setting.eces(is_after=is_after)[1:].mean(axis=0))


def _rises_with_gamma(setting: Setting) -> lab.ClaimResult:
    last, is_papers = setting.gammas[-1], setting.is_papers
    eces = setting.eces(is_after=False)
    return lab.judged(
        "psi-images/rises-with-gamma",
        eces[-1] - eces[0],
        name=setting.name,
        last=last,
        is_papers=is_papers,
    )


def _smoothing_results(found: Found) -> Iterator[lab.ClaimResult]:
    for setting in found.values():
        if setting.paradigm != "LS":
            continue
        yield _rises_with_gamma(setting)
        without, after = (np.ptp(setting.eces(is_after=x), axis=0) for x in (False, True))
        yield lab.judged(
            "psi-images/depends-less",
            after - without,
            name=setting.name,
            is_papers=setting.is_papers,
        )


def _against_cross_entropy(standard: Setting) -> lab.ClaimResult:
    plain, name = standard.values("ece", 0, is_after=False), SET_NAMES[standard.problem]
    return lab.judged(
        "psi-images/near-ce",
        _of_focal(standard, is_after=True) - plain,
        comparable=COMPARABLE,
        name=name,
        bound=COMPARABLE,
    )


def _most_settings(found: Found) -> lab.ClaimResult:
    changes = [s.change("ece", g).mean() for s in found.values() for g in s.gammas[1:]]
    return lab.judged(
        "psi-images/most-settings",
        lab.share_interval(int(np.sum(np.array(changes) < 0)), len(changes)),
        n_changes=len(changes),
    )


def _overconfident_ones(found: Found) -> lab.ClaimResult:
    standard = [s for s in found.values() if s.paradigm == "Standard"]
    networks = [(s, gamma) for s in standard for gamma in s.gammas[1:]]
    gaps = np.concatenate([s.values("gap", gamma, is_after=False) for s, gamma in networks])
    changes = np.concatenate([s.change("ece", gamma) for s, gamma in networks])
    agree = int(np.sum((gaps > 0) == (changes > 0)))
    return lab.judged(
        "psi-images/overconfident",
        lab.share_interval(agree, gaps.size),
        unit=f"of {gaps.size} networks, {int((gaps > 0).sum())} of them overconfident",
    )


def finding(found: Found) -> str:
    """Return the main result in one sentence."""
    parts = []
    for problem in problems_in(found):
        setting = found[problem, "Standard"]
        gamma = setting.gammas[-1]
        before, after = (setting.eces(is_after=x)[-1].mean() for x in (False, True))
        parts.append(f"{before:.1f} → {after:.1f} on {SET_NAMES[problem]} (FL-{gamma})")
    return (
        f"ECE in % without → with Ψ: {', '.join(parts)}. These networks are trained on few images "
        "without augmentation, where paper 000 says that Ψ is less effective."
    )


NAME = "psi-images"
N_BINS = 10
SMOOTHING = 0.1


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return one run per network: every gamma with the labels unchanged, and smoothed for LS."""
    exponents = {0.0: GAMMAS[scale], SMOOTHING: SMOOTHED_GAMMAS[scale]}
    return [
        lab.Task.of(
            NAME, problem=problem, gamma=gamma, label_smoothing=smoothing, seed=seed, scale=scale
        )
        for problem in PROBLEMS[scale]
        for smoothing in ((0.0, SMOOTHING) if "LS" in paradigms(problem, scale) else (0.0,))
        for gamma in exponents[smoothing]
        for seed in range(SEEDS[scale])
    ]


def _recipe(task: lab.Task) -> Recipe:
    recipe = network_recipe(
        task["problem"], LOSS[task["gamma"]], seed=task["seed"], scale=task["scale"]
    )
    return replace(recipe, label_smoothing=task["label_smoothing"])


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Evaluate one network without and with Ψ, and with a temperature by focal loss before it."""
    found = trained(_recipe(task), folders)
    gamma, parts = float(task["gamma"]), folds(found.test_logits, found.test_labels)
    methods: dict[str, list[Calibrator]] = {
        "raw": [Identity()] * 2,
        "Ψ": [PosteriorRecovery(gamma)] * 2,
    }
    if task["label_smoothing"] == 0:
        fits, n_at_edge = _temperatures(parts, gamma)
        methods["TS_FL"] = [TemperatureScaling(fit.temperature) for fit in fits]
        methods["TS_FL+Ψ"] = [*fits]
        yield "temperature, TS_FL", float(np.mean([fit.temperature for fit in fits]))
        yield "fits at the edge, TS_FL", n_at_edge
    for name, calibrators in methods.items():
        yield from _scores(name, calibrators, parts)


def _temperatures(
    parts: tuple[Fold, Fold], gamma: float
) -> tuple[list[FocalTemperatureScaling], int]:
    """Return the fit of each half, and how many of them have no minimum."""
    fits, n_at_edge = [], 0
    for part in parts:
        with quiet():
            fit = fit_temperature(part.fit_logits, part.fit_labels, criterion="focal", gamma=gamma)
        fits.append(FocalTemperatureScaling(gamma, fit.temperature))
        n_at_edge += bool(fit.report and fit.report.at_bound)
    return fits, n_at_edge


def _scores(
    name: str, calibrators: list[Calibrator], parts: tuple[Fold, Fold]
) -> Iterator[tuple[str, float] | tuple[str, float, float]]:
    """Yield the scores of one method, means of the two halves, and the sums of its diagram."""
    scores, tables = [], []
    for calibrator, part in zip(calibrators, parts, strict=True):
        log_probs = np.asarray(calibrator.log_probs(part.logits))
        table = Cells.of_top_label(np.exp(log_probs), part.labels, bins=N_BINS)
        gap = float((table.probability - table.outcome).sum() / table.weight.sum())
        error = float(np.mean(log_probs.argmax(axis=1) != part.labels))
        log_loss = nll(labels=part.labels, log_probs=log_probs)
        scores.append((table.ece(), gap, error, log_loss))
        tables.append(table)
    for metric, value in zip(("ece", "gap", "error", "nll"), np.mean(scores, axis=0), strict=True):
        yield f"{metric}, {name}", float(value)
    both = tables[0] + tables[1]
    sums = {"rows": both.weight, "confidence": both.probability, "right": both.outcome}
    for what, numbers in sums.items():
        for place, number in enumerate(numbers):
            yield f"{what} in bin, {name}", float(number), float(place)


EXPERIMENT = lab.Experiment.of(
    __name__, tables=(score_table,), charts=(charts,), look=settings_in, network=_recipe
)
