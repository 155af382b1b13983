"""What every calibrator can do: give probabilities, describe itself, be saved and loaded."""

import json
import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np

from focalibrate._array import Array, is_numpy_array, like, namespace
from focalibrate._atomic import atomic_path, json_text
from focalibrate._check import check_logits, check_probs, in_class_order
from focalibrate.calibrate.optimise import FitReport
from focalibrate.calibrate.rows import (
    ScoreKind,
    as_array,
    log_probabilities,
    precise_dtype,
    two_columns,
    warn_of_probabilities,
)

if TYPE_CHECKING:
    from focalibrate.nn.calibrator import CalibratorModule

FORMAT = "focalibrate.calibrator"
TINY = 2.0**-126
"""Least probability where none is 0: the smallest normal number of float32."""
VERSION = 1
"""Version of the file format; a file with another one is refused."""


@dataclass(frozen=True, kw_only=True)
class Calibrator(ABC):
    """A frozen map from scores, logits or probabilities, to calibrated probabilities.

    Final subclasses are frozen dataclasses. Fields of numbers, or of nested tuples of them, are
    checked on construction, where lists and arrays become tuples.
    """

    class_names: tuple[str, ...] | None = field(default=None, repr=False)
    """Name of each class, in the order of the columns; None if they are not known."""
    zero_mix: float = field(default=0.0, repr=False)
    """Weight of the uniform distribution mixed into ``probs=`` before the logarithm."""
    uniform_mix: float = field(default=0.0, repr=False)
    """Weight of the uniform distribution over the possible classes in the result."""
    n_classes: int | None = field(default=None, repr=False)
    """Number of classes fitted on; None accepts any."""
    fitted_on: ScoreKind | None = field(default=None, repr=False, compare=False)
    """The kind of score it was fitted on, which `to_torch` and `to_onnx` take; None: logits."""
    report: FitReport | None = field(default=None, repr=False, compare=False)
    """How the fit went; not saved."""

    kind: ClassVar[str]
    """Name in files and on the command line: that of the method without its criterion."""
    keeps_argmax: ClassVar[bool] = False
    """Whether the predicted class never changes."""
    has_zeros: ClassVar[bool] = False
    """Whether its definition gives some classes probability 0."""
    fixed_classes: ClassVar[int | None] = None
    """The number of classes that this kind is for; None: any."""
    by_class: ClassVar[str | None] = None
    """The field that has one entry per class."""
    is_table: ClassVar[bool] = False
    """Whether it looks up probabilities, which float32 would move across the edges of a table."""

    def __post_init__(self) -> None:
        names: Any = self.class_names
        if isinstance(names, list):  # from a file
            object.__setattr__(self, "class_names", tuple(names))
        for f in fields(self):
            value = getattr(self, f.name)
            if "float" in str(f.type) and not (value is None and f.default is None):
                numbers = frozen_numbers(value, f.name, depth=str(f.type).count("tuple"))
                object.__setattr__(self, f.name, numbers)
        self._check()
        own = self._own_classes()
        if self.n_classes is None:
            names = self.class_names
            object.__setattr__(self, "n_classes", own or (len(names) if names else None))
        self._check_classes(own)
        for name, mix in (("zero_mix", self.zero_mix), ("uniform_mix", self.uniform_mix)):
            if not 0 <= mix < 1:
                raise ValueError(f"`{name}` must lie in [0, 1), got {mix!r}.")
        if self.fitted_on not in (None, "logits", "probs"):
            raise ValueError(
                f'`fitted_on` must be "logits", "probs" or None, got {self.fitted_on!r:.80}.'
            )

    def _check(self) -> None:  # noqa: B027  (identity has nothing to check)
        """Raise `ValueError` unless the parameters, which are finite numbers, are valid."""

    def _own_classes(self) -> int | None:
        """Return the number of classes that the parameters are for; None: any."""
        return self.fixed_classes if self.by_class is None else len(getattr(self, self.by_class))

    def _check_classes(self, own: int | None) -> None:
        k, names = self.n_classes, self.class_names
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 2):
            raise ValueError(f"`n_classes` must be a whole number >= 2, got {k!r}.")
        if own is not None and k != own:
            raise ValueError(f"`n_classes` must be {own}, as the parameters are, got {k}.")
        if names is None:
            return
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"`class_names` must be a list of strings, got {names!r:.80}.")
        if len(names) != k or len(set(names)) < len(names):
            raise ValueError(
                f"`class_names` must be {k} different names, got {len(names)}: {names!r:.80}."
            )

    def _log_probs(self, x: Array) -> Array:
        """Return calibrated log-probabilities of checked logits ``[..., K]``.

        Every kind defines this or `_probs`, from which the other follows.
        """
        return log_of(self._probs(x))

    def _probs(self, x: Array) -> Array:
        log_probs = self._log_probs(x)
        return namespace(log_probs).exp(log_probs)

    def probs_of(self, x: Array) -> Array:
        """Return `probs` of checked logits, with `uniform_mix` of the possible classes."""
        probs = self._probs(x)
        if not self.uniform_mix:
            return probs
        return (1.0 - self.uniform_mix) * probs + self.uniform_mix * uniform(x, probs.dtype)

    def log_probs_of(self, x: Array) -> Array:
        """Return `log_probs` of checked logits."""
        if not self.uniform_mix:
            return self._log_probs(x)
        return log_of(self.probs_of(x))

    def log_probs(self, logits: Any = None, *, probs: Any = None) -> Array:
        """Return calibrated log-probabilities; arguments as for `probs`."""
        x, dtype = self._read(logits, probs)
        return x if 0 in x.shape else _as(self._in_any_order(self.log_probs_of, x), dtype)

    def probs(self, logits: Any = None, *, probs: Any = None) -> Array:
        """Return calibrated probabilities, same library, shape, dtype and device.

        Args:
            logits: real array ``[..., K]`` of any library, data frame or list; -inf marks an
                impossible class. The columns of a data frame are matched to `class_names`.
                ``[N, 1]``, and ``[N]`` for a calibrator fitted on two classes, are margins of
                class 1.
            probs: probabilities instead. A zero means less than the model resolves: with
                `zero_mix` of the uniform distribution mixed in, or else as the smallest number
                of float32, it gets a positive probability, and no class gets exactly 1, except
                from methods that give some classes 0 by definition (isotonic regression,
                histogram binning). ``[N, 1]`` and ``[N]`` are probabilities of class 1.

        Returns:
            Probabilities ``[..., K]`` in the order of the calibrator's classes; lists and data
            frames give NumPy arrays.
        """
        x, dtype = self._read(logits, probs)
        if 0 in x.shape:
            return x
        found = _as(self._in_any_order(self.probs_of, x), dtype)
        return found if probs is None else self.without_ends(found)

    def without_ends(self, found: Array) -> Array:
        """Return calibrated probabilities with no exact 0 or 1, unless by definition.

        Exponentials of finite numbers may underflow, at the latest when cast to float32, and their
        sum may round to the largest of them.
        """
        if self.has_zeros:
            return found
        xp = namespace(found)
        info = xp.finfo(found.dtype)
        least = 6e-8 if float(info.smallest_normal) > 1e-10 else TINY
        return xp.clip(found, like(least, found), like(1.0 - 0.5 * float(info.eps), found))

    def _in_any_order(self, function: Callable[[Array], Array], x: Array) -> Array:
        """Return ``function(x)``, of NumPy exactly the same in whatever order options come."""
        if self.n_classes is not None or not is_numpy_array(x):
            return function(x)
        order = x.argsort(axis=-1, kind="stable")
        found = np.empty_like(x)
        np.put_along_axis(found, order, function(np.take_along_axis(x, order, axis=-1)), axis=-1)
        return found

    def _read(self, logits: Any, probs: Any) -> tuple[Array, Any]:
        """Return checked logits, or log-probabilities, and the dtype of the result."""
        if (logits is None) == (probs is None):
            raise ValueError(
                "Pass exactly one of `logits` and `probs`, got "
                f"{'neither' if logits is None else 'both'}."
            )
        name: ScoreKind = "logits" if probs is None else "probs"
        given = in_class_order(logits if probs is None else probs, self.class_names, name=name)
        x = as_array(given, name=name)
        shape: tuple[int, ...] = getattr(x, "shape", ())
        if len(shape) >= 2 and shape[-1] == 1:
            x = two_columns(x[..., 0], is_probs=name == "probs")
        elif len(shape) == 1 and self.n_classes == 2:
            x = two_columns(x, is_probs=name == "probs")
        if len(shape) >= 2 and 0 in shape[:-1]:  # an empty batch has an empty result
            self._check_width(x, name)
            return x, x.dtype
        (check_logits if name == "logits" else check_probs)(x)
        self._check_width(x, name)
        if name == "logits":
            warn_of_probabilities(x)
            return x, x.dtype
        given = namespace(x).astype(x, precise_dtype(x)) if self.is_table else x
        return log_probabilities(given, self.zero_mix), x.dtype

    def _check_width(self, x: Array, name: str) -> None:
        if self.n_classes is not None and x.shape[-1] != self.n_classes:
            raise ValueError(
                f"`{name}` must have the {self.n_classes} classes that the calibrator was fitted "
                f"on, got shape {tuple(x.shape)}."
            )

    def with_class_names(self, names: Any) -> Self:
        """Return the same calibrator with a name for each class, in the order of the columns."""
        return replace(self, class_names=None if names is None else tuple(map(str, names)))

    def describe(self) -> str:
        """Return a one-line description, which is also what `print` shows."""
        return self._described()

    def __str__(self) -> str:
        return self._described()

    @abstractmethod
    def _described(self) -> str: ...

    def to_dict(self) -> dict[str, Any]:
        """Return what `save` writes."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "parameters": self._parameters(),
        }
        return document | {name: getattr(self, name) for name in _SAVED if getattr(self, name)}

    def _parameters(self) -> dict[str, Any]:
        values = ((f, getattr(self, f.name)) for f in _own_fields(type(self)))
        return {f.name: _plain(value) for f, value in values if value != f.default}

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the constructor arguments that the JSON object `parameters` holds."""
        own = _own_fields(cls)
        check_keys(
            parameters,
            tuple(f.name for f in own if f.default is MISSING),
            what=f"parameters of {cls.kind!r}",
            optional=tuple(f.name for f in own if f.default is not MISSING),
        )
        return parameters

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibrator to `path` as JSON, whole or not at all.

        Numbers are written so that reading gives the same float64.
        """
        write_document(path, self.to_dict())

    def to_torch(self, *, scores: ScoreKind | None = None) -> "CalibratorModule":
        """Return a torch module from scores to probabilities (needs torch).

        Args:
            scores: what goes in, ``"logits"`` or ``"probs"``. Default: what it was fitted on.
        """
        from focalibrate.nn.calibrator import CalibratorModule

        return CalibratorModule(self, scores=scores)

    def to_onnx(self, path: str | os.PathLike[str], *, scores: ScoreKind | None = None) -> None:
        """Write an ONNX graph from scores to probabilities (needs onnx).

        See `focalibrate.deploy.calibrator_to_onnx`; `attach_to_onnx` there appends it to a
        classifier.

        Args:
            path: file to write.
            scores: what goes in, ``"logits"`` or ``"probs"``. Default: what it was fitted on.
        """
        from focalibrate.deploy.onnx import calibrator_to_onnx

        calibrator_to_onnx(self, path, scores=scores)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a calibrator that `save` wrote.

        On `Calibrator` any kind is read; on a subclass only its own. Nothing in the file is
        executed, and whatever is unknown, missing or not a finite number is refused.
        """
        try:
            return cls.from_dict(read_document(path))
        except ValueError as error:  # includes invalid JSON and invalid UTF-8
            text = str(error)  # which may contain a name from the file, of any length
            raise ValueError(f"{path}: {text[:1000]}{'...' * (len(text) > 1000)}") from error

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
            optional=_SAVED,
        )
        check_version(document, form=FORMAT, version=VERSION)
        kinds = {c.kind: c for c in Calibrator.__subclasses__()}
        kind = document["kind"]
        found = kinds.get(kind) if isinstance(kind, str) else None
        if found is None:
            known = ", ".join(sorted(kinds))
            raise ValueError(f"`kind` must be one of {known}; got {document['kind']!r}.")
        if not issubclass(found, cls):
            raise ValueError(
                f"`kind` must be {cls.kind!r} for {cls.__name__}.load, got {found.kind!r}. "
                "Use Calibrator.load to read any kind."
            )
        if not isinstance(document["parameters"], dict):
            given = repr(document["parameters"])[:80]
            raise ValueError(f"`parameters` must be a JSON object, got {given}.")
        parameters = found._from_parameters(document["parameters"])
        return found(**parameters, **{n: document[n] for n in _SAVED if n in document})


