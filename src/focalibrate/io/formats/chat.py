"""Responses with ``logprobs`` of OpenAI, vLLM, SGLang, llama.cpp, also the output of a batch."""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from focalibrate.io.errors import file_error, listing
from focalibrate.io.formats.answers import (
    Answers,
    confidence_in,
    inside,
    plain_answer,
    token_answers,
)
from focalibrate.io.roles.vocabulary import Named, plain, says_correct

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
        (record, choice, said, sure)
        for record, given in zip(records, choices, strict=True)
        for choice in given
        if (said := _said(choice)) and (sure := confidence_in(_content(choice), said)) is not None
    ]
    given_answers = {plain_answer(said) for _, _, said, _ in found}
    graded, truth = _graded(records), _truth(path, records, given_answers)
    number = {id(record): k for k, record in enumerate(records)}
    log, n_longer = Answers(path, "chat completions"), 0
    log.notes = ["nothing says which answers are right"]
    if graded is not None:
        log.notes = [f'"{graded}" says whether an answer is right']
    elif truth is not None:
        log.notes = [f'an answer is right if it equals "{truth}"']
    for record, choice, said, sure in found:
        k = number[id(record)]
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
