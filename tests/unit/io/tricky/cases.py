"""Tricky but plausible files, and the three ways in which reading one may end.

Each is read right, refused with advice that works, or read with a warning that names the doubt.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.io import Doubt, PredictionFileError, Predictions, align, read_predictions

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(11)
N = 60
NAMES = ("cat", "dog", "ox")
P = RNG.dirichlet(np.ones(3), size=N).round(6)
P[:, 2] = 1 - P[:, 0] - P[:, 1]
Z = np.log(P) + RNG.normal(size=(N, 1))
Y = np.array([RNG.choice(3, p=p / p.sum()) for p in P])
WORDS = np.array(NAMES)[Y]
ORDER = RNG.permutation(N)
P1 = RNG.random(N).round(4)
Y1 = (RNG.random(N) < P1).astype(int)
OTHER = RNG.dirichlet(np.ones(3), size=N).round(6)
"""Probabilities of another model, or parts of a mixture."""
OTHER[:, 2] = 1 - OTHER[:, 0] - OTHER[:, 1]


@dataclass(frozen=True)
class Truth:
    """What the rows really hold: probabilities of the classes, and labels."""

    probs: Any
    labels: Any
    names: tuple[str, ...] | None = None

    def check(self, found: Predictions) -> None:
        """Raise `AssertionError` unless this was read, in whatever order of the classes."""
        if self.names is not None and found.class_names is not None:
            assert set(found.class_names) == set(self.names), found.class_names
            found = align(found, self.names)
        assert found.n_classes == self.probs.shape[1], found.describe()
        scores = found.scores
        if found.kind == "logits":
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        assert_allclose(scores / scores.sum(axis=1, keepdims=True), self.probs, atol=2e-6)
        if self.labels is not None:
            assert_array_equal(found.labels, self.labels)


CLASSES = Truth(P, Y, NAMES)
EVENT = Truth(np.stack([1 - P1, P1], axis=1), Y1)


def write(path: Path, content: Any) -> None:
    """Write a data frame, arrays or text in the format of the suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    elif isinstance(content, Mapping):
        np.savez(path, **content)
    elif isinstance(content, np.ndarray):
        np.save(path, content)
    elif path.suffix == ".parquet":
        content.to_parquet(path)
    elif path.suffix == ".jsonl":
        content.to_json(path, orient="records", lines=True)
    elif path.suffix == ".json":
        path.write_text(json.dumps(content.to_dict(orient="records")))
    else:
        content.to_csv(path, index=content.index.name is not None or content.attrs.get("index"))


def with_index(table: Any) -> Any:
    """Return a data frame whose index is written as a column without a name."""
    table.attrs["index"] = True
    return table


def probs(**more: Any) -> Any:
    """Return a table of probabilities, one column per class, and other columns."""
    return pd.DataFrame({**{f"prob_{n}": P[:, i] for i, n in enumerate(NAMES)}, **more})


def logits(prefix: str = "logit_", **more: Any) -> Any:
    """Return a table of logits, one column per class, and other columns."""
    return pd.DataFrame({**{f"{prefix}{n}": Z[:, i] for i, n in enumerate(NAMES)}, **more})


@dataclass(frozen=True)
class Case:
    """Files, the options of the first try, and how reading them may end.

    Attributes:
        files: by name; the first, or the folder that all are in, is read.
        truth: what a reading without a warning, and every piece of advice, must give.
        options: of the first try.
        said: a note or the error must match this.
        refused: it must not be read.
        warned: it must be read with a warning.
        advised: fixes must be offered, and one must give the truth.
        others: what a fix that is offered may give instead.
        never: words that no fix may contain.
    """

    files: dict[str, Any]
    truth: Truth | None = CLASSES
    options: dict[str, Any] = field(default_factory=dict)
    said: str = ""
    refused: bool = False
    warned: bool = False
    advised: bool = False
    others: tuple[Truth, ...] = ()
    never: tuple[str, ...] = ()

    def check(self, folder: Path) -> None:
        """Write the files, read them, and check how that ended."""
        for name, content in self.files.items():
            write(folder / name, content)
        first = next(iter(self.files))
        source = folder / first.split("/")[0]
        options = {
            key: folder / value if key == "labels_path" else value
            for key, value in self.options.items()
        }
        read: Callable[..., Predictions] = lambda **more: read_predictions(  # noqa: E731
            source, **{"need_labels": True, **options, **more}
        )
        if self.refused or self.advised:
            with pytest.raises(PredictionFileError, match=self.said or None) as caught:
                read()
            self._check_fixes(caught.value, read)
            return
        found = read()
        doubts = [note for note in found.notes if isinstance(note, Doubt)]
        assert any(re.search(self.said, note) for note in (*found.notes, "")), found.notes
        assert bool(doubts) or not self.warned, (found.describe(), found.notes)
        if self.truth is not None:
            self.truth.check(found)

    def _check_fixes(self, error: PredictionFileError, read: Callable[..., Predictions]) -> None:
        given = [str(value) for fix in error.fixes for value in fix.values()]
        for word in self.never:
            assert not any(word in value for value in given), error.fixes
        if not self.advised:
            return
        n_right = 0
        for fix in error.fixes:
            found = read(**fix)
            allowed = [truth for truth in (self.truth, *self.others) if truth is not None]
            fits = [truth for truth in allowed if _is(truth, found)]
            assert fits, (fix, found.describe())
            n_right += fits[0] is self.truth
        assert n_right, error.fixes


def _is(truth: Truth, found: Predictions) -> bool:
    try:
        truth.check(found)
    except (AssertionError, PredictionFileError):
        return False
    return True
