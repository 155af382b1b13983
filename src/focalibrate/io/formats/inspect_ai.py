"""Logs of Inspect: ``.eval``, which is a zip archive, and ``.json``."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from focalibrate.io.errors import file_error, short
from focalibrate.io.formats.answers import (
    LETTERS,
    confidence_in,
    number,
    plain_answer,
    scores_of_letters,
    table_of_answers,
)
from focalibrate.io.formats.opened import Opened
from focalibrate.io.options import check_fits
from focalibrate.io.roles.vocabulary import CONFIDENCE, plain

LOG = "Inspect"
VERSIONS = (1, 2)
MEMORY_FACTOR = 8
VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""What Inspect's words mean: correct, partially correct, incorrect, no answer."""


def open_eval(path: Path, local: Path, *, limit: int) -> Opened:
    """Return the answers of a log that is a zip archive."""
    try:
        with zipfile.ZipFile(local) as archive:
            names = archive.namelist()
            wanted = [n for n in names if n.startswith("samples/") and n.endswith(".json")]
            size = sum(archive.getinfo(name).file_size for name in wanted)
            check_fits(path, size * MEMORY_FACTOR, limit)
            header = next((n for n in ("header.json", "_journal/start.json") if n in names), None)
            if header is None:
                raise file_error(path, f"is not a log of {LOG}: it holds no header.json.")
            document = json.loads(archive.read(header))
            samples = [json.loads(archive.read(name)) for name in wanted]
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError, KeyError) as error:
        raise file_error(
            path, f"is truncated or damaged ({short(error)}). Copy it again."
        ) from error
    except (NotImplementedError, RecursionError) as error:
        raise file_error(path, f"cannot be read ({short(error)}).") from error
    found = open_inspect(path, {**document, "samples": samples}) if _is_dict(document) else None
    if found is None:
        raise file_error(path, f"is not a log of {LOG}: its header names no evaluation.")
    return found


def open_inspect(path: Path, document: Mapping[str, Any]) -> Opened | None:
    """Return the answers of a log, or None for other documents.

    Scores of the options are read from the tokens of the answer where every letter is among
    their alternatives; otherwise an answer has the probability of its token, or the confidence
    that the scorer's metadata state.
    """
    samples = document.get("samples")
    if not _is_dict(document.get("eval")) or not isinstance(samples, list):
        return None
    version = document.get("version", VERSIONS[-1])
    if version not in VERSIONS:
        raise file_error(
            path, f"is a log of {LOG} of version {short(version)}; versions 1 and 2 are read."
        )
    samples = sorted((s for s in samples if _is_dict(s)), key=_order)
    scored = [s for s in samples if _is_dict(s.get("scores")) and s["scores"]]
    task = str(document["eval"].get("task", path.stem))
    notes = []
    if len(scored) < len(samples):
        notes.append(f"{len(samples) - len(scored):,} samples without a score left out")
    options = [_by_options(s) for s in scored]
    if scored and None not in options:
        answers = [
            _row(s, task) | found for s, found in zip(scored, options, strict=True) if found
        ]
        return table_of_answers(path, LOG, answers, notes=notes)
    sure = [_confidence(s) for s in scored]
    if not any(c is not None for c in sure):
        raise file_error(
            path,
            f"is a log of {LOG} with {len(scored):,} scored answers, but nothing says how sure "
            "the model was: it has neither logprobs nor a `confidence` in the metadata of its "
            "scores. Evaluate with `inspect eval --logprobs --top-logprobs 20`.",
        )
    rows = [(s, c, _value(s)) for s, c in zip(scored, sure, strict=True)]
    kept = [(s, c, v) for s, c, v in rows if c is not None and v in (0.0, 1.0)]
    if len(kept) < len(rows):
        notes.append(
            f"{len(rows) - len(kept):,} answers without a confidence, or neither right nor wrong, "
            "left out"
        )
    answers = [_row(s, task) | {"confidence": c, "correct": v == 1.0} for s, c, v in kept]
    return table_of_answers(path, LOG, answers, notes=notes)


def _is_dict(value: Any) -> bool:
    return isinstance(value, Mapping)


def _order(sample: Mapping[str, Any]) -> tuple[str, float]:
    return str(sample.get("id")), number(sample.get("epoch")) or 0.0


def _row(sample: Mapping[str, Any], task: str) -> dict[str, Any]:
    return {"question": str(sample.get("id")), "task": task, "epoch": _order(sample)[1]}


def _score(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first scorer's score."""
    found = next(iter(sample["scores"].values()))
    return found if isinstance(found, Mapping) else {"value": found}


def _value(sample: Mapping[str, Any]) -> float | None:
    value = _score(sample).get("value")
    return VALUES.get(value) if isinstance(value, str) else number(value)


def _content(sample: Mapping[str, Any]) -> Any:
    output = sample.get("output")
    choices = output.get("choices") if isinstance(output, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    logprobs = first.get("logprobs") if isinstance(first, Mapping) else None
    return logprobs.get("content") if isinstance(logprobs, Mapping) else None


def _by_options(sample: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the scores of the letters and the right one, where the log has them."""
    choices, target = sample.get("choices"), sample.get("target")
    if isinstance(target, list) and len(target) == 1:
        target = target[0]
    if not isinstance(choices, list) or len(choices) < 2 or not isinstance(target, str):
        return None
    at = LETTERS.find(plain_answer(target).upper() or "?")
    if not 0 <= at < len(choices):
        return None
    scores = scores_of_letters(_content(sample), str(_score(sample).get("answer")), len(choices))
    return None if scores is None else {"option_logits": scores, "answer": at}


def _confidence(sample: Mapping[str, Any]) -> float | None:
    score = _score(sample)
    for place in (score.get("metadata"), sample.get("metadata")):
        for name, value in place.items() if isinstance(place, Mapping) else ():
            stated = number(value)
            if plain(str(name)) in CONFIDENCE and stated is not None and 0 <= stated <= 1:
                return stated
    return confidence_in(_content(sample), str(score.get("answer")))
