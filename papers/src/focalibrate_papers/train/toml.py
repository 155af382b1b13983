"""Recipes as TOML: reading, writing and changing them by ``key=value``."""

import tomllib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from focalibrate._atomic import atomic_path
from focalibrate_papers.train.recipe import Recipe


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
