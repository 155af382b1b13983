"""What every calibrator can do: give probabilities, describe itself, be saved and loaded."""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from focalibrate._array import Array, namespace
from focalibrate._atomic import atomic_path, json_text
from focalibrate._check import check_logits, check_probs, in_class_order
from focalibrate.calibrate._document import (
    check_keys,
    check_version,
    frozen_numbers,
    in_file,
    read_document,
)
from focalibrate.calibrate._scores import as_array, log_probabilities, two_columns

if TYPE_CHECKING:
    from focalibrate.nn.calibrator import CalibratorModule

FORMAT = "focalibrate.calibrator"
VERSION = 1
"""Version of the file format; a file with another one is refused."""


OLD_KINDS = {
    "temperature_scaling": "temperature",
    "focal_temperature_scaling": "focal_temperature",
    "vector_scaling": "vector",
    "isotonic_calibration": "isotonic",
    "histogram_binning": "histogram",
}
"""Kinds in files of release 0.1, and their names now."""


@dataclass(frozen=True, kw_only=True)
class Calibrator(ABC):
    """A frozen map from scores, logits or probabilities, to calibrated probabilities.

    Final subclasses are frozen dataclasses whose fields are numbers or nested tuples of
    numbers (a pool's members: calibrators), checked on construction.
    """

    class_names: tuple[str, ...] | None = field(default=None, repr=False)
    """Name of each class, in the order of the columns; None if they are not known."""
    zero_mix: float = field(default=0.0, repr=False)
    """Weight of the uniform distribution mixed into ``probs=`` before the logarithm."""
    n_classes: int | None = field(default=None, repr=False)
    """Number of classes fitted on; None accepts any."""

    kind: ClassVar[str]
    """Name in files and on the command line: that of the method without its criterion."""
    keeps_argmax: ClassVar[bool]
    """Whether the predicted class never changes."""

    def __post_init__(self) -> None:
        self._check()
        own = self._own_classes()
        if self.n_classes is None:
            names = self.class_names
            object.__setattr__(self, "n_classes", own or (len(names) if names else None))
        self._check_classes(own)
        if not (isinstance(self.zero_mix, (int, float)) and 0 <= self.zero_mix < 1):
            raise ValueError(f"`zero_mix` must lie in [0, 1), got {self.zero_mix!r}.")

    def _check(self) -> None:  # noqa: B027  (identity has nothing to check)
        """Raise `ValueError` unless the parameters are valid."""

    def _own_classes(self) -> int | None:
        """Return the number of classes that the parameters are for; None: any."""
        return None

    def _check_classes(self, own: int | None) -> None:
        k, names = self.n_classes, self.class_names
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 2):
            raise ValueError(f"`n_classes` must be a whole number >= 2, got {k!r}.")
        if own is not None and k != own:
            raise ValueError(f"`n_classes` must be {own}, as the parameters are, got {k}.")
        if names is None:
            return
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"`class_names` must be a tuple of strings, got {names!r:.80}.")
        if len(names) != k or len(set(names)) < len(names):
            raise ValueError(
                f"`class_names` must be {k} different names, got {len(names)}: {names!r:.80}."
            )

    @abstractmethod
    def _log_probs(self, x: Array) -> Array:
        """Return calibrated log-probabilities of checked logits ``[..., K]``."""

    def _probs(self, x: Array) -> Array:
        log_probs = self._log_probs(x)
        return namespace(log_probs).exp(log_probs)

    def log_probs(self, logits: Any = None, *, probs: Any = None) -> Array:
        """Return calibrated log-probabilities; arguments as for `probs`."""
        return self._log_probs(self._read(logits, probs))

    def probs(self, logits: Any = None, *, probs: Any = None) -> Array:
        """Return calibrated probabilities, same library, shape, dtype and device.

        Args:
            logits: real array ``[..., K]`` of any library, data frame or list; -inf marks an
                impossible class. The columns of a data frame are matched to `class_names`.
                ``[N, 1]``, and ``[N]`` for a calibrator fitted on two classes, are margins of
                class 1.
            probs: probabilities instead, with `zero_mix` of the uniform distribution mixed in
                before the logarithm; ``[N, 1]`` and ``[N]`` are probabilities of class 1.

        Returns:
            Probabilities ``[..., K]`` in the order of the calibrator's classes; lists and data
            frames give NumPy arrays.
        """
        return self._probs(self._read(logits, probs))

    def _read(self, logits: Any, probs: Any) -> Array:
        if (logits is None) == (probs is None):
            raise ValueError(
                "Pass exactly one of `logits` and `probs`, got "
                f"{'neither' if logits is None else 'both'}."
            )
        name = "logits" if probs is None else "probs"
        given = in_class_order(logits if probs is None else probs, self.class_names, name=name)
        x = as_array(given, name=name)
        shape: tuple[int, ...] = getattr(x, "shape", ())
        if len(shape) >= 2 and shape[-1] == 1:
            x = two_columns(x[..., 0], is_probs=name == "probs")
        elif len(shape) == 1 and self.n_classes == 2:
            x = two_columns(x, is_probs=name == "probs")
        if name == "probs":
            check_probs(x)
            self._check_width(x, name)
            return log_probabilities(x, self.zero_mix)
        check_logits(x)
        self._check_width(x, name)
        return x

    def _check_width(self, x: Array, name: str) -> None:
        if self.n_classes is not None and x.shape[-1] != self.n_classes:
            raise ValueError(
                f"`{name}` must have the {self.n_classes} classes that the calibrator was fitted "
                f"on, got shape {tuple(x.shape)}."
            )

    def with_class_names(self, names: Any) -> Self:
        """Return the same calibrator with a name for each class, in the order of the columns."""
        return replace(self, class_names=None if names is None else tuple(map(str, names)))

    @abstractmethod
    def describe(self) -> str:
        """Return a one-line description."""

    def to_dict(self) -> dict[str, Any]:
        """Return what `save` writes."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "parameters": self._parameters(),
        }
        if self.class_names is not None:
            document["class_names"] = self.class_names
        if self.zero_mix:
            document["zero_mix"] = self.zero_mix
        if self.n_classes is not None:
            document["n_classes"] = self.n_classes
        return document

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _own_names(type(self))}

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the constructor arguments that the JSON object `parameters` holds."""
        names = _own_names(cls)
        check_keys(parameters, names, what=f"parameters of {cls.kind!r}")
        return {name: frozen_numbers(parameters[name], name) for name in names}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibrator to `path` as JSON, whole or not at all.

        Numbers are written so that reading gives the same float64.
        """
        text = json_text(self.to_dict())
        with atomic_path(os.fspath(path), force=True) as beside:
            beside.write_text(text, encoding="utf-8")

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
            return cls.from_dict(read_document(path))
        except ValueError as error:  # includes invalid JSON and invalid UTF-8
            raise in_file(path, error) from error

    @classmethod
    def from_dict(cls, document: Any) -> Self:
        """Return the calibrator of a document in the form of `to_dict`."""
        if isinstance(document, dict) and not {"format", "kind"} & set(document):
            raise ValueError(
                "is not a calibrator, such as the calibrator.json of `focalibrate calibrate`."
            )
        check_keys(
            document,
            ("format", "version", "kind", "parameters"),
            what="calibrator file",
            optional=("class_names", "zero_mix", "n_classes"),
        )
        check_version(document, form=FORMAT, version=VERSION)
        kinds = {c.kind: c for c in Calibrator.__subclasses__()}
        kind = document["kind"]
        found = kinds.get(OLD_KINDS.get(kind, kind)) if isinstance(kind, str) else None
        if found is None:
            known = ", ".join(sorted(kinds))
            raise ValueError(f"`kind` must be one of {known}; got {document['kind']!r}.")
        if not issubclass(found, cls):
            raise ValueError(
                f"`kind` must be {cls.kind!r} for {cls.__name__}.load, got {found.kind!r}. "
                "Use Calibrator.load to read any kind."
            )
        parameters = found._from_parameters(document["parameters"])
        return found(**parameters, **_shared_fields(document))


def _shared_fields(document: dict[str, Any]) -> dict[str, Any]:
    """Return the optional fields of a file that every kind has."""
    shared: dict[str, Any] = {}
    names = document.get("class_names")
    if names is not None:
        if not isinstance(names, (list, tuple)):
            raise ValueError(f"`class_names` must be a list of strings, got {names!r:.80}.")
        shared["class_names"] = tuple(names)
    if "zero_mix" in document:
        shared["zero_mix"] = frozen_numbers(document["zero_mix"], "zero_mix")
    if "n_classes" in document:
        shared["n_classes"] = document["n_classes"]
    return shared


_SHARED = ("class_names", "zero_mix", "n_classes")


def _own_names(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls) if f.name not in _SHARED)
