"""The state of a run on disk: whole or not at all, and never of another run."""

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from focalibrate._atomic import atomic_path
from focalibrate.train.recipe import Recipe
from focalibrate.train.toml import recipe_toml

FORMAT = 1
CHECKPOINT = "checkpoint.pt"
"""Its name in the folder of a run."""


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message begins with its name."""


@dataclass
class Progress:
    """Everything a run needs to go on: the weights, and where in the data it is.

    Random numbers need no state: each step draws its own from the seed, the epoch and the step.
    """

    epoch: int = 0
    """epochs that are done"""
    step: int = 0
    """batches of the present epoch that are done"""
    loss_sum: float = 0.0
    """sum of the losses of the present epoch's examples"""
    model: dict[str, Tensor] = field(default_factory=dict)
    optimiser: dict[str, Any] = field(default_factory=dict)
    objective: dict[str, Any] = field(default_factory=dict)
    """state of the loss, such as AdaFocal's exponents"""
    dynamics: dict[str, Tensor] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)
    """weights of the best epoch so far, where the recipe keeps those"""
    seconds: float = 0.0
    """spent so far; work that an interruption undid is not in it"""


def save_checkpoint(path: Path, progress: Progress, *, recipe: Recipe, data: str) -> None:
    """Write `progress` to `path`; a full disk or a kill leaves the one before as it was.

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
        kept = f"The last one, {path}, is whole" if path.exists() else "There is none yet"
        raise OSError(
            error.errno,
            f"the checkpoint could not be written: {error.strerror or error}. {kept}; free some "
            "room and run the same command to go on",
            str(path),
        ) from error


def load_checkpoint(path: Path, *, recipe: Recipe, data: str) -> Progress:
    """Return what `save_checkpoint` wrote, if it is of the same recipe and data.

    Raises:
        CheckpointError: where the file is damaged or of another run.
    """
    record = read_checkpoint(path)
    if record["key"] != recipe.key:
        raise CheckpointError(
            f"{path}: is of another recipe; it differs in "
            f"{_difference(record['recipe'], recipe_toml(recipe))}. Name another folder with -o, "
            "or take the recipe back to go on."
        )
    if record["data"] != data:
        raise CheckpointError(
            f"{path}: was made with other training examples ({record['data']}, now {data}). Name "
            "the same --data as before, or another folder with -o."
        )
    return Progress(**{name: record[name] for name in vars(Progress())})


def read_checkpoint(path: Path) -> Mapping[str, Any]:
    """Return the record that `save_checkpoint` wrote, of whatever recipe.

    Raises:
        CheckpointError: where the file is damaged or of another version.
    """
    try:
        record = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: is damaged or no checkpoint ({str(error).splitlines()[0]}). Delete it to "
            "start again, or name another folder with -o."
        ) from error
    if not isinstance(record, Mapping) or record.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: is no checkpoint of this version of focalibrate. Name another folder "
            "with -o."
        )
    return record


def write_tensors(path: Path, record: Mapping[str, Any]) -> None:
    """Write tensors and plain values as `torch.save` does, whole or not at all."""
    buffer = io.BytesIO()  # as `torch.save` to a full disk says nothing of the disk
    torch.save(dict(record), buffer)
    with atomic_path(path, force=True) as temporary:
        temporary.write_bytes(buffer.getbuffer())


def clear_leftovers(path: Path) -> None:
    """Remove what a kill in the middle of writing `path` has left beside it."""
    for leftover in path.parent.glob(f".{path.stem}.*{path.suffix}"):
        leftover.unlink(missing_ok=True)


def _difference(ours: str, theirs: str) -> str:
    pairs = zip(ours.splitlines(), theirs.splitlines(), strict=False)
    found = [f"`{a}` against `{b}` now" for a, b in pairs if a != b]
    return ", ".join(found) or "its fields"
