"""What every calibrator can do: give probabilities, describe itself, be saved and loaded."""

import json
import math
import os
from abc import ABC, abstractmethod
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from focalibrate._array import Array, namespace
from focalibrate._atomic import atomic_path

if TYPE_CHECKING:
    from focalibrate.nn.calibrator import CalibratorModule

FORMAT = "focalibrate.calibrator"
VERSION = 1
"""Version of the file format; a file with another one is refused."""


class Calibrator(ABC):
    """A frozen map from logits to calibrated probabilities.

    Final subclasses are frozen dataclasses whose fields are numbers or nested tuples of
    numbers, checked on construction.
    """

    kind: ClassVar[str]
    """Name in files and on the command line."""
    keeps_argmax: ClassVar[bool]
    """Whether the predicted class never changes."""

    @abstractmethod
    def log_probs(self, logits: Array) -> Array:
        """Return calibrated log-probabilities, same library, shape, dtype and device."""

    def probs(self, logits: Array) -> Array:
        """Return calibrated probabilities, same library, shape, dtype and device."""
        log_probs = self.log_probs(logits)
        return namespace(log_probs).exp(log_probs)

    @abstractmethod
    def describe(self) -> str:
        """Return one line for a person to read."""

    def to_dict(self) -> dict[str, Any]:
        """Return what `save` writes."""
        parameters = {field.name: getattr(self, field.name) for field in _fields(type(self))}
        return {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "parameters": parameters,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibrator to `path` as JSON, whole or not at all.

        The text goes to a temporary file beside `path`, which then takes its name: a reader
        never sees half a file. Numbers are written so that reading gives the same float64.
        """
        target = Path(path)
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        with atomic_path(target, force=True) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def to_torch(self) -> "CalibratorModule":
        """Return a torch module from logits to probabilities (needs torch)."""
        from focalibrate.nn.calibrator import CalibratorModule

        return CalibratorModule(self)

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX graph from logits to probabilities (needs onnx).

        See `focalibrate.deploy.calibrator_to_onnx`; `attach_to_onnx` there appends it to a
        classifier.
        """
        from focalibrate.deploy.onnx import calibrator_to_onnx

        calibrator_to_onnx(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a calibrator that `save` wrote.

        On `Calibrator` any kind is read; on a subclass only its own. Nothing in the file is
        executed, and whatever is unknown, missing or not a finite number is refused.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
            document = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
            return cls.from_dict(document)
        except ValueError as error:  # includes what is no JSON or no UTF-8
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def from_dict(cls, document: Any) -> Self:
        """Return the calibrator of a document in the form of `to_dict`."""
        _check_keys(document, ("format", "version", "kind", "parameters"), what="calibrator file")
        if document["format"] != FORMAT:
            raise ValueError(f"`format` must be {FORMAT!r}, got {document['format']!r}.")
        if document["version"] is not VERSION and document["version"] != VERSION:
            raise ValueError(
                f"`version` must be {VERSION}, got {document['version']!r}. Save the calibrator "
                "again, or read it with the release that wrote it."
            )
        kinds = {c.kind: c for c in Calibrator.__subclasses__()}
        found = kinds.get(document["kind"]) if isinstance(document["kind"], str) else None
        if found is None:
            known = ", ".join(sorted(kinds))
            raise ValueError(f"`kind` must be one of {known}; got {document['kind']!r}.")
        if not issubclass(found, cls):
            raise ValueError(
                f"`kind` must be {cls.kind!r} for {cls.__name__}.load, got {found.kind!r}. "
                "Use Calibrator.load to read any kind."
            )
        parameters = document["parameters"]
        names = tuple(field.name for field in _fields(found))
        _check_keys(parameters, names, what=f"parameters of {found.kind!r}")
        return found(**{name: _frozen(parameters[name], name) for name in names})


def _fields(cls: type) -> Any:
    return fields(cls)


def _check_keys(document: Any, names: tuple[str, ...], *, what: str) -> None:
    if not isinstance(document, dict):
        raise ValueError(f"The {what} must be a JSON object, got {type(document).__name__}.")
    missing = [name for name in names if name not in document]
    extra = [name for name in document if name not in names]
    if missing or extra:
        raise ValueError(
            f"The {what} must have exactly the fields {list(names)}; missing {missing}, "
            f"not known {extra}."
        )


def _frozen(value: Any, name: str) -> Any:
    """Return numbers as floats and lists as tuples, and refuse anything else."""
    if isinstance(value, list):
        return tuple(_frozen(item, name) for item in value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_finite(value):
        raise ValueError(f"`{name}` must hold finite numbers only, got {value!r}.")
    return float(value)


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"numbers must be finite, found {constant}.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("every field must appear once, but one is repeated.")
    return document
