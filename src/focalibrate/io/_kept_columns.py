"""The columns that an output keeps: all but the scores."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._frame import Frame, silent
from focalibrate.io._label_rows import Matched
from focalibrate.io._roles import Roles
from focalibrate.io._view import View
from focalibrate.io.predictions import Layout


def layout_of(
    view: View,
    roles: Roles,
    matched: Matched | None,
    labels_name: str | None,
    kept: NDArray[np.bool_] | None,
) -> Layout:
    """Return which columns an output keeps, and how to read them."""
    frame = view.frame
    chosen = set(roles.scores.positions)
    dropped = {frame.extra.get("class_names_at", -1)}
    others = [i for i in range(len(frame.columns)) if i not in chosen and i not in dropped]
    others = [i for i in others if frame.columns[i].problem is None]
    first = min(chosen)

    def load() -> list[Any]:
        found = _as_written(frame, others)
        return found if kept is None else [_masked(values, kept) for values in found]

    return Layout(
        names=tuple(frame.names[i] for i in others),
        place=len([i for i in others if i < first]),
        label_column=labels_name if roles.label is not None else None,
        labels_as="index" if matched is None else matched.form,
        form=roles.scores.form,
        load=load,
        extra={"has_names": frame.has_names, **_kept_extra(frame, others, kept)},
    )


def without_columns(layout: Layout, names: Collection[str]) -> Layout:
    """Return the layout of an output that leaves out some of the other columns."""
    kept = [i for i, name in enumerate(layout.names) if name not in names]
    if len(kept) == len(layout.names):
        return layout
    extra = dict(layout.extra)
    if "arrow" in extra:
        extra["arrow"] = lambda: layout.extra["arrow"]().select(kept)

    def load() -> list[Any]:
        found = layout.load()
        return [found[i] for i in kept]

    return replace(
        layout,
        names=tuple(layout.names[i] for i in kept),
        place=len([i for i in kept if i < layout.place]),
        load=load,
        extra=extra,
    )


def _masked(values: Any, kept: NDArray[np.bool_]) -> Any:
    if isinstance(values, list):
        return [v for v, keep in zip(values, kept, strict=True) if keep]
    return values[kept] if len(values) == len(kept) else values


def _as_written(frame: Frame, positions: Sequence[int]) -> list[Any]:
    """Return columns as they will be written again: as cells of text if the file is text."""
    if not positions:
        return []
    for key in ("cells", "values"):
        if key in frame.extra:
            found: list[Any] = frame.extra[key](positions)
            return found
    return frame.load(positions, silent)


def _kept_extra(
    frame: Frame, positions: Sequence[int], kept: NDArray[np.bool_] | None
) -> dict[str, Any]:
    extra = {k: v for k, v in frame.extra.items() if k in ("pandas", "separator", "decimal_comma")}
    if "arrow" in frame.extra:

        def arrow() -> Any:
            table = frame.extra["arrow"](positions)
            return table if kept is None else table.filter(kept)

        extra["arrow"] = arrow
    return extra
