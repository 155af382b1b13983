"""Logs of lm-evaluation-harness: ``samples_<task>_<time>.jsonl``."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from focalibrate.io.errors import file_error, short
from focalibrate.io.formats.answers import LETTERS, Answers, letter_position, number, plain_answer

LOG = "lm-evaluation-harness"
TEXTS: Sequence[Callable[[str], str]] = (lambda t: t.removeprefix(" "), str, str.strip)
"""The option in what the model was given, which begins with a delimiter, mostly a blank."""


def lm_eval_answers(path: Path, records: Sequence[dict[str, Any]]) -> Answers | None:
    """Return the options of each question and their log-likelihoods, or None for other records.

    ``option_logits`` are sums over the tokens, by which ``acc`` is decided. For ``acc_norm`` they
    are divided by the characters of the option (``option_logits_per_character``), for
    ``acc_bytes`` by its bytes in UTF-8 (``option_logits_per_byte``).
    """
    if not all({"doc_id", "filtered_resps"} <= set(record) for record in records):
        return None
    first = records[0].get("filter")
    kept = [record for record in records if record.get("filter") == first]
    found = [_log_likelihoods(record) for record in kept]
    scores = [z for z in found if z is not None and len(z) > 1]
    if not scores:
        why = (
            "with one log-likelihood per document: there are no options to choose from"
            if any(found)
            else "with generated answers, which have no scores: nothing says how sure the model "
            "was"
        )
        raise file_error(
            path,
            f"is a log of {LOG} {why}. Evaluate a task with `output_type: multiple_choice`, which "
            "logs the log-likelihood of every option.",
        )
    if len(scores) < len(kept):
        bad = next(r for r, z in zip(kept, found, strict=True) if z is None or len(z) < 2)
        raise file_error(
            path,
            f"is a log of {LOG} in which doc_id {short(bad['doc_id'])} lacks finite "
            "log-likelihoods of two or more options. Leave its line out.",
        )
    given = [_options(record, len(z)) for record, z in zip(kept, scores, strict=True)]
    right = _right(path, kept, scores, given)
    texts = _texts(kept, scores, given, right)
    task = _task(path)
    plain = all(text.isascii() for options in texts for text in options)
    rows = []
    for record, z, options, at in zip(kept, scores, texts, right, strict=True):
        by_character = _divided(z, map(len, options))
        by_byte = (
            by_character
            if plain
            else _divided(z, (len(t.encode("utf-8", "surrogatepass")) for t in options))
        )
        row = {
            "question": f"{task} {record['doc_id']}",
            "document": str(record.get("doc_hash", record["doc_id"])),
            "task": task,
            "options": options,
            "option_logits": z,
            "option_logits_per_character": by_character,
            "option_logits_per_byte": by_byte,
            "answer": at,
        }
        rows.append(row)
    notes = [
        "option_logits are log-likelihoods of whole options, which decide acc; for acc_norm pass "
        "--logits-key option_logits_per_character"
    ]
    if len(kept) < len(records):
        notes.append(f"{len(records) - len(kept):,} rows of other filters than {first!r} left out")
    letters = all(
        [plain_answer(text) for text in options] == [*LETTERS[: len(options)].lower()]
        for options in texts
    )
    return Answers(LOG, rows, kept, notes, letters)


def refuse_results(path: Path, document: Mapping[str, Any]) -> None:
    """Raise for ``results_*.json``, which has sums over the answers only."""
    if {"results", "configs", "versions"} <= set(document):
        raise file_error(
            path,
            f"holds the results of {LOG}, not its answers. Name the samples_*.jsonl beside it, "
            "which `--log_samples` writes.",
        )


def _log_likelihoods(record: Mapping[str, Any]) -> list[float] | None:
    given = record["filtered_resps"]
    if not isinstance(given, list) or not given:
        return None
    if "acc_mutual_info" in record and len(given) % 2 == 0:
        given = given[: len(given) // 2]  # then come those without the question
    found = [number(pair[0]) if isinstance(pair, list) and pair else None for pair in given]
    return None if None in found else [value for value in found if value is not None]


def _divided(values: Sequence[float], lengths: Any) -> list[float]:
    return [value / max(1, n) for value, n in zip(values, lengths, strict=True)]


def _options(record: Mapping[str, Any], n_options: int) -> list[str]:
    """Return the texts of the options, as the model was given them."""
    arguments = record.get("arguments")
    if isinstance(arguments, Mapping):
        pairs = [arguments.get(f"gen_args_{k}") for k in range(n_options)]
        given = [p.get("arg_1") if isinstance(p, Mapping) else None for p in pairs]
    else:
        pairs = arguments[:n_options] if isinstance(arguments, list) else []
        given = [p[1] if isinstance(p, list) and len(p) > 1 else None for p in pairs]
        given += [None] * (n_options - len(given))
    return [text if isinstance(text, str) else "" for text in given]


def _texts(
    records: Sequence[Mapping[str, Any]],
    scores: Sequence[Sequence[float]],
    given: Sequence[Sequence[str]],
    right: Sequence[int],
) -> list[list[str]]:
    """Return the options without the delimiter before them, of the length that fits acc_norm."""
    for cut in TEXTS:
        texts = [[cut(text) for text in options] for options in given]
        fits = True
        for record, z, options, at in zip(records, scores, texts, right, strict=True):
            norm = number(record.get("acc_norm"))
            divided = _divided(z, map(len, options))
            fits = norm is None or norm == float(divided.index(max(divided)) == at)
            if not fits:
                break
        if fits:
            return texts
    return [[TEXTS[0](text) for text in options] for options in given]


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
    accs = [number(record.get("acc")) for record in records]
    if not {*accs} <= {None, 0.0, 1.0} or any(map(_is_list, records)):
        raise file_error(
            path,
            f"is a log of {LOG} with questions of which several options are right, so that no "
            "single one has a probability of being right. Evaluate a task with one right option.",
        )
    longest: list[int] = []
    for way in (_by_position, _by_text, _by_letter):
        found: list[int] = []
        for record, acc, z, texts in zip(records, accs, scores, options, strict=True):
            top = z.index(max(z))
            fits = [k for k in way(record.get("target"), texts) if acc in (None, float(k == top))]
            if len(fits) != 1:
                break
            found.append(fits[0])
        else:
            return found
        longest = max(longest, found, key=len)
    at = records[len(longest)]
    raise file_error(
        path,
        f"is a log of {LOG} whose `target` must be the position, the letter or the text of the "
        f"one option that `acc` says is right, but is {short(at.get('target'))!r} in doc_id "
        f"{short(at['doc_id'])}. Leave its line out.",
    )


def _is_list(record: Mapping[str, Any]) -> bool:
    """Return whether the target lists several options, as text or not."""
    target = record.get("target")
    return isinstance(target, list) or re.fullmatch(r"\[\d+(, \d+)*\]", str(target)) is not None


def _by_position(target: Any, texts: Sequence[str]) -> list[int]:
    at = number({"True": 1, "False": 0}.get(str(target), target))
    return [int(at)] if at is not None and at == int(at) and 0 <= at < len(texts) else []


def _by_text(target: Any, texts: Sequence[str]) -> list[int]:
    return [k for k, text in enumerate(texts) if text.strip() == str(target).strip()]


def _by_letter(target: Any, texts: Sequence[str]) -> list[int]:
    at = letter_position(str(target))
    return [at] if 0 <= at < len(texts) else []


def _task(path: Path) -> str:
    """Return the task that the name of the file says."""
    name = path.name.partition(".json")[0]
    found = re.fullmatch(r"(?:samples_)?(.+?)(?:_\d{4}-\d\d-\d\dT[\d.:-]+)?", name)
    return found[1] if found else name
