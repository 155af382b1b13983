"""Curvature of the loss, calibration, and the exponent of focal training (E11)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from focalibrate.calibrate import Identity
from focalibrate.curvature import hutchinson_trace, lambda_max
from focalibrate.experiments.engine.conclude import concluding
from focalibrate.experiments.engine.experiment import (
    Covered,
    Experiment,
    Folders,
    Numbers,
    Scale,
    Task,
)
from focalibrate.experiments.networks.pool import SMALLEST, describe_network, pool_recipe
from focalibrate.experiments.networks.recipes import GAMMA, Problem
from focalibrate.experiments.networks.trained import trained
from focalibrate.experiments.paper004.curvature.claims import claims, finding
from focalibrate.experiments.paper004.curvature.figures import charts, score_table
from focalibrate.experiments.paper004.curvature.rows import LOSSES, SEEDS, CurvatureRows
from focalibrate.metrics import ece

if TYPE_CHECKING:
    from focalibrate.datasets import Dataset
    from focalibrate.nn import HessianOperator

NAME = "curvature"
N_BINS = 15
TOLERANCE = 1e-2
"""Relative residual of the largest eigenvalue; its error is about the square."""
EFFORT: Mapping[Scale, Mapping[Problem, tuple[int, int]]] = {
    "smallest": {"cifar10": (256, 10)},
    "reduced": {"cifar10": (256, 10), "fashion_mnist": (1024, 30)},
    "full": {"cifar10": (5000, 100), "fashion_mnist": (5000, 100)},
}
"""Validation examples of the Hessian, and random vectors of its trace."""


def tasks(scale: Scale) -> list[Task]:
    """Return one run per network."""
    return [
        Task.of(
            NAME,
            problem=problem,
            loss=loss,
            seed=seed,
            scale=scale,
            n_examples=EFFORT[scale][problem][0],
            n_vectors=EFFORT[scale][problem][1],
        )
        for problem, losses in LOSSES[scale].items()
        for loss in losses
        for seed in range(SEEDS[scale])
    ]


def run(task: Task, folders: Folders) -> Numbers:
    """Measure one network: the Hessian of its own loss and of cross-entropy, and calibration."""
    from focalibrate.train import load_dataset

    recipe = pool_recipe(task)
    found = trained(recipe, folders)
    yield from curvature_numbers(
        found.folder,
        load_dataset(recipe, data=folders.data),
        loss=task["loss"],
        n_examples=task["n_examples"],
        n_vectors=task["n_vectors"],
    )
    identity = Identity()
    for name, logits, labels in (
        ("ece", found.test_logits, found.test_labels),
        ("ece, validation", found.validation_logits, found.validation_labels),
    ):
        yield name, ece(identity.probs(logits.astype(np.float64)), labels, n_bins=N_BINS)
    yield "error", float(np.mean(found.test_logits.argmax(axis=1) != found.test_labels))


def curvature_numbers(
    folder: Path, dataset: "Dataset", *, loss: str, n_examples: int, n_vectors: int
) -> Iterator[tuple[str, float]]:
    """Yield trace and largest eigenvalue of a network's own loss, and of cross-entropy."""
    from focalibrate.train import run_hessian

    for of, gamma in (("own", None), ("ce", 0.0)):
        if of == "own" or GAMMA[loss] != 0:
            hessian = run_hessian(folder, dataset=dataset, max_examples=n_examples, gamma=gamma)
            numbers = _curvature(hessian, n_vectors=n_vectors)
        for metric, value in numbers.items():
            yield f"{metric}, {of}", value


def _curvature(hessian: "HessianOperator", *, n_vectors: int) -> dict[str, float]:
    """Return trace and largest eigenvalue, with the same random vectors for every network."""
    trace = hutchinson_trace(hessian.matvec, hessian.size, n_vectors=n_vectors)
    top = lambda_max(hessian.matvec, hessian.size, tolerance=TOLERANCE)
    return {
        "trace": trace.value,
        "trace error": trace.standard_error,
        "lambda_max": top.value,
        "residual": top.residual,
    }


conclude = concluding(
    NAME,
    CurvatureRows,
    claims=claims,
    tables=lambda found: [score_table(found)],
    charts=charts,
    finding=finding,
)


EXPERIMENT = Experiment(
    name=NAME,
    code="E11",
    source="Paper 004 (Kimura & Naganuma 2024), Fig. 2 and 3",
    title="Curvature of the loss and calibration",
    protocol=(
        "Networks trained with focal loss, from γ = 0 (cross-entropy) upwards: the largest "
        "eigenvalue (Lanczos) and the trace (Hutchinson) of the Hessian of the mean validation "
        "loss over all weights, and ECE with 15 bins on test rows. The paper writes “validation "
        "loss” and does not say which loss: we take the training loss first, as in its Eq. 28, "
        "and also cross-entropy, which is the same loss for every network. ECE is measured on "
        "the test rows, which are many more than the validation rows; ECE on those is in the "
        "table."
    ),
    smaller={
        "smallest": SMALLEST,
        "reduced": (
            "ResNet-8 on 10,000 images of CIFAR-10 with γ up to 3 and an MLP on a sixth of "
            "Fashion-MNIST with γ up to 7, instead of ResNet-18, MobileNet-v2, ViT and VGG-19 on "
            "CIFAR-100; the Hessian over 256 and 1,024 validation examples with 10 and 30 random "
            "vectors for the trace; 3 seeds. Nothing can be concluded about the curvature of the "
            "paper's networks, or about its best γ and trace."
        ),
        "full": (
            "ResNet-50 on CIFAR-10 and ResNet-20 on Fashion-MNIST with γ up to 7, instead of "
            "five networks on CIFAR-100: nothing can be concluded about the paper's best γ and "
            "trace."
        ),
    },
    tasks=tasks,
    run=run,
    describe=describe_network,
    conclude=conclude,
    network=pool_recipe,
    coverage={
        "reduced": (
            Covered("data", "CIFAR-100", "10,000 images of CIFAR-10"),
            Covered("data of ours", "–", "a sixth of Fashion-MNIST"),
            Covered(
                "networks",
                "ResNet-18 (two widths), MobileNet-v2, ViT, VGG-19",
                "ResNet-8; an MLP on Fashion-MNIST",
            ),
            Covered("γ", "0 to about 10", "0, 1, 2, 3; up to 7 on Fashion-MNIST"),
            Covered("epochs", "not said", "24; 40 on Fashion-MNIST"),
            Covered("seeds", "not said", "3"),
        ),
    },
    changed_rules=(
        "Rules changed after the results were seen: rank correlations are over all networks, "
        "with an interval within [-1, 1] (Bonett and Wright's, instead of a bootstrap over three "
        "seeds, which was too narrow); a step counts as a decrease only if its whole interval "
        "is below 0; a claim can be undecided; traces, networks at their own weights and "
        "Fashion-MNIST are questions of our own."
    ),
    packages=("numpy", "scipy", "torch"),
)
