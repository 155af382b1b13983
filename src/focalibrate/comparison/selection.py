"""Which methods are compared, and which of them can be chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from focalibrate._check import check_choice
from focalibrate.calibrate import METHODS
from focalibrate.calibrate.choice import AUTO, candidates_for
from focalibrate.calibrate.methods import AVERAGE, MODEL
from focalibrate.calibrate.rows import Rows

LeftOut = tuple[tuple[str, str], ...]
MEMBER = "used only as a member of the average"
SHOWN = "shown for comparison only"


@dataclass(frozen=True)
class Selection:
    """The methods to compare."""

    names: tuple[str, ...]
    """all that are fitted, the average last"""
    members: tuple[str, ...]
    """those that are averaged"""
    asked: tuple[str, ...]
    """those that the caller named"""
    left_out: LeftOut
    """default methods that would take too long, and why"""
    why_not: Mapping[str, str]
    """methods that cannot be chosen, and why; the only member of the average can be"""


def selected(
    methods: Sequence[str] | None,
    trained_gamma: float | None,
    *,
    rows: Rows,
    n_fits: int,
    also: str | None = None,
) -> Selection:
    """Return the methods to compare, and those left out because they would take too long.

    Args:
        methods: names. Default: the candidates of the automatic choice, and every default method
            that applies.
        trained_gamma: exponent of the focal loss trained with, where it is known.
        rows: what they are fitted on.
        n_fits: how often each is fitted.
        also: a method that is compared in any case.
    """
    automatic = candidates_for(rows, trained_gamma, n_fits=n_fits)
    own = (*automatic.ladder, AVERAGE)
    asked = [m for name in methods or () for m in (own if name == AUTO else (name,))]
    asked += [] if also is None else [also]
    for name in asked:
        _check_applies(name, trained_gamma, rows)
    names: list[str] = [MODEL]
    left_out: LeftOut = ()
    if methods is None:
        names, left_out = _default(automatic.names, trained_gamma, rows, n_fits)
    has_average = AVERAGE in (*names, *asked)
    members = automatic.members if has_average else ()
    every = dict.fromkeys([*names, *members, *asked])
    can_be_chosen = own if methods is None else (MODEL, *asked)
    return Selection(
        names=tuple(sorted(every, key=lambda name: name == AVERAGE)),
        members=members,
        asked=tuple(name for name in (*(methods or ()), also) if name and name != AUTO),
        left_out=tuple((name, why) for name, why in left_out if name not in every),
        why_not={
            name: MEMBER if name in members else SHOWN
            for name in every
            if name not in can_be_chosen
        },
    )


def _check_applies(name: str, trained_gamma: float | None, rows: Rows) -> None:
    check_choice(name, (AUTO, *METHODS), name="methods")
    if METHODS[name].needs_gamma and trained_gamma is None:
        raise ValueError(
            f"`trained_gamma` must be given for the method {name!r}, got None. Pass the exponent "
            "the model was trained with, or leave the method out."
        )
    if METHODS[name].applies_to(rows.n_classes, trained_gamma, options=rows.options):
        return
    if rows.options:
        raise ValueError(
            f"`methods`: {name!r} learns something about each class, but options are not the same "
            "in every row. Leave it out."
        )
    raise ValueError(
        f"`methods`: {name!r} is for two classes, but there are {rows.n_classes}. Leave it out."
    )


def _default(
    candidates: Sequence[str], trained_gamma: float | None, rows: Rows, n_fits: int
) -> tuple[list[str], LeftOut]:
    names, left_out = [], []
    for name, method in METHODS.items():
        is_wanted = method.default or name in candidates
        if not is_wanted or not method.applies_to(
            rows.n_classes, trained_gamma, options=rows.options
        ):
            continue
        if method.is_too_slow(rows, n_fits):
            size = f"{rows.n_rows:,} rows of {rows.n_classes:,} classes"
            left_out.append((name, f"too slow for {size}"))
        else:
            names.append(name)
    return names, tuple(left_out)
