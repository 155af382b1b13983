"""Curvature: the trace at equal standard error against peers, and a regularised step.

One thread, float32. The matrix is the Hessian of a trained MLP (D = 2,455) over four batches.
How many products each estimator needs for a standard error of 2 % of the trace is found on the
dense matrix, with every package's own estimator and 30 seeds; times are then taken on the model,
each package with its own Hessian, at that number.
"""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from curvlinops import HessianLinearOperator, hutchinson_trace
from curvlinops import hutchpp_trace as curvlinops_hutchpp
from curvlinops import xtrace as curvlinops_xtrace
from pyhessian import hessian as pyhessian_hessian
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks._timing import Row, compare, interleave
from focalibrate.curvature import hessian_trace, hutchpp_trace, lambda_max, xtrace_trace
from focalibrate.nn import CurvatureRegularisedLoss, FocalLoss, HessianOperator

RELATIVE_ERROR = 0.02
SEEDS = 30
BUDGETS = [12, 18, 24, 36, 48, 72, 96, 144, 192, 288, 384]
Estimator = Callable[[int, int], float]
"""Number of products and seed to an estimate on the dense matrix."""


def problem() -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
    """Return an MLP after some training, and its data in batches."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 25), nn.Tanh(), nn.Linear(25, 5)
    )
    x = torch.randn(1024, 20)
    y = (x[:, :5] + torch.randn(1024, 5)).argmax(dim=1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(50):
        optimiser.zero_grad()
        cross_entropy(model(x), y).backward()
        optimiser.step()
    return model, list(zip(x.split(256), y.split(256), strict=True))


def estimators(A: np.ndarray) -> dict[str, Estimator]:
    """Return every package's estimators on the dense matrix; PyHessian's is Hutchinson's."""
    D, T = len(A), torch.from_numpy(A)

    def ours(estimator: Callable[..., object], budget: str) -> Estimator:
        return lambda n, seed: (
            estimator(A.__matmul__, D, seed=seed, block_matvec=A.__matmul__, **{budget: n}).value
        )

    def theirs(estimator: Callable[[Tensor, int], Tensor]) -> Estimator:
        def estimate(n: int, seed: int) -> float:
            torch.manual_seed(seed)
            return float(estimator(T, n))

        return estimate

    return {
        "hessian_trace": ours(hessian_trace, "n_vectors"),
        "hutchpp_trace": ours(hutchpp_trace, "n_products"),
        "xtrace_trace": ours(xtrace_trace, "n_products"),
        "curvlinops hutchinson_trace": theirs(hutchinson_trace),
        "curvlinops hutchpp_trace": theirs(curvlinops_hutchpp),
        "curvlinops xtrace": theirs(curvlinops_xtrace),
    }


def products_needed(estimate: Estimator, trace: float) -> int:
    """Return the least budget whose root mean square error over the seeds is small enough."""
    for n in BUDGETS:
        error = np.sqrt(np.mean([(estimate(n, s) - trace) ** 2 for s in range(SEEDS)]))
        if error <= RELATIVE_ERROR * abs(trace):
            return n
    return BUDGETS[-1]


