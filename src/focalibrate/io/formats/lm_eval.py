"""Logs of lm-evaluation-harness: ``samples_<task>_<time>.jsonl``."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from focalibrate.io.errors import file_error
from focalibrate.io.formats.answers import LETTERS, number, plain_answer, table_of_answers
from focalibrate.io.formats.opened import Opened

LOG = "lm-evaluation-harness"


def open_lm_eval(path: Path, records: Sequence[Mapping[str, Any]]) -> Opened | None:
    """Return the options of each question and their log-likelihoods, or None for other records.

    ``option_logits`` are sums over the tokens, by which ``acc`` is decided;
    ``option_logits_per_byte`` are divided by the bytes of the option, as for ``acc_norm``.
    """
    if not all({"doc_id", "filtered_resps"} <= set(record) for record in records):
        return None
    first = records[0].get("filter")
    kept = [record for record in records if record.get("filter") == first]
    scores = [_log_likelihoods(record) for record in kept]
    if None in scores:
        raise file_error(
            path,
            f"is a log of {LOG} with generated answers, which have no scores: nothing says how "
            "sure the model was. Evaluate a task with `output_type: multiple_choice`, which logs "
            "the log-likelihood of every option.",
        )
    options = [_options(record, len(z)) for record, z in zip(kept, scores, strict=True) if z]
    right = _right(path, kept, [z or [] for z in scores], options)
    task = _task(path)
    answers = [
        {
            "question": f"{task} {record['doc_id']}",
            "task": task,
            "options": texts,
            "option_logits": z,
            "option_logits_per_byte": [
                value / max(1, len(text.removeprefix(" ").encode()))
                for value, text in zip(z or [], texts, strict=True)
            ],
            "answer": at,
        }
        for record, z, texts, at in zip(kept, scores, options, right, strict=True)
    ]
    notes = [
        "option_logits are log-likelihoods of whole options, which decide acc; for acc_norm pass "
        "--logits-key option_logits_per_byte"
    ]
    if len(kept) < len(records):
        notes.append(f"{len(records) - len(kept):,} rows of other filters than {first!r} left out")
    return table_of_answers(path, LOG, answers, notes=notes)


def _log_likelihoods(record: Mapping[str, Any]) -> list[float] | None:
    given = record["filtered_resps"]
    if not isinstance(given, list) or len(given) < 2:
        return None
    found = [number(pair[0]) if isinstance(pair, list) and pair else None for pair in given]
    return None if None in found else [value for value in found if value is not None]


def _options(record: Mapping[str, Any], n_options: int) -> list[str]:
    """Return the texts of the options, as the model was given them."""
    arguments = record.get("arguments")
    if isinstance(arguments, Mapping):
        given = [arguments.get(f"gen_args_{k}") for k in range(n_options)]
        return [str(a.get("arg_1", "")) if isinstance(a, Mapping) else "" for a in given]
    if isinstance(arguments, list) and len(arguments) >= n_options:
        return [str(a[1]) if isinstance(a, list) and len(a) > 1 else "" for a in arguments][
            :n_options
        ]
    return [""] * n_options


def _right(
    path: Path,
    records: Sequence[Mapping[str, Any]],
    scores: Sequence[Sequence[float]],
    options: Sequence[Sequence[str]],
) -> list[int]:
    """Return the position of the right option of every question.

    The target is a position, a letter or a text; the one that fits ``acc`` in every row. Where
    two options have the same text, as in winogrande, ``acc`` says which is right.
    """
    ways = {"position": _by_position, "text": _by_text, "letter": _by_letter}
    for way in ways.values():
        found = []
        for record, z, texts in zip(records, scores, options, strict=True):
            top = z.index(max(z))
            acc = number(record.get("acc"))
            fits = [k for k in way(record.get("target"), texts) if acc in (None, float(k == top))]
            if len(fits) != 1:
                break
            found.append(fits[0])
        else:
            return found
    raise file_error(
        path,
        f"is a log of {LOG} whose `target` is neither the position nor the text of one option in "
        f"every row, such as {str(records[0].get('target'))[:40]!r}.",
    )


def _by_position(target: Any, texts: Sequence[str]) -> list[int]:
    at = number(target)
    return [int(at)] if at is not None and at == int(at) and 0 <= at < len(texts) else []


def _by_text(target: Any, texts: Sequence[str]) -> list[int]:
    return [k for k, text in enumerate(texts) if text.strip() == str(target).strip()]


def _by_letter(target: Any, texts: Sequence[str]) -> list[int]:
    at = LETTERS.find(plain_answer(str(target)).upper() or "?")
    return [at] if 0 <= at < len(texts) else []


def _task(path: Path) -> str:
    """Return the task that the name of the file says."""
    found = re.fullmatch(r"(?:samples_)?(.+?)(?:_\d{4}-\d\d-\d\dT[\d.:-]+)?", path.stem)
    return found[1] if found else path.stem