def uniform(x: Array, dtype: Any) -> Array:
    """Return the uniform distribution over the classes that are possible in `x`."""
    xp = namespace(x)
    possible = xp.astype(xp.isfinite(x), dtype)
    return possible / xp.sum(possible, axis=-1, keepdims=True)


def log_of(probs: Array) -> Array:
    """Return the logarithm, -inf where the probability is 0, without a warning."""
    xp = namespace(probs)
    is_zero = probs == 0
    log_probs = xp.log(xp.where(is_zero, xp.ones_like(probs), probs))
    return xp.where(is_zero, xp.full_like(probs, -xp.inf), log_probs)


def _as(x: Array, dtype: Any) -> Array:
    return x if x.dtype == dtype else namespace(x).astype(x, dtype)


_SAVED = ("class_names", "zero_mix", "uniform_mix", "n_classes", "fitted_on")


def _own_fields(cls: Any) -> list[Field[Any]]:
    return [f for f in fields(cls) if f.name not in (*_SAVED, "report")]


def _plain(value: Any) -> Any:
    """Return a parameter as JSON has it."""
    if isinstance(value, tuple) and value and isinstance(value[0], Calibrator):
        return [member.to_dict() for member in value]
    return value


def read_member(document: Any, owner: type[Calibrator]) -> Calibrator:
    """Return a calibrator that one of the kind `owner` holds."""
    if isinstance(document, dict) and document.get("kind") == owner.kind:
        raise ValueError(f"A calibrator of kind {owner.kind!r} must not hold one of its kind.")
    return Calibrator.from_dict(document)


