"""The state of a run on disk, written atomically and checked against the recipe."""

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from focalibrate._atomic import atomic_path
from focalibrate_papers.recipe import Recipe, recipe_toml

FORMAT = 1
CHECKPOINT = "checkpoint.pt"
"""Its name in the folder of a run."""


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message begins with its name."""


@dataclass
class TrainingState:
    """Everything a run needs to continue: the weights, and its position in the data.

    Random numbers need no state: each step draws its own from the seed, the epoch and the step.
    """

    epoch: int = 0
    """epochs that are done"""
    step: int = 0
    """batches of the current epoch that are done"""
    loss_sum: float = 0.0
    """sum of the losses of the current epoch's examples"""
    model: dict[str, Tensor] = field(default_factory=dict)
    optimiser: dict[str, Any] = field(default_factory=dict)
    objective: dict[str, Any] = field(default_factory=dict)
    """state of the loss, such as AdaFocal's exponents"""
    dynamics: dict[str, Tensor] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)
    """weights of the best epoch so far, where the recipe keeps those"""
    seconds: float = 0.0
    """seconds spent so far, without work lost to an interruption"""


def save_checkpoint(path: Path, progress: TrainingState, *, recipe: Recipe, data: str) -> None:
    """Write `progress` to `path`; after a full disk or a kill the previous one is intact.

    Raises:
        OSError: where it cannot be written; the message says what is left.
    """
    record = {
        "format": FORMAT,
        "key": recipe.key,
        "recipe": recipe_toml(recipe),
        "data": data,
        **vars(progress),
    }
    try:
        write_tensors(path, record)
    except OSError as error:
        kept = f"The last one, {path}, is intact" if path.exists() else "There is none yet"
        raise OSError(
            error.errno,
            f"the checkpoint could not be written: {error.strerror or error}. {kept}; free some "
            "room and run the same command to continue",
            str(path),
        ) from error


def load_checkpoint(path: Path, *, recipe: Recipe, data: str) -> TrainingState:
    """Return what `save_checkpoint` wrote, if it is of the same recipe and data.

    Raises:
        CheckpointError: where the file is damaged or of another run.
    """
    record = read_checkpoint(path)
    if record["key"] != recipe.key:
        raise CheckpointError(
            f"{path}: is of another recipe; it differs in "
            f"{_difference(record['recipe'], recipe_toml(recipe))}. Name another folder with -o, "
            "or use the former recipe to continue."
        )
    if record["data"] != data:
        raise CheckpointError(
            f"{path}: was made with other training examples ({record['data']}, now {data}). Name "
            "the same --data as before, or another folder with -o."
        )
    return TrainingState(**{name: record[name] for name in vars(TrainingState())})


def read_checkpoint(path: Path) -> Mapping[str, Any]:
    """Return the record that `save_checkpoint` wrote, of whatever recipe.

    Raises:
        CheckpointError: where the file is damaged or of another version.
    """
    try:
        record = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: is damaged or not a checkpoint ({str(error).splitlines()[0]}). Delete it to "
            "start again, or name another folder with -o."
        ) from error
    if not isinstance(record, Mapping) or record.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: is not a checkpoint of this version of focalibrate. Name another folder "
            "with -o."
        )
    return record


def write_tensors(path: Path, record: Mapping[str, Any]) -> None:
    """Write tensors and plain values as `torch.save` does, whole or not at all."""
    buffer = io.BytesIO()  # as `torch.save` does not report a full disk
    torch.save(dict(record), buffer)
    with atomic_path(path, force=True) as temporary:
        temporary.write_bytes(buffer.getbuffer())


def clear_leftovers(path: Path) -> None:
    """Remove temporary files that an interrupted write of `path` has left."""
    for leftover in path.parent.glob(f".{path.stem}.*{path.suffix}"):
        leftover.unlink(missing_ok=True)


def _difference(ours: str, theirs: str) -> str:
    pairs = zip(ours.splitlines(), theirs.splitlines(), strict=False)
    found = [f"`{a}` against `{b}` now" for a, b in pairs if a != b]
    return ", ".join(found) or "its fields"
