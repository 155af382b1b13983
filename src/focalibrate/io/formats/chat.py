"""Responses of OpenAI, vLLM and SGLang with ``logprobs``, also the output of a batch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from focalibrate.io.errors import file_error
from focalibrate.io.formats.answers import Answers, confidence_in, inside, plain_answer
from focalibrate.io.roles.vocabulary import Named, plain

LOG = "chat completions"


def chat_answers(path: Path, records: Sequence[dict[str, Any]]) -> Answers | None:
    """Return answers with the probability of their tokens, or None for other records.

    An answer is right if it is the one in the record's ``label``, ``answer``, ``target`` or the
    like, whatever its case and the punctuation around it.
    """
    choices = [_choice(record) for record in records]
    if not any(choices):
        return None
    if not any(_content(choice) for choice in choices):
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
    rows, places = [], []
    for k, (record, choice) in enumerate(zip(records, choices, strict=True)):
        is_chat = isinstance(inside(choice, "message"), Mapping)
        said = inside(choice, "message", "content") if is_chat else inside(choice, "text")
        sure = confidence_in(_content(choice), said) if isinstance(said, str) else None
        if sure is None or record.get(truth) is None:
            continue
        places.append(record)
        question = record.get("question_id", record.get("custom_id", record.get("id", k)))
        rows.append(
            {
                "question": str(question),
                "task": path.stem,
                "response": said,
                "confidence": sure,
                "correct": plain_answer(str(said)) == plain_answer(str(record[truth])),
            }
        )
    notes = [f'an answer is right if it equals "{truth}"']
    if len(rows) < len(records):
        notes.append(f"{len(records) - len(rows):,} rows without logprobs or truth left out")
    return Answers(LOG, rows, places, notes)


def _choice(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the first choice of a response, or of a line of a batch's output."""
    body: Any = record
    for name in ("response", "body"):
        inner = body.get(name)
        body = inner if isinstance(inner, Mapping) else body
    first = inside(body, "choices", 0)
    is_choice = isinstance(first, Mapping) and ("message" in first or "logprobs" in first)
    return first if is_choice else None


def _content(choice: Mapping[str, Any] | None) -> Any:
    """Return the tokens of a chat, or those of a completion, whose fields are lists."""
    tokens, values = (inside(choice, "logprobs", k) for k in ("tokens", "token_logprobs"))
    if isinstance(tokens, list) and isinstance(values, list):
        return [{"token": t, "logprob": v} for t, v in zip(tokens, values, strict=False)]
    return inside(choice, "logprobs", "content")


def _truth(records: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the field of the right answers."""
    names = dict.fromkeys(name for record in records for name in record)
    likely = [name for name in names if Named(name).is_label or plain(name) in ("answer", "truth")]
    return likely[0] if likely else None
