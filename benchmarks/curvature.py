"""Curvature: the trace at equal standard error against peers, and a regularised step.

One thread, float32. The matrix is the Hessian of a trained MLP (D = 2,455) over four batches.
The number of products that an estimator needs for a standard error of 2 % of the trace is known
for Hutchinson's, and determined for the others by their root mean square error over 30 seeds: on
the dense matrix for the peers, on the model for `HessianOperator.trace`. Times are then measured
on the model with that number, each package with its own Hessian. For ResNet-8, peers are timed
with 8 products, which give a far larger error than ours.
"""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from curvlinops import HessianLinearOperator
from curvlinops import hutchinson_trace as curvlinops_hutchinson
from curvlinops import hutchpp_trace as curvlinops_hutchpp
from curvlinops import xtrace as curvlinops_xtrace
from pyhessian import hessian as pyhessian_hessian
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap
from torch.nn.functional import cross_entropy

from benchmarks._timing import Row, compare, interleave
from focalibrate.curvature import hutchinson_trace, lambda_max
from focalibrate.nn import CurvatureRegularisedLoss, FocalLoss, HessianOperator
from focalibrate_papers.models import build

RELATIVE_ERROR = 0.02
SEEDS = 30
BUDGETS = [6, 12, 18, 24, 36, 48, 72, 96, 144, 192, 288, 384]
Estimator = Callable[[int, int], float]
"""From a number of products and a seed to an estimate on the dense matrix."""


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
    """Return the peers' estimators other than Hutchinson's on the dense matrix."""
    T = torch.from_numpy(A).float()

    def seeded(estimator: Callable[[Tensor, int], Tensor]) -> Estimator:
        def estimate(n: int, seed: int) -> float:
            torch.manual_seed(seed)
            return float(estimator(T, n))

        return estimate

    return {
        "curvlinops hutchpp_trace": seeded(curvlinops_hutchpp),
        "curvlinops xtrace": seeded(curvlinops_xtrace),
    }


def hutchinson_needs(A: np.ndarray) -> int:
    """Return the smallest budget of Hutchinson's estimate with random signs, by its variance."""
    variance = 2 * (np.sum(A**2) - np.sum(np.diag(A) ** 2))
    least = variance / (RELATIVE_ERROR * np.trace(A)) ** 2
    return next((n for n in BUDGETS if n >= least), BUDGETS[-1])


def products_needed(estimate: Estimator, trace: float) -> int:
    """Return the smallest budget whose root mean square error over the seeds is small enough."""
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
    hutchinson, true = hutchinson_needs(dense), float(np.trace(dense))
    n = dict.fromkeys(["hutchinson_trace", "curvlinops hutchinson_trace", "PyHessian"], hutchinson)
    n |= {name: products_needed(f, true) for name, f in estimators(dense).items()}
    n["HessianOperator.trace"] = products_needed(
        lambda n, seed: H.trace(n_vectors=n, seed=seed).value, true
    )
    pyhessian = pyhessian_hessian(model, loss, dataloader=batches, cuda=False)
    functions = {
        "HessianOperator.trace": partial(H.trace, n_vectors=n["HessianOperator.trace"]),
        "hutchinson_trace": partial(
            hutchinson_trace, H.matvec, H.size, n_vectors=hutchinson, block_matvec=H.block_matvec
        ),
        "curvlinops hutchinson_trace": partial(curvlinops_hutchinson, theirs, hutchinson),
        "curvlinops hutchpp_trace": partial(
            curvlinops_hutchpp, theirs, n["curvlinops hutchpp_trace"]
        ),
        "curvlinops xtrace": partial(curvlinops_xtrace, theirs, n["curvlinops xtrace"]),
        # A negative tolerance disables its own rule: two close running means bound no error.
        "PyHessian": partial(pyhessian.trace, maxIter=hutchinson, tol=-1.0),
    }
    seconds = interleave(functions, rounds=5)
    ours = "HessianOperator.trace"
    peer = best(seconds, [name for name in functions if name.startswith(("curv", "PyH"))])
    rows = [row(seconds, n, ours, peer, bar=0.5, title="trace, against the best")]
    for name in functions:
        if name.startswith(("curv", "PyH")):
            rows.append(row(seconds, n, ours, name))
    rows.append(row(seconds, n, "hutchinson_trace", "curvlinops hutchinson_trace"))
    return rows


def network_rows() -> list[Row]:
    """Time the trace of a ResNet-8 on random images of CIFAR's size."""
    torch.manual_seed(0)
    model = build("resnet8", n_classes=10)
    x, y = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimiser.zero_grad()
        cross_entropy(model(x), y).backward()
        optimiser.step()
    model.eval()
    loss, parameters, batches = nn.CrossEntropyLoss(), list(model.parameters()), [(x, y)]
    H = HessianOperator(model, loss, batches)
    theirs = HessianLinearOperator(model, loss, parameters, batches, check_deterministic=False)
    pyhessian = pyhessian_hessian(model, loss, data=(x, y), cuda=False)
    exact, terms = H.trace(), np.array(pyhessian.trace(maxIter=8, tol=-1.0))
    error = terms.std(ddof=1) / 8**0.5 / exact.value
    seconds = interleave(
        {
            "HessianOperator.trace": H.trace,
            "curvlinops hutchinson_trace": partial(curvlinops_hutchinson, theirs, 8),
            "PyHessian": partial(pyhessian.trace, maxIter=8, tol=-1.0),
        },
        rounds=3,
        warm_ups=0,
    )
    note = (
        f"16 images, D = {H.size:,}; standard error {exact.standard_error / exact.value:.2g}, "
        f"theirs {error:.0%} at 8 products"
    )
    title = "trace of ResNet-8: HessianOperator.trace"
    return [
        compare(title, seconds, ours="HessianOperator.trace", peer=peer, note=note)
        for peer in ("curvlinops hutchinson_trace", "PyHessian")
    ]


def product_row() -> Row:
    """Time a block of products by two backward passes against forward-over-reverse."""
    model, batches = problem()
    H = HessianOperator(model, cross_entropy, batches)
    own = {name: p.detach() for name, p in model.named_parameters()}
    rng = np.random.default_rng(0)
    V = rng.standard_normal((H.size, 16))

    def total(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(functional_call(model, p, (x,)), y, reduction="sum")

    def forward_over_reverse() -> None:
        with torch.no_grad():
            flat = torch.from_numpy(V.T).float().split([p.numel() for p in own.values()], dim=1)
            tangents = {
                k: v.reshape(16, *p.shape) for (k, p), v in zip(own.items(), flat, strict=True)
            }
            for x, y in batches:
                slope = grad(partial(total, x=x, y=y))
                vmap(lambda v, f=slope: jvp(f, (own,), (v,))[1])(tangents)

    functions = {"block_matvec": lambda: H.block_matvec(V), "jvp of grad": forward_over_reverse}
    return compare(
        "16 products, two backward passes",
        interleave(functions, rounds=11),
        ours="block_matvec",
        peer="jvp of grad",
        note="vmap over the vectors in both",
    )


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
            rows = [*trace_rows(), *network_rows(), product_row()]
            return [*rows, eigenvalue_row(), *step_rows()]
    finally:
        torch.set_num_threads(threads)