def check_temperature(temperature: Any, *, name: str = "temperature") -> None:
    """Raise `ValueError` unless `temperature` is a finite number above 0."""
    is_number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool)
    if not is_number or not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"`{name}` must be a finite number > 0, got {temperature!r}.")


def frozen_numbers(values: Any, name: str, *, depth: int) -> Any:
    """Return a finite number as a float, and lists or arrays `depth` deep as tuples of them."""
    if isinstance(values, (np.ndarray, np.generic)):
        values = values.tolist()
    if depth and isinstance(values, (list, tuple)):
        # By `map`: a matrix of 1000 classes has a million numbers.
        if depth == 1 and set(map(type, values)) == {float} and all(map(math.isfinite, values)):
            return tuple(values)
        return tuple(frozen_numbers(value, name, depth=depth - 1) for value in values)
    is_number = isinstance(values, (int, float)) and not isinstance(values, bool)
    if depth or not is_number or not abs(values) <= sys.float_info.max:
        what = "lists of finite numbers" if depth else "finite numbers only"
        raise ValueError(f"`{name}` must hold {what}, got {values!r:.80}.")
    return float(values)


def write_document(path: str | os.PathLike[str], document: dict[str, Any]) -> None:
    """Write a calibrator's JSON, whole or not at all."""
    text = json_text(document)
    with atomic_path(os.fspath(path), force=True) as beside:
        beside.write_text(text, encoding="utf-8")


