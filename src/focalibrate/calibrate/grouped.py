"""A calibrator with parameters of their own for some groups of rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, to_numpy
from focalibrate.calibrate.calibrator import Calibrator, check_keys, read_member

if TYPE_CHECKING:
    import os

    from focalibrate.nn.calibrator import CalibratorModule

MAX_NAMED = 3
"""More groups than this are counted, not named."""


@final
@dataclass(frozen=True)
class GroupedCalibrator(Calibrator):
    """One calibrator for all rows, and others for the groups that need their own.

    The group of a row is the text of its value in `column`. A group that has no calibrator of
    its own, and any group that was never seen, uses the shared one.

    Example:
        >>> from focalibrate.calibrate import TemperatureScaling
        >>> found = GroupedCalibrator(
        ...     "region", TemperatureScaling(1.0), ("north", "south"),
        ...     (TemperatureScaling(2.0), None))
        >>> logits = np.array([[0.0, 2.0], [0.0, 2.0]])
        >>> found.probs(logits, groups=["north", "south"]).round(3)
        array([[0.269, 0.731],
               [0.119, 0.881]])
    """

    column: str
    """name of the column of the groups"""
    shared: Calibrator
    """for every group without one of its own"""
    groups: tuple[str, ...]
    """those that were seen when fitting"""
    own: tuple[Calibrator | None, ...]
    """the calibrator of each of `groups`; None: the shared one"""
    kind: ClassVar[str] = "by_group"

    def _check(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise ValueError(f"`column` must be a name, got {self.column!r:.80}.")
        if len(self.groups) != len(self.own) or len(set(self.groups)) < len(self.groups):
            raise ValueError(
                "`groups` must be different names, one for each calibrator of `own`, got "
                f"{len(self.groups)} and {len(self.own)}."
            )
        members = (self.shared, *(c for c in self.own if c is not None))
        if any(isinstance(member, GroupedCalibrator) for member in members):
            raise ValueError("`shared` and `own` must not be calibrators by group themselves.")

    def _own_classes(self) -> int | None:
        members = (self.shared, *self.own)
        return next((m.n_classes for m in members if m is not None and m.n_classes), None)

    @property
    def own_groups(self) -> tuple[str, ...]:
        """The groups that have a calibrator of their own."""
        return tuple(g for g, c in zip(self.groups, self.own, strict=True) if c is not None)

    def of_group(self, group: Any) -> Calibrator:
        """Return the calibrator that rows of `group` use."""
        name = str(group_names([group])[0])
        found = dict(zip(self.groups, self.own, strict=True)).get(name)
        return self.shared if found is None else found

    def log_probs(self, logits: Any = None, *, probs: Any = None, groups: Any = None) -> Array:
        """Return calibrated log-probabilities; arguments as for `probs`."""
        x, _ = self._read(logits, probs)
        if groups is None:
            raise ValueError(
                f"`groups` must be given: the {self.column!r} of every row. For one group use "
                "`of_group(name)`, for rows of no known group `shared`."
            )
        if len(x.shape) != 2:
            raise ValueError(f"Scores must have shape [N, K], got {tuple(x.shape)}.")
        names = group_names(groups)
        if names.shape != (x.shape[0],):
            raise ValueError(
                f"`groups` must have one value per row, [{x.shape[0]}], got shape {names.shape}."
            )
        rows = to_numpy(x)
        found = np.empty(rows.shape, dtype=np.result_type(rows.dtype, np.float32))
        for name in np.unique(names):
            at = names == name
            found[at] = self.of_group(name).log_probs_of(rows[at])
        return found

    def probs(self, logits: Any = None, *, probs: Any = None, groups: Any = None) -> Array:
        """Return calibrated probabilities ``[N, K]``, a NumPy array.

        Args:
            logits: real array ``[N, K]``, see `Calibrator.probs`.
            probs: probabilities instead.
            groups: the group of each row ``[N]``: the values of `column`.
        """
        return np.exp(to_numpy(self.log_probs(logits, probs=probs, groups=groups)))

    def _log_probs(self, x: Array) -> Array:
        self._refuse("a function of the scores alone")

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(
            f"A calibrator by group needs the {self.column!r} of every row, so it cannot be "
            f"{what}. Use `of_group(name)` for each group and `shared` for the others, or "
            "calibrate without groups."
        )

    def to_torch(self, *, scores: Any = None) -> "CalibratorModule":
        """Raise: a torch module gets the scores, not the group; see `of_group`."""
        self._refuse("a torch module of logits")

    def to_onnx(self, path: "str | os.PathLike[str]", *, scores: Any = None) -> None:
        """Raise: an ONNX graph gets the scores, not the group; see `of_group`."""
        self._refuse("an ONNX graph of logits")

    def _described(self) -> str:
        own = self.own_groups
        if len(own) > MAX_NAMED:
            named = f"{len(own)} groups of {self.column}"
        else:
            named = ", ".join(f"{self.column} = {name}" for name in own)
        return f"calibrators of their own for {named}; others: {self.shared.describe()}"

    def _parameters(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "shared": self.shared.to_dict(),
            "groups": {
                group: None if calibrator is None else calibrator.to_dict()
                for group, calibrator in zip(self.groups, self.own, strict=True)
            },
        }

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        check_keys(parameters, ("column", "shared", "groups"), what=f"parameters of {cls.kind!r}")
        groups = parameters["groups"]
        if not isinstance(groups, dict):
            raise ValueError(f"`groups` must be a JSON object, got {type(groups).__name__}.")
        return {
            "column": parameters["column"],
            "shared": read_member(parameters["shared"], cls),
            "groups": tuple(groups),
            "own": tuple(None if c is None else read_member(c, cls) for c in groups.values()),
        }


def group_names(values: Any) -> NDArray[np.str_]:
    """Return the values of a column as text: 1, 1.0, "1" and "1.0" are the same group.

    The name of a value does not depend on the others.

    Example:
        >>> group_names([1.0, 0.5, float("nan")]).tolist()
        ['1', '0.5', 'nan']
        >>> group_names([1.0, "new"]).tolist()
        ['1', 'new']
    """
    array = np.asarray(to_numpy(values) if hasattr(values, "__array_namespace__") else values)
    names, index = np.unique(array.astype(str), return_inverse=True)
    plain = np.array([_plain(name) for name in names.tolist()], dtype=str)
    return plain[index].reshape(array.shape)


def _plain(name: str) -> str:
    """Return a whole number without a decimal point, other names as they are."""
    whole, point, zeros = name.partition(".")
    is_whole = point and not zeros.strip("0") and whole.lstrip("-").isdecimal()
    return str(int(whole)) if is_whole else name


def log_probs_by_row(
    calibrator: Calibrator,
    groups: Mapping[str, NDArray[Any]],
    index: Any = slice(None),
    **scores: Any,
) -> Array:
    """Return the log-probabilities of rows `index`, given the columns of groups of all rows."""
    if not isinstance(calibrator, GroupedCalibrator):
        return calibrator.log_probs(**scores)
    return calibrator.log_probs(**scores, groups=column_of(calibrator, groups)[index])


def column_of(calibrator: GroupedCalibrator, groups: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return the column of the groups of `calibrator`."""
    if calibrator.column not in groups:
        raise ValueError(
            f"The calibrator needs the column {calibrator.column!r}, which has the group of "
            f"each row. Pass it: --by {calibrator.column}."
        )
    return groups[calibrator.column]
