"""Answers in evaluation logs: scores of the options, or a confidence and whether it was right.

Responses with ``logprobs`` are read here: of OpenAI, vLLM, SGLang, llama.cpp, also as a batch.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from focalibrate.io.errors import PredictionFileError, file_error, listing
from focalibrate.io.formats.records import table_of_columns
from focalibrate.io.roles.vocabulary import Named, plain, says_correct
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


RIGHT_ANSWER = re.compile(
    r"(correct|right|gold|true|reference|expected|target)_(answers?|option|choice|letter|response)"
    r"|answer_?key|truth|answers?"
)
"""Fields of the right answers that are no labels in a table; ``answer`` may be the model's own."""


def chat_answers(path: Path, records: Sequence[dict[str, Any]]) -> Answers | None:
    """Return answers with the probability of their tokens, or None for other records.

    An answer is right if ``correct``, ``is_correct`` or the like says so, as true or false;
    otherwise if it is the one in the record's ``label``, ``answer``, ``target`` or the like (or
    one of several there), whatever its case and the punctuation around it. Where nothing says
    which is right, answers have a confidence only, as `apply` needs it. Several choices of one
    response are several answers to its question.
    """
    choices = [_choices(record) for record in records]
    if not any(choices):
        return None
    if any("delta" in choice for choice in chain(*choices)):
        raise file_error(
            path,
            "holds the chunks of streamed responses. Ask for whole responses (`stream=False`), or "
            "write one line per response, with its `message` and `logprobs` put together.",
        )
    if not any(token_answers(_content(choice)) for choice in chain(*choices)):
        raise file_error(
            path,
            "holds responses without `logprobs`: nothing says how sure the model was. Ask for "
            "them: `logprobs=True`; for SGLang's own /generate `return_logprob` and "
            "`return_text_in_logprobs`; for llama.cpp's /completion `n_probs`.",
        )
    found = [
        (k, choice, said, sure)
        for k, given in enumerate(choices)
        for choice in given
        if (said := _said(choice)) and (sure := confidence_in(_content(choice), said)) is not None
    ]
    given_answers = {plain_answer(said) for _, _, said, _ in found}
    graded, truth = _graded(records), _truth(path, records, given_answers)
    log, n_longer = Answers(path, "chat completions"), 0
    log.notes = ["nothing says which answers are right"]
    if graded is not None:
        log.notes = [f'"{graded}" says whether an answer is right']
    elif truth is not None:
        log.notes = [f'an answer is right if it equals "{truth}"']
    for k, choice, said, sure in found:
        record = records[k]
        question = record.get("question_id", record.get("custom_id", record.get("id", k)))
        row: dict[str, Any] = {"question": str(question), "task": path.stem}
        row |= {"response": said, "confidence": sure}
        if graded is not None:
            row["correct"] = record.get(graded)
        elif truth is not None:
            wanted, own = _wanted(record.get(truth)), plain_answer(said)
            row["correct"] = own in wanted if wanted else None
            n_longer += own not in wanted and not wanted.isdisjoint(
                map(plain_answer, said.split())
            )
        if row.get("correct", True) is not None:
            log.add(record if len(choices[k]) == 1 else choice, **row)
    n_given = sum(max(1, len(several)) for several in choices)
    log.left_out(n_given - len(log.rows), "answers without logprobs or truth")
    if n_longer:
        log.notes.append(
            f"WARNING: {n_longer:,} answers hold the right one among other words, and count as "
            "wrong: ask for the answer alone"
        )
    return log


def _choices(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the choices of a response, or of a line of a batch's output."""
    body: Any = record
    for name in ("response", "body"):
        inner = body.get(name)
        body = inner if isinstance(inner, Mapping) else body
    if body.get("object") == "response":  # a list of messages, whose content is a list of texts
        contents = [inside(message, "content") for message in _list(body.get("output"))]
        parts = [part for content in contents for part in _list(content)]
        return [part for part in parts if isinstance(inside(part, "text"), str)]
    if "completion_probabilities" in body or inside(body, "meta_info", "output_token_logprobs"):
        return [body]  # of llama.cpp's own server, or of SGLang's
    given = [one for one in _list(body.get("choices")) if isinstance(one, dict)]
    return [one for one in given if {"message", "logprobs", "delta"} & set(one)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _said(choice: Mapping[str, Any]) -> str | None:
    """Return the text of an answer, if there is one: a refusal has none."""
    if isinstance(choice.get("message"), Mapping):
        said = inside(choice, "message", "content")
    else:
        said = choice.get("text", choice.get("content"))
    return said if isinstance(said, str) else None


def _content(choice: Mapping[str, Any]) -> Any:
    """Return the tokens of a response, of a chat, or of a completion, whose fields are lists."""
    for given in (choice.get("logprobs"), choice.get("completion_probabilities")):
        if isinstance(given, list):
            return given
    own = inside(choice, "meta_info", "output_token_logprobs")  # log-probability, id, text
    if isinstance(own, list):
        return [{"token": inside(t, 2), "logprob": inside(t, 0)} for t in own]
    tokens, values = (inside(choice, "logprobs", k) for k in ("tokens", "token_logprobs"))
    if isinstance(tokens, list) and isinstance(values, list):
        return [{"token": t, "logprob": v} for t, v in zip(tokens, values, strict=False)]
    return inside(choice, "logprobs", "content")


def _graded(records: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the field that says, as true or false, whether answers are right."""
    for name in dict.fromkeys(name for record in records for name in record):
        values = {type(record.get(name)) for record in records}
        if says_correct(name) and bool in values and values <= {bool, type(None)}:
            return name
    return None


def _truth(path: Path, records: Sequence[Mapping[str, Any]], given: set[str]) -> str | None:
    """Return the field of the right answers: the first that answers could equal."""
    names = dict.fromkeys(name for record in records for name in record)
    likely = [name for name in names if Named(name).is_label]
    others = [name for name in names if RIGHT_ANSWER.fullmatch(plain(name))]
    likely += sorted(others, key=lambda name: plain(name) in ("answer", "answers"))
    for name in likely:
        right = {text for record in records for text in _wanted(record.get(name))}
        if right & given:
            return name
    if likely and given and _graded(records) is None:
        right = {text for record in records for text in _wanted(record.get(likely[0]))}
        raise file_error(
            path,
            f'no answer equals its right one: answers are {listing(sorted(given))}, "'
            f'{likely[0]}" is {listing(sorted(right))}. Write the right answers as the model '
            'is asked to answer, or say of each line whether it is right: {"is_correct": true, '
            '"choices": [...]}.',
        )
    return None


def _wanted(value: Any) -> set[str]:
    """Return the answers that are right: one, or several in a list."""
    values = value if isinstance(value, list) else [value]
    return {plain_answer(str(one)) for one in values if one is not None}
