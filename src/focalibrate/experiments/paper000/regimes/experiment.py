"""Where focal training is over- and underconfident: φ, its thresholds, max η against max q."""

from collections.abc import Sequence

from focalibrate.experiments.engine.conclude import concluding, plainly
from focalibrate.experiments.engine.experiment import Experiment, Scale, Task
from focalibrate.experiments.paper000.regimes.claims import SLIDES, claims, finding
from focalibrate.experiments.paper000.regimes.figures import (
    FIGURE_CLASSES,
    FOOTNOTE_CLASSES,
    SEARCHED_CLASSES,
    SEARCHED_GAMMAS,
    counterexamples,
    falls,
    few_classes,
    figure_1,
    figure_2,
    thresholds,
)
from focalibrate.experiments.paper000.regimes.numbers import COUNTEREXAMPLES, GAMMAS, run

NAME = "regimes"
SEEDS = (0, 1, 2)


def tasks(scale: Scale) -> Sequence[Task]:
    """Return the computations: the same at each scale, but on coarser grids at the smallest."""
    n = 40 if scale == "smallest" else 240
    found = [Task.of(NAME, part="factor", gamma=g, n=n) for g in GAMMAS]
    found += [
        Task.of(NAME, part="minimiser", n_classes=k, gamma=g, n=n)
        for k in FIGURE_CLASSES
        for g in GAMMAS
    ]
    found += [
        Task.of(NAME, part="two levels", n_classes=k, gamma=g, n=n)
        for k in SEARCHED_CLASSES
        for g in SEARCHED_GAMMAS
    ]
    found += [Task.of(NAME, part="vectors", seed=seed, n=10 * n) for seed in SEEDS]
    found += [
        Task.of(NAME, part="counterexample", case=i) for i in range(1, len(COUNTEREXAMPLES) + 1)
    ]
    found += [Task.of(NAME, part="slides", gamma=g) for g in SLIDES]
    found += [Task.of(NAME, part="footnote", n_classes=k, n=n) for k in FOOTNOTE_CLASSES]
    return [*found, Task.of(NAME, part="thresholds", n=n)]


def describe(task: Task) -> tuple[str, int]:
    """Return the part with its classes and exponent, and the seed (0 if nothing is random)."""
    settings = dict(task.settings)
    words = [str(task["part"])]
    words += [f"K={settings['n_classes']}"] if "n_classes" in settings else []
    words += [f"γ={settings['gamma']:g}"] if "gamma" in settings else []
    words += [f"{settings['case']}"] if "case" in settings else []
    return " ".join(words), int(settings.get("seed", 0))


conclude = concluding(
    NAME,
    plainly,
    claims=claims,
    tables=lambda rows: [thresholds(rows), falls(rows), counterexamples(rows)],
    charts=lambda rows: [figure_1(rows), figure_2(rows), few_classes(rows)],
    finding=finding,
)


EXPERIMENT = Experiment(
    name=NAME,
    code="E1",
    source="Paper 000 (Charoenphakdee et al. 2021), Fig. 1-2, Thm. 8, footnote 2; slides 001",
    title="Where focal training is over- and underconfident",
    protocol="Computed, without training: φ and its thresholds; the focal minimiser of "
    "posteriors with one class above equal others; random vectors of 3 to 300 classes; and a "
    "search for overconfidence among all vectors of two levels on a grid. `focalibrate theory` "
    "checks the same theorems in other ways, including direct minimisation of the risk.",
    smaller={
        "smallest": "Coarse grids and few random vectors, only to test the program.",
        "reduced": "",
        "full": "",
    },
    tasks=tasks,
    run=run,
    describe=describe,
    conclude=conclude,
    changed_rules=(
        "Correction: earlier versions of this page called footnote 2 refuted. The footnote is "
        "about the limit max q → 1/K, where it is right; that four classes are enough elsewhere "
        "is our extension."
    ),
)
