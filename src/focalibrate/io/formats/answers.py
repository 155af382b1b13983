"""Answers in evaluation logs: scores of the options, or a confidence and whether it was right."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from focalibrate.io.errors import file_error
from focalibrate.io.formats.opened import Opened
from focalibrate.io.formats.records import table_of_columns

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def table_of_answers(
    path: Path, log: str, answers: Sequence[Mapping[str, Any]], *, notes: Sequence[str] = ()
) -> Opened:
    """Return a table of answers, one row each, and what its columns are.

    An answer has the scores of its options (``option_logits``) and the position of the right one
    (``answer``), or a ``confidence`` and whether it was right (``correct``); the ``question``,
    whose answers belong together, the ``task``, and whatever else the log says.

    Args:
        path: the log.
        log: what wrote it.
        answers: one mapping per answer, all with the same keys.
        notes: what the user should know.
    """
    if not answers:
        raise file_error(path, f"is a log of {log}, but holds no answers.")
    columns = {name: [answer[name] for answer in answers] for name in answers[0]}
    by_options = "option_logits" in columns
    roles: dict[str, Any] = {"id_column": "question"}
    if by_options:
        roles |= {"logits_key": "option_logits", "label_column": "answer"}
    else:
        roles |= {"score_columns": "confidence", "label_column": "correct"}
        roles |= {"input": "probs", "positive": "True"}
    if len(set(columns["question"])) < len(answers):
        roles["cluster"] = roles.pop("id_column")
        notes = [*notes, "answers to one question belong together"]
    if len(set(columns["task"])) > 1:
        roles["by"] = "task"
    found = table_of_columns(path, columns, notes=(f"is a log of {log}", *notes))
    return replace(found, schema=replace(found.schema, roles=roles))


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


def plain_answer(text: str) -> str:
    """Return an answer without blanks, brackets and full stops around it, in lower case.

    Example:
        >>> plain_answer(" (B)."), plain_answer(" Yes")
        ('b', 'yes')
    """
    return text.strip().strip("().:*'\"").strip().casefold()


def number(value: Any) -> float | None:
    """Return a finite number, also one written as text, or None."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
