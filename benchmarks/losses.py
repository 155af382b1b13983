"""Losses: forward and backward of `FocalLoss` against cross-entropy and other focal losses.

One thread, float32, mean over the batch. Times are interleaved in one process, after each function
ran alone for a while, so that the allocator already holds the memory that they need. Memory is the
peak of torch's allocations during one forward and backward pass, including the gradient, from the
allocation events of `torch.profiler`.
"""

import os
from collections.abc import Callable

import torch
from focal_loss.focal_loss import FocalLoss as TorchFocalLoss
from kornia.losses import focal_loss as kornia_focal_loss
from monai.losses import FocalLoss as MonaiFocalLoss
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile

from benchmarks._timing import Row, compare, interleave
from focalibrate.nn import FocalLoss

Loss = Callable[[Tensor, Tensor], Tensor]
OURS = {"FocalLoss(2.0)": 2.0, "FocalLoss('flsd-53')": "flsd-53"}
SHAPES = {(1024, 1000): (1.05, 61), (256, 50_257): (1.05, 11), (4096, 100): (1.15, 121)}
"""Rows and classes, with the largest intended ratio to cross-entropy and the number of rounds."""


def peers(gamma: float) -> dict[str, Loss]:
    """Return the softmax focal losses of other packages, on logits and class indices."""
    monai = MonaiFocalLoss(to_onehot_y=True, use_softmax=True, gamma=gamma)
    torch_focal = TorchFocalLoss(gamma)
    return {
        "kornia": lambda z, y: kornia_focal_loss(z, y, alpha=None, gamma=gamma, reduction="mean"),
        "monai": lambda z, y: monai(z, y[:, None]),
        "focal_loss_torch": lambda z, y: torch_focal(z.softmax(-1), y),
    }


def example(n: int, k: int, *, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return random logits that require a gradient, and labels."""
    rng = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(n, k, generator=rng)
    return logits.requires_grad_(), torch.randint(k, (n,), generator=rng)


def step(loss: Loss, logits: Tensor, labels: Tensor) -> Callable[[], Tensor]:
    """Return a function without arguments that runs forward and backward of `loss`."""
    return lambda: torch.autograd.grad(loss(logits, labels), logits)[0]


def peak_bytes(function: Callable[[], object]) -> int:
    """Return the peak memory allocated during `function`, beyond that before it."""
    function()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        function()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def breaks_when_certain(loss: Loss) -> bool:
    """Return whether the gradient is nan for an example predicted with certainty and correctly."""
    logits = torch.tensor([[200.0, 0.0, 0.0], [1.0, 0.0, 0.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(loss(logits, torch.tensor([0, 0])), logits)
    return bool(gradient.isnan().any())


def speed(n: int, k: int, bar: float, rounds: int) -> list[Row]:
    """Time the module and its peers against cross-entropy, and measure memory."""
    logits, labels = example(n, k)
    large, _ = example(n, k, scale=30.0)
    ours: dict[str, Loss] = {name: FocalLoss(gamma) for name, gamma in OURS.items()}
    others = peers(2.0)
    functions = {
        name: step(loss, logits, labels)
        for name, loss in {"F.cross_entropy": cross_entropy, **ours, **others}.items()
    }
    functions["FocalLoss(2.0), |logits| to 130"] = step(ours["FocalLoss(2.0)"], large, labels)
    functions["F.cross_entropy, |logits| to 130"] = step(cross_entropy, large, labels)
    alone = {name: settled(function, rounds) for name, function in functions.items()}
    seconds = interleave(functions, rounds=rounds, warm_ups=3)
    shape = f"{n}x{k}"
    rows = []
    for name in ours:
        rows.append(against(f"{name} {shape}", seconds, name, bar, "interleaved"))
        rows.append(against(f"{name} {shape}", alone, name, bar, "each alone in a loop"))
    for name in others:
        nan = breaks_when_certain(peers(0.5)[name])
        note = f"gradient of a certain row at gamma=0.5 is {'nan' if nan else 'finite'}"
        rows.append(against(f"{name} {shape}", seconds, name, None, note))
    rows.append(
        compare(
            f"FocalLoss(2.0) {shape}, logits x30",
            seconds,
            ours="FocalLoss(2.0), |logits| to 130",
            peer="F.cross_entropy, |logits| to 130",
            note="rows saturated: the largest logit must be subtracted",
        )
    )
    return [*rows, *memory(shape, functions, [*ours, *others])]


def settled(function: Callable[[], object], rounds: int) -> list[float]:
    """Return the seconds of `function` when it runs alone repeatedly."""
    return interleave({"it": function}, rounds=rounds, warm_ups=3)["it"]


def against(
    title: str, seconds: dict[str, list[float]], name: str, bar: float | None, note: str
) -> Row:
    """Return the row of `name` against cross-entropy."""
    return compare(title, seconds, ours=name, peer="F.cross_entropy", bar=bar, note=note)


def memory(shape: str, functions: dict[str, Callable[[], Tensor]], names: list[str]) -> list[Row]:
    """Compare peaks of memory with that of cross-entropy."""
    theirs = peak_bytes(functions["F.cross_entropy"]) / 2**20
    rows = []
    for name in names:
        used = peak_bytes(functions[name]) / 2**20
        bar = 1.0 if name in OURS else None
        rows.append(
            Row(
                name=f"peak memory of {name} {shape}",
                ours=used,
                peer_name="F.cross_entropy",
                peer=theirs,
                ratio=used / theirs,
                bar=bar,
                unit="MiB",
                note="the gradient included",
            )
        )
    return rows


def run() -> list[Row]:
    """Run all of the above on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [
            row for (n, k), (bar, rounds) in SHAPES.items() for row in speed(n, k, bar, rounds)
        ]
    finally:
        torch.set_num_threads(threads)
