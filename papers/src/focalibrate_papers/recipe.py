"""What decides the numbers of one training run, also as TOML."""

import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

from focalibrate._atomic import atomic_path
from focalibrate._check import check_choice, did_you_mean
from focalibrate.losses.policy import gamma_policy

LossName = Literal["focal", "brier", "mmce"]
Optimiser = Literal["sgd", "adam", "adagrad"]
Augmentation = Literal["none", "flip", "crop", "crop-flip"]
Reduction = Literal["mean", "sum"]
Precision = Literal["float32", "bfloat16"]
Keep = Literal["last", "best"]
ModelSize: TypeAlias = tuple[tuple[str, Any], ...]

_CHOICES: dict[str, tuple[str, ...]] = {
    "loss": get_args(LossName),
    "optimiser": get_args(Optimiser),
    "augmentation": get_args(Augmentation),
    "reduction": get_args(Reduction),
    "precision": get_args(Precision),
    "keep": get_args(Keep),
}
_POSITIVE = ("lr", "lr_factor", "fraction", "scale")
_NOT_NEGATIVE = ("momentum", "weight_decay", "clip", "mmce_weight", "trace_weight")
_COUNTS = {"epochs": 1, "batch": 1, "seed": 0}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training run: the same recipe gives the same weights.

    Example:
        >>> recipe = Recipe(dataset="digits", model="mlp", gamma="flsd-53", epochs=30)
        >>> recipe.lr_at(29), len(recipe.key)
        (0.1, 12)
        >>> Recipe(dataset="digits", model="mlp", epochs=10, milestones=(0.5, 8)).milestone_epochs
        (5, 8)
    """

    dataset: str
    """name of a set that `focalibrate_papers.datasets.load` knows"""
    model: str
    """name of a network that `focalibrate_papers.models.build` knows"""
    size: ModelSize = ()
    """settings of the network, such as ``(("width", 2),)``; a mapping is taken too"""
    loss: LossName = "focal"
    gamma: float | str = 0.0
    """exponent, or the name of a policy; 0 with ``loss="focal"`` is cross-entropy"""
    label_smoothing: float = 0.0
    mmce_weight: float = 0.0
    """weight of the penalty of ``mmce``"""
    trace_weight: float = 0.0
    """weight of the trace of the Hessian that is added to the loss"""
    reduction: Reduction = "mean"
    optimiser: Optimiser = "sgd"
    lr: float = 0.1
    lr_factor: float = 0.1
    """what the learning rate is multiplied by at each milestone"""
    milestones: tuple[float, ...] = ()
    """epochs (1 or more), or shares of the run (below 1)"""
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0
    """largest norm of the whole gradient; 0: no limit"""
    epochs: int
    batch: int = 128
    """examples per step, over all processes"""
    augmentation: Augmentation = "none"
    precision: Precision = "float32"
    keep: Keep = "last"
    """weights of the run: of its last epoch, or of the first with the least validation error"""
    seed: int = 0
    fraction: float = 1.0
    """share of the training examples"""
    scale: float = 1.0
    """share of the published run, if made by `scaled`"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _size(self.size))
        object.__setattr__(self, "milestones", _milestones(self.milestones))
        for name in ("dataset", "model"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise ValueError(f"`{name}` must be a name, got {value!r}.")
        for name, choices in _CHOICES.items():
            check_choice(getattr(self, name), choices, name=name)
        self._check_numbers()
        self._check_loss()

    def _check_numbers(self) -> None:
        for name, minimum in _COUNTS.items():
            value = getattr(self, name)
            if type(value) is not int or value < minimum:
                raise ValueError(f"`{name}` must be a whole number >= {minimum}, got {value!r}.")
        for name in (*_POSITIVE, *_NOT_NEGATIVE, "label_smoothing"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
                raise ValueError(f"`{name}` must be a finite number >= 0, got {value!r}.")
            if name in _POSITIVE and value == 0:
                raise ValueError(f"`{name}` must be > 0, got {value!r}.")
            object.__setattr__(self, name, float(value))  # 1 and 1.0 are one recipe, one key
        for name in ("fraction", "scale", "label_smoothing"):
            if getattr(self, name) > 1:
                raise ValueError(f"`{name}` must be at most 1, got {getattr(self, name)!r}.")
        late = [m for m in self.milestone_epochs if not m < self.epochs]
        if late:
            raise ValueError(
                f"`milestones` must lie before the end of the run, epoch {self.epochs}, got "
                f"{late[0]}. Give shares of the run, such as 0.5, which scale with it."
            )

    def _check_loss(self) -> None:
        if isinstance(self.gamma, bool) or not isinstance(self.gamma, (int, float, str)):
            raise ValueError(f"`gamma` must be a number or a name, got {self.gamma!r}.")
        gamma_policy(self.gamma)  # raises, and says which names there are
        if not isinstance(self.gamma, str):
            object.__setattr__(self, "gamma", float(self.gamma))
        if self.loss != "focal" and self.gamma != 0:
            raise ValueError(f"`gamma` must be 0 for the loss {self.loss!r}, got {self.gamma!r}.")
        if (self.loss == "mmce") != (self.mmce_weight > 0):
            raise ValueError(
                f"`mmce_weight` must be > 0 for 'mmce' and 0 for other losses, got "
                f"{self.mmce_weight:g} for {self.loss!r}. The paper takes 2 for images and 8 for "
                "text."
            )
        if self.label_smoothing > 0 and self.loss == "mmce":
            raise ValueError(
                f"`label_smoothing` must be 0 for the loss 'mmce', got {self.label_smoothing:g}."
            )

    @classmethod
    def of(cls, table: Mapping[str, Any], *, source: str = "the recipe") -> Self:
        """Return the recipe given by a table of fields; strict about names and types.

        Raises:
            ValueError: for an unknown field, with the nearest known one, a field that is
                missing, or a bad value.
        """
        known = [field.name for field in fields(cls)]
        for name in table:
            if name not in known:
                near = did_you_mean(name, known)
                raise ValueError(
                    f"{source}: `{name[:80]}` is not a field of a recipe.{near} There are "
                    f"{', '.join(known)}."
                )
        missing = [name for name in ("dataset", "model", "epochs") if name not in table]
        if missing:
            raise ValueError(
                f"{source}: `{missing[0]}` is missing. Add a line `{missing[0]} = …`."
            )
        try:
            return cls(**table)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{source}: {error}") from error

    @property
    def key(self) -> str:
        """Short stable name: same recipe, same key."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def milestone_epochs(self) -> tuple[int, ...]:
        """The epochs, counted from 0, at whose start the learning rate falls."""
        return tuple(round(m * self.epochs) if m < 1 else int(m) for m in self.milestones)

    def describe_loss(self) -> str:
        """Return the loss in words.

        Example:
            >>> Recipe(dataset="d", model="mlp", epochs=1, gamma=2).describe_loss()
            'focal, gamma=2'
        """
        if self.loss == "focal" and self.gamma == 0:
            text = "cross-entropy"
        elif self.loss == "mmce":
            text = f"cross-entropy + {self.mmce_weight:g} MMCE"
        elif self.loss == "brier":
            text = "Brier"
        else:
            gamma = self.gamma if isinstance(self.gamma, str) else f"gamma={self.gamma:g}"
            text = f"focal, {gamma}"
        if self.label_smoothing:
            text += f", label smoothing {self.label_smoothing:g}"
        return f"{text} + {self.trace_weight:g} Tr(H)" if self.trace_weight else text

    def lr_at(self, epoch: int) -> float:
        """Return the learning rate of `epoch`, counted from 0."""
        passed = sum(epoch >= milestone for milestone in self.milestone_epochs)
        return self.lr * self.lr_factor**passed


def _size(given: Any) -> ModelSize:
    try:
        settings = dict(given)
    except (TypeError, ValueError):
        settings = {None: given}
    if not all(isinstance(key, str) for key in settings):
        raise ValueError(f"`size` must be settings by name, such as width = 2, got {given!r}.")
    return tuple((key, _frozen(key, settings[key])) for key in sorted(settings))


def _frozen(key: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(key, item) for item in value)
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError(
            f"`size.{key}` must be a number, a string or a list of them, got {value!r}."
        )
    return value


def _milestones(given: Any) -> tuple[float, ...]:
    if not isinstance(given, (list, tuple)) or not all(type(m) in (int, float) for m in given):
        raise ValueError(
            f"`milestones` must be a list of epochs or shares of the run, got {given!r}."
        )
    for m in given:
        if not m > 0 or (m >= 1 and m != int(m)):
            raise ValueError(
                f"`milestones` must be whole epochs, 1 or more, or shares of the run between 0 "
                f"and 1, got {m!r}."
            )
    return tuple(float(m) for m in given)


def read_recipe(path: str | Path) -> Recipe:
    """Return the recipe in a TOML file; every field is checked.

    Raises:
        ValueError: with the file's name first.
    """
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path}: there is no such file. Name a .toml file, or a recipe of "
            "`focalibrate train --list`."
        ) from None
    except (ValueError, RecursionError) as error:  # also of numbers with too many digits
        raise ValueError(f"{path}: is not TOML: {error}.") from error
    return Recipe.of(table, source=str(path))


def recipe_toml(recipe: Recipe) -> str:
    """Return the recipe as TOML, one field per line.

    Example:
        >>> text = recipe_toml(Recipe(dataset="digits", model="mlp", epochs=3, size={"width": 2}))
        >>> text.splitlines()[:3]
        ['dataset = "digits"', 'model = "mlp"', 'size = { width = 2 }']
        >>> Recipe.of(tomllib.loads(text)) == Recipe.of(
        ...     {"dataset": "digits", "model": "mlp", "epochs": 3, "size": {"width": 2}}
        ... )
        True
    """
    table = asdict(recipe) | {"size": dict(recipe.size)}
    return "".join(f"{name} = {_value(value)}\n" for name, value in table.items())


def write_recipe(path: str | Path, recipe: Recipe, *, force: bool = False) -> None:
    """Write `recipe_toml` to `path`, whole or not at all."""
    with atomic_path(path, force=force) as temporary:
        temporary.write_text(recipe_toml(recipe), encoding="utf-8")


def with_settings(recipe: Recipe, settings: Iterable[str]) -> Recipe:
    """Return the recipe changed by settings ``key=value``, as the command line gives them.

    A value is read as TOML, or as text if it is not valid TOML. ``size.width=2`` sets one setting
    of the network.

    Example:
        >>> recipe = Recipe(dataset="digits", model="mlp", epochs=10)
        >>> changed = with_settings(recipe, ["gamma=flsd-53", "size.width=2", "epochs=5"])
        >>> changed.gamma, changed.size, changed.epochs
        ('flsd-53', (('width', 2),), 5)
    """
    table = asdict(recipe) | {"size": dict(recipe.size)}
    for setting in settings:
        name, mark, text = (part.strip() for part in setting.partition("="))
        if not mark or not name or not text:
            raise ValueError(f"--set must be key=value, got {setting!r}.")
        value = _parsed(text)
        if name.startswith("size."):
            table["size"] = table["size"] | {name.removeprefix("size."): value}
        else:
            table[name] = value
    return Recipe.of(table, source="--set")


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # A TOML basic string: JSON's escapes are TOML's, save those of characters above U+FFFF.
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    raise ValueError(f"`size` must hold numbers, strings and lists of them, got {value!r}.")
