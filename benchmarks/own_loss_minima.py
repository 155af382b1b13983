"""Random posteriors, the least of their risk found numerically, and what is recovered from it.

`python -m benchmarks.own_loss_minima -o results/own-loss` minimises the risk of 1,000 random
posteriors for each named loss and 2, 3, 10 and 50 classes by Newton's method on autograd's
derivatives, recovers the posteriors and writes minima.csv: the largest error, and how many minima
have no posterior.
"""

import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor

from benchmarks._study import run_missing
from focalibrate.theory import LossForm, RecoveryWarning, loss_form, recover_posterior

N, SEED = 1000, 0
CLASSES = (2, 3, 10, 50)
STEPS = 200
HALVINGS = 30
BLOCK = 250
COLUMNS = ("loss", "classes", "posteriors", "recovered", "outside", "worst error")


def losses(k: int) -> list[LossForm]:
    """Return the losses of `k` classes; those of single labels are of two."""
    counts = tuple(10.0 * (1 + i) ** 2 for i in range(k))
    found = [
        loss_form("focal", gamma=2.0),
        loss_form("focal", gamma=5.0),
        loss_form("poly_focal", gamma=2.0, epsilon=1.0),
        loss_form("poly_focal", gamma=1.0, epsilon=-0.5),
        loss_form("bsce", beta=1.0),
        loss_form("bsce_gra", beta=1.0),
        loss_form("focal_calibration", gamma=3.0, weight=0.5),
        loss_form("class_balanced", counts=counts, beta=0.99, gamma=1.0),
        loss_form("logit_adjusted", frequencies=tuple(np.array(counts) / sum(counts)), tau=1.0),
    ]
    if k == 2:
        found += [
            loss_form("sigmoid_focal", gamma=2.0, alpha=0.25),
            loss_form("asymmetric", gamma_pos=1.0, gamma_neg=4.0, margin=0.05),
            loss_form("asymmetric", gamma_pos=0.0, gamma_neg=4.0, margin=0.05),
            loss_form("asymmetric", gamma_pos=0.0, gamma_neg=0.0, margin=0.2),
        ]
    return found


def by_label(form: LossForm, z: Tensor) -> Tensor:
    """Return the loss of each class, from logits less that of class 0 ``[N, K - 1]``."""
    if form.head == "sigmoid":
        return form.by_label(z[:, 0])
    return form.by_label(torch.cat([torch.zeros_like(z[:, :1]), z], dim=1))


def derivatives(form: LossForm, z: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of the risk of each row, and the Jacobian of that."""
    z = z.detach().requires_grad_()
    risk = (q * by_label(form, z)).sum(dim=1)
    (gradient,) = torch.autograd.grad(risk.sum(), z, create_graph=True)
    rows = [
        torch.autograd.grad(gradient[:, k].sum(), z, retain_graph=True)[0]
        for k in range(z.shape[1])
    ]
    return gradient.detach(), torch.stack(rows, dim=1)


def least(form: LossForm, q: Tensor) -> Tensor:
    """Return the scores of least risk, or where the gradient vanishes if a weight has none."""
    z = torch.log(q[:, 1:] / q[:, :1])
    is_field = form.name == "bsce_gra"  # its gradient is that of no function

    def merit(x: Tensor) -> Tensor:
        return (q * by_label(form, x)).sum(dim=1).detach()

    for _ in range(STEPS):
        gradient, jacobian = derivatives(form, z, q)
        if is_field:  # the Jacobian leaves the weight out, so that whole steps may not settle
            step = -torch.linalg.solve(jacobian, gradient)
        else:
            values, vectors = torch.linalg.eigh(jacobian)
            floor = 1e-12 * values.abs().amax(dim=1, keepdim=True)
            along = (vectors.mT @ gradient[..., None])[..., 0] / values.abs().clamp(min=floor)
            step = -(vectors @ along[..., None])[..., 0]
        step = step * torch.clamp(2.0 / step.norm(dim=1, keepdim=True), max=1.0)
        here = merit(z)
        size = torch.full((len(z), 1), 0.5 if is_field else 1.0, dtype=z.dtype)
        for _ in range(0 if is_field else HALVINGS):
            is_worse = merit(z + size * step) > here + 1e-15 * here.abs()
            if not bool(is_worse.any()):
                break
            size = torch.where(is_worse[:, None], 0.5 * size, size)
        z = z + size * step
        if float((size * step).abs().max()) < 1e-11:
            break
    return z


def run(form: LossForm, k: int) -> tuple[Any, ...]:
    """Return the counts of one loss, and the largest error."""
    rng = np.random.default_rng(SEED)
    spread = rng.choice([0.3, 1.0, 5.0], size=N)
    q = np.stack([rng.dirichlet(np.full(k, a)) for a in spread])
    q = 0.999 * q + 0.001 / k
    blocks = [least(form, torch.tensor(q[i : i + BLOCK])) for i in range(0, N, BLOCK)]
    z = torch.cat(blocks).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        if form.head == "sigmoid":
            p = recover_posterior(logits=z[:, 0], loss=form)
            back = np.stack([1.0 - p, p], axis=1)
        else:
            back = recover_posterior(logits=np.pad(z, ((0, 0), (1, 0))), loss=form)
    errors = np.abs(back - q).max(axis=1)
    outside = np.isnan(errors)
    if form.name == "asymmetric":  # up to this posterior the least risk is at the margin
        m = form.parameters["margin"]
        corner = recover_posterior(logits=np.array([np.log(m / (1 - m)) + 1e-9]), loss=form)
        outside |= q[:, 1] <= corner[0]
        # From this one on, less than 1 only without an exponent of label 1, it is at infinity.
        outside |= q[:, 1] >= recover_posterior(logits=np.array([1e3]), loss=form)[0]
    inside = errors[~outside]
    return N, int((inside <= 1e-7).sum()), int(outside.sum()), f"{inside.max():.2g}"


@click.command()
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("results/own-loss"))
def main(out: Path) -> None:
    """Minimise, recover and write minima.csv."""
    torch.set_num_threads(1)
    forms = {(label(form, k), k): form for k in CLASSES for form in losses(k)}
    run_missing(out / "minima.csv", COLUMNS, forms, lambda name, k: run(forms[name, k], k))


def label(form: LossForm, k: int) -> str:
    """Return the loss in at most 60 letters."""
    return str(form) if len(str(form)) < 60 else f"{form.name} of {k} counts"


if __name__ == "__main__":
    main()
