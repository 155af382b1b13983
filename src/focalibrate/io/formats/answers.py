"""Answers in evaluation logs: scores of the options, or a confidence and whether it was right."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from focalibrate.io.errors import PredictionFileError, file_error
from focalibrate.io.formats.records import table_of_columns
from focalibrate.io.table import Opened

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
PROBS, CONFIDENCE = "calibrated_probs", "calibrated_confidence"
"""Fields that `apply` adds to a log, beside what the model said."""

TINY = 5e-324
"""A calibrated probability of 0 is read as the smallest number: it underflowed."""


@dataclass
class Answers:
    """The answers of an evaluation log, as they are found.

    Attributes:
        path: the log.
        log: what wrote it.
        letters: whether the model saw the options as A, B, C, so that their order may matter.
        written: what `apply` writes where there are no options.
        roles: what the columns are, where they are not those of `add`.
        notes: what the user should know.
        rows: one mapping per answer.
        places: where each answer is in the log; with one entry per option, where these are.
    """

    path: Path
    log: str
    letters: bool = False
    written: str = CONFIDENCE
    roles: Mapping[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    places: list[Any] = field(default_factory=list)

    def add(self, place: Any, **row: Any) -> None:
        """Add an answer; all have the same columns.

        These are the scores of its options (``option_logits``) and the position of the right one
        (``answer``), or a ``confidence`` and, where the log says so, whether it was right
        (``correct``); the ``question``, whose answers belong together, the ``task``, and whatever
        else the log says.
        """
        self.places.append(place)
        self.rows.append(row)

    def left_out(self, n: int, what: str) -> None:
        """Say how many things are left out, if any."""
        self.notes += [f"{n:,} {what} left out"] * (n > 0)

    def error(self, text: str) -> PredictionFileError:
        """Return the error that the log lacks something."""
        return file_error(self.path, f"is a log of {self.log} {text}")

    @property
    def by_options(self) -> bool:
        """Whether the options have scores."""
        return bool(self.rows) and "option_logits" in self.rows[0]


def table_of_answers(found: Answers) -> Opened:
    """Return a table of answers, one row each, and what its columns are."""
    path, rows, notes = found.path, found.rows, [f"is a log of {found.log}", *found.notes]
    if not rows:
        why = f": {'; '.join(found.notes)}" if found.notes else ""
        raise file_error(path, f"is a log of {found.log}, but holds no answers{why}.")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    if found.roles is not None:
        table = table_of_columns(path, columns, notes=tuple(found.notes))
        return replace(table, schema=replace(table.schema, roles=found.roles))
    roles: dict[str, Any] = {"id_column": "question"}
    stored = [_stored(place) for place in found.places]
    is_calibrated = all(one is not None for one in stored)
    if found.by_options:
        roles |= {"logits_key": "option_logits", "label_column": "answer"}
        if is_calibrated:
            columns["option_logprobs"] = [[math.log(max(p, TINY)) for p in row] for row in stored]
            roles["logits_key"] = "option_logprobs"
            notes.append(f"{PROBS} are read; for the model's own: --logits-key option_logits")
    else:
        if is_calibrated:
            columns["confidence"] = stored
            notes.append(f"{CONFIDENCE} is read, which `focalibrate apply` added")
        elif set(columns["confidence"]) == {1.0}:
            notes.append(
                "WARNING: every answer has probability 1, as programs write that keep no "
                "probabilities at temperature 0; these say nothing of how sure the model was"
            )
        roles |= {"score_columns": "confidence", "input": "probs", "positive": "True"}
        if "correct" in columns:
            roles["label_column"] = "correct"
    if len(set(columns["question"])) < len(rows):
        roles["cluster"] = roles.pop("id_column")
        notes.append("answers to one question belong together")
    if len(set(columns["task"])) > 1:
        roles["by"] = "task"
    table = table_of_columns(path, columns, notes=tuple(notes))
    schema = replace(table.schema, roles=roles)
    return replace(table, schema=schema, layout={"letters": found.letters})


def _stored(place: Any) -> Any:
    """Return what `apply` has added to an answer: probabilities or a confidence, else None."""
    if isinstance(place, list):
        found = [number(one.get(CONFIDENCE)) for one in place]
        return None if None in found else found
    probs = place.get(PROBS)
    if isinstance(probs, list) and probs and all(number(p) is not None for p in probs):
        return [float(p) for p in probs]
    sure = number(place.get(CONFIDENCE))
    return sure if sure is not None and 0 <= sure <= 1 else None


def add_calibrated(found: Answers, blocks: Iterable[NDArray[Any]]) -> None:
    """Add calibrated probabilities to the log that the answers were found in."""
    probs = chain.from_iterable(blocks)
    for place, row, p in zip(found.places, found.rows, probs, strict=True):
        if not found.by_options:
            place[found.written] = float(p[1])
            continue
        own = [float(x) for x in p[: len(row["option_logits"])]]
        if isinstance(place, list):
            for one, x in zip(place, own, strict=True):
                one[CONFIDENCE] = x
        else:
            place[PROBS] = own


def token_answers(content: Any) -> list[tuple[str, float, dict[str, float]]]:
    """Return the tokens of an answer: text, log-probability, and those of the alternatives.

    Args:
        content: ``[{"token": " B", "logprob": -0.1, "top_logprobs": [...]}, ...]``, the form of
            OpenAI, vLLM, SGLang and Inspect; HELM says ``text`` and maps alternatives.
    """
    found = []
    for token in content if isinstance(content, list) else ():
        if not isinstance(token, Mapping):
            continue
        text, logprob = token.get("token", token.get("text")), number(token.get("logprob"))
        if not isinstance(text, str) or logprob is None:
            continue
        given = token.get("top_logprobs")
        if isinstance(given, Mapping):
            others = list(given.items())
        else:
            listed = given if isinstance(given, list) else ()
            others = [(o.get("token"), o.get("logprob")) for o in listed if isinstance(o, Mapping)]
        values = [(plain_answer(t), number(v)) for t, v in others if isinstance(t, str)]
        best: dict[str, float] = {}
        for name, value in values:
            if value is not None:
                best[name] = max(value, best.get(name, -math.inf))
        found.append((text, min(logprob, 0.0), best))
    return found


def scores_of_letters(content: Any, answer: str, n_options: int) -> list[float] | None:
    """Return the log-probability of each letter where the answer was given, or None.

    None where no token is the answer, or a letter is not among the alternatives: that it is
    improbable does not say how improbable.
    """
    for text, logprob, others in reversed(token_answers(content)):
        if plain_answer(text) == plain_answer(answer):
            known = {**others, plain_answer(text): logprob}
            letters = [plain_answer(letter) for letter in LETTERS[:n_options]]
            return [known[x] for x in letters] if all(x in known for x in letters) else None
    return None


def confidence_in(content: Any, answer: str) -> float | None:
    """Return the probability of the token, or of all tokens, that give the answer."""
    tokens = token_answers(content)
    wanted = plain_answer(answer)
    for text, logprob, _ in reversed(tokens):
        if wanted and plain_answer(text) == wanted:
            return math.exp(logprob)
    if tokens and plain_answer("".join(text for text, _, _ in tokens)) == wanted:
        return math.exp(sum(logprob for _, logprob, _ in tokens))
    return None


def letter_position(text: str) -> int:
    """Return the position of the option that a letter names, or -1."""
    name = plain_answer(text).upper()
    return LETTERS.find(name) if len(name) == 1 else -1


def plain_answer(text: str) -> str:
    """Return an answer without blanks, brackets and full stops around it, in lower case.

    Example:
        >>> plain_answer(" (B)."), plain_answer(" Yes")
        ('b', 'yes')
    """
    return text.strip().strip("().:*'\"").strip().casefold()


def inside(value: Any, *keys: str | int) -> Any:
    """Return what is at these fields and positions of a document, or None where one is missing."""
    for key in keys:
        if isinstance(key, str):
            value = value.get(key) if isinstance(value, Mapping) else None
        else:
            value = value[key] if isinstance(value, list) and len(value) > key else None
    return value


def number(value: Any) -> float | None:
    """Return a finite number, also one written as text, or None."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
