"""Responses of OpenAI, vLLM and SGLang with ``logprobs``, also the output of a batch."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from focalibrate.io.errors import file_error
from focalibrate.io.formats.answers import Answers, confidence_in, inside, plain_answer
from focalibrate.io.roles.vocabulary import Named, plain

LOG = "chat completions"


def chat_answers(path: Path, records: Sequence[dict[str, Any]]) -> Answers | None:
    """Return answers with the probability of their tokens, or None for other records.

    An answer is right if it is the one in the record's ``label``, ``answer``, ``target`` or the
    like, whatever its case and the punctuation around it. Several choices of one response are
    several answers to its question.
    """
    choices = [_choices(record) for record in records]
    if not any(choices):
        return None
    if not any(_content(choice) for choice in chain(*choices)):
        raise file_error(
            path,
            "holds responses without `logprobs`: nothing says how sure the model was. Ask for "
            "them: `logprobs=True`.",
        )
    truth = _truth(records)
    if truth is None:
        raise file_error(
            path,
            "holds responses with `logprobs`, but not the right answers. Add them to each line: "
            '{"label": "B", "choices": [...]}.',
        )
    rows, places, n_longer = [], [], 0
    for k, record in enumerate(records):
        question = record.get("question_id", record.get("custom_id", record.get("id", k)))
        wanted = plain_answer(str(record.get(truth)))
        for choice in choices[k]:
            is_chat = isinstance(inside(choice, "message"), Mapping)
            said = inside(choice, "message", "content") if is_chat else inside(choice, "text")
            sure = confidence_in(_content(choice), said) if isinstance(said, str) else None
            if sure is None or record.get(truth) is None:
                continue
            is_right = plain_answer(said) == wanted
            n_longer += not is_right and wanted in map(plain_answer, said.split())
            places.append(record if len(choices[k]) == 1 else choice)
            rows.append(
                {
                    "question": str(question),
                    "task": path.stem,
                    "response": said,
                    "confidence": sure,
                    "correct": is_right,
                }
            )
    notes = [f'an answer is right if it equals "{truth}"']
    n_given = sum(max(1, len(found)) for found in choices)
    if len(rows) < n_given:
        notes.append(f"{n_given - len(rows):,} answers without logprobs or truth left out")
    if n_longer:
        notes.append(
            f"WARNING: {n_longer:,} answers hold the right one among other words, and count as "
            "wrong: ask for the answer alone"
        )
    return Answers(LOG, rows, places, notes)


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
    given = [one for one in _list(body.get("choices")) if isinstance(one, dict)]
    return [one for one in given if "message" in one or "logprobs" in one]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _content(choice: Mapping[str, Any]) -> Any:
    """Return the tokens of a response, of a chat, or of a completion, whose fields are lists."""
    if isinstance(choice.get("logprobs"), list):
        return choice["logprobs"]
    tokens, values = (inside(choice, "logprobs", k) for k in ("tokens", "token_logprobs"))
    if isinstance(tokens, list) and isinstance(values, list):
        return [{"token": t, "logprob": v} for t, v in zip(tokens, values, strict=False)]
    return inside(choice, "logprobs", "content")


def _truth(records: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the field of the right answers."""
    names = dict.fromkeys(name for record in records for name in record)
    likely = [name for name in names if Named(name).is_label or plain(name) in ("answer", "truth")]
    return likely[0] if likely else None