def read_document(path: str | os.PathLike[str]) -> Any:
    """Return the JSON in `path`; numbers that are not finite and repeated fields are refused."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"is not JSON ({error}). A calibrator is a file that its `save` or `focalibrate "
            "calibrate` wrote."
        ) from error
    except RecursionError:
        raise ValueError("brackets are nested too deeply.") from None


def check_version(document: dict[str, Any], *, form: str, version: int) -> None:
    """Raise `ValueError` unless the document is of this format and version."""
    if document["format"] != form:
        raise ValueError(f"`format` must be {form!r}, got {document['format']!r}.")
    if type(document["version"]) is not int or document["version"] != version:  # no 1.0 or true
        raise ValueError(
            f"`version` must be {version}, got {document['version']!r}. Save the calibrator "
            "again, or read it with the release that wrote it."
        )


def check_keys(
    document: Any, names: tuple[str, ...], *, what: str, optional: tuple[str, ...] = ()
) -> None:
    """Raise `ValueError` unless the JSON object has the fields `names`, and no unknown one."""
    if not isinstance(document, dict):
        raise ValueError(f"The {what} must be a JSON object, got {type(document).__name__}.")
    missing = [name for name in names if name not in document]
    extra = [name for name in document if name not in (*names, *optional)]
    if missing or extra:
        raise ValueError(
            f"The {what} must have exactly the fields {list(names)}; missing {missing}, "
            f"not known {extra}."
        )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"numbers must be finite, found {constant}.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("every field must appear once, but one is repeated.")
    return document