def trace_rows() -> list[Row]:
    """Time the trace at equal standard error."""
    model, batches = problem()
    H = HessianOperator(model, cross_entropy, batches)
    loss, parameters = nn.CrossEntropyLoss(), list(model.parameters())
    theirs = HessianLinearOperator(model, loss, parameters, batches, check_deterministic=False)
    dense = H.block_matvec(np.eye(H.size))
    dense = (dense + dense.T) / 2
    needed = {
        name: products_needed(estimate, float(np.trace(dense)))
        for name, estimate in estimators(dense).items()
    }
    block = {"block_matvec": H.block_matvec}
    pyhessian = pyhessian_hessian(model, loss, dataloader=batches, cuda=False)
    hutchinson = needed["hessian_trace"]
    n = needed  # for short lines
    functions = {
        "hessian_trace": partial(hessian_trace, H.matvec, H.size, n_vectors=hutchinson, **block),
        "hutchpp_trace": partial(
            hutchpp_trace, H.matvec, H.size, n_products=n["hutchpp_trace"], **block
        ),
        "xtrace_trace": partial(
            xtrace_trace, H.matvec, H.size, n_products=n["xtrace_trace"], **block
        ),
        "curvlinops hutchinson_trace": partial(
            hutchinson_trace, theirs, n["curvlinops hutchinson_trace"]
        ),
        "curvlinops hutchpp_trace": partial(
            curvlinops_hutchpp, theirs, n["curvlinops hutchpp_trace"]
        ),
        "curvlinops xtrace": partial(curvlinops_xtrace, theirs, n["curvlinops xtrace"]),
        # A negative tolerance never stops it: its own rule, two close running means, is no error.
        "PyHessian": partial(pyhessian.trace, maxIter=hutchinson, tol=-1.0),
    }
    needed["PyHessian"] = hutchinson
    seconds = interleave(functions, rounds=5)
    ours = best(seconds, ["hessian_trace", "hutchpp_trace", "xtrace_trace"])
    peer = best(seconds, [name for name in functions if name.startswith(("curv", "PyH"))])
    rows = [row(seconds, needed, ours, peer, bar=0.5, title="trace, best against best")]
    for name in functions:
        if name.startswith(("curv", "PyH")):
            rows.append(row(seconds, needed, ours, name))
    if ours != "hessian_trace":
        rows.append(row(seconds, needed, "hessian_trace", "curvlinops hutchinson_trace"))
    return rows


def best(seconds: dict[str, list[float]], names: list[str]) -> str:
    """Return the name of the smallest median."""
    return min(names, key=lambda name: float(np.median(seconds[name])))


def row(
    seconds: dict[str, list[float]],
    needed: dict[str, int],
    ours: str,
    peer: str,
    *,
    bar: float | None = None,
    title: str = "trace",
) -> Row:
    """Return a comparison with the number of products of both."""
    note = f"standard error 2 %: {needed[ours]} products, theirs {needed[peer]}"
    return compare(f"{title}: {ours}", seconds, ours=ours, peer=peer, bar=bar, note=note)


def eigenvalue_row() -> Row:
    """Time the largest eigenvalue against PyHessian's power iteration."""
    model, batches = problem()
    H = HessianOperator(model, cross_entropy, batches)
    peer = pyhessian_hessian(model, nn.CrossEntropyLoss(), dataloader=batches, cuda=False)
    seconds = interleave(
        {
            "lambda_max": lambda: lambda_max(H.matvec, H.size, tolerance=1e-3),
            "PyHessian": lambda: peer.eigenvalues(maxIter=500, tol=1e-4, top_n=1),
        },
        rounds=3,
    )
    note = "relative residual 1e-3; theirs stops on two close values, and finds the largest size"
    return compare("lambda_max", seconds, ours="lambda_max", peer="PyHessian", note=note)


def step_rows() -> list[Row]:
    """Time a regularised training step against a plain one, for the MLP of E12."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3072, 100), nn.ReLU(), nn.Linear(100, 10))
    x, y = torch.randn(128, 3072), torch.randint(10, (128,))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step(loss: Callable[[], Tensor]) -> None:
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()

    rows = []
    for name, base in (("cross-entropy", cross_entropy), ("FocalLoss(2.0)", FocalLoss(2.0))):
        criterion = CurvatureRegularisedLoss(base, 1e-3)
        plain, regularised = f"a step of {name}", f"a step of {name} + tau Tr(H)"
        functions = {
            plain: partial(step, lambda base=base: base(model(x), y)),
            regularised: partial(step, lambda c=criterion: c(model, x, y)),
        }
        seconds = interleave(functions, rounds=41, warm_ups=3)
        note = "3072-100-10, batch 128, one random vector"
        rows.append(
            compare(regularised, seconds, ours=regularised, peer=plain, bar=6.0, note=note)
        )
    return rows


def run() -> list[Row]:
    """Run all of the above on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the peers', of torch's own deprecations
            return [*trace_rows(), eigenvalue_row(), *step_rows()]
    finally:
        torch.set_num_threads(threads)
