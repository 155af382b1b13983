"""Logs of Inspect: ``.eval``, which is a zip archive, and ``.json``."""

import json
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from focalibrate.io.bytes import refused
from focalibrate.io.errors import file_error, short
from focalibrate.io.formats.answers import (
    Answers,
    confidence_in,
    inside,
    letter_position,
    number,
    scores_of_letters,
)
from focalibrate.io.options import check_fits
from focalibrate.io.roles.vocabulary import CONFIDENCE, plain
from focalibrate.io.source import Part

LOG = "Inspect"
VERSIONS = (1, 2)
MEMORY_FACTOR = 8
ZSTANDARD = 93
"""Number of this compression in zip archives, which `zipfile` does not know before Python 3.14."""
LOCAL_HEADER = 30
"""Bytes before the name of a member; the last four are the lengths of name and extra field."""
VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""What Inspect's words mean: correct, partially correct, incorrect, no answer."""


def read_eval(part: Part, *, limit: int) -> dict[str, Any]:
    """Return a log that is a zip archive as the one document that a ``.json`` log is."""
    with (
        refused(part.path, "is truncated or damaged ({}). Copy it again."),
        part.open() as raw,
        zipfile.ZipFile(raw) as archive,
    ):
        names = archive.namelist()
        wanted = [n for n in names if n.startswith("samples/") and n.endswith(".json")]
        size = sum(archive.getinfo(name).file_size for name in wanted)
        check_fits(part.path, size * MEMORY_FACTOR, limit)
        headers = [n for n in ("header.json", "_journal/start.json") if n in names]
        document = json.loads(_member(archive, raw, headers[0], limit)) if headers else None
        samples = [json.loads(_member(archive, raw, name, limit)) for name in wanted]
    if not isinstance(document, Mapping) or not isinstance(document.get("eval"), Mapping):
        text = f"is not a log of {LOG}: no header.json names its evaluation."
        raise file_error(part.path, text)
    return {**document, "samples": samples}


def _member(archive: zipfile.ZipFile, raw: IO[bytes], name: str, limit: int) -> bytes:
    """Return a member of an archive, also one in Zstandard, which new versions of Inspect use."""
    member = archive.getinfo(name)
    if member.file_size > limit:
        raise ValueError(f"{name} declares {member.file_size:,} bytes")
    if member.compress_type != ZSTANDARD:
        return archive.read(name)
    raw.seek(member.header_offset)
    lengths = struct.unpack("<HH", raw.read(LOCAL_HEADER)[-4:])
    raw.seek(sum(lengths), 1)
    packed = pa.BufferReader(raw.read(member.compress_size))
    with pa.CompressedInputStream(packed, "zstd") as stream:
        content: bytes = stream.read(member.file_size)
    if zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"bad checksum of {name}")
    return content


def write_eval(target: Path, part: Part, samples: Sequence[Mapping[str, Any]]) -> None:
    """Write a copy of a log that is a zip archive with other samples."""
    changed = {(str(s.get("id")), number(s.get("epoch"))): s for s in samples}
    with (
        part.open() as raw,
        zipfile.ZipFile(raw) as archive,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made,
    ):
        for member in archive.infolist():
            content = _member(archive, raw, member.filename, member.file_size)
            if member.filename.startswith("samples/") and member.filename.endswith(".json"):
                own = json.loads(content)
                key = str(own.get("id")), number(own.get("epoch"))
                content = json.dumps(changed[key]).encode()
            made.writestr(zipfile.ZipInfo(member.filename, member.date_time), content)


def inspect_answers(path: Path, document: Mapping[str, Any]) -> Answers | None:
    """Return the answers of a log, or None for other documents.

    Scores of the options are read from the tokens of the answer where every letter is among
    their alternatives; otherwise an answer has the probability of its token, or the confidence
    that the scorer's metadata state.
    """
    samples = document.get("samples") or []  # missing in what was read without its samples
    names_task = isinstance(document.get("eval"), Mapping)
    is_log = names_task and bool({"samples", "plan"} & set(document))
    if not is_log or not isinstance(samples, list):
        return None
    version = document.get("version", VERSIONS[-1])
    if version not in VERSIONS:
        raise file_error(
            path, f"is a log of {LOG} of version {short(version)}; versions 1 and 2 are read."
        )
    samples = sorted((s for s in samples if isinstance(s, Mapping)), key=_order)
    scored = [s for s in samples if _scores(s)]
    task = str(document["eval"].get("task", path.stem))
    notes = []
    if len(scored) < len(samples):
        notes.append(f"{len(samples) - len(scored):,} samples without a score left out")
    if not scored:
        raise file_error(
            path, f"is a log of {LOG} without scored answers: `inspect score` adds them."
        )
    scorers = list(_scores(scored[0]))
    if len(scorers) > 1:
        notes.append(f"scored by {scorers[0]}, the first of {', '.join(map(str, scorers))}")
    options = [_by_options(s) for s in scored]
    if None not in options:
        rows = [_row(s, task) | o for s, o in zip(scored, options, strict=True) if o]
        return Answers(LOG, rows, [_metadata(s) for s in scored], notes, letters=True)
    found = [(s, _confidence(s), _value(s)) for s in scored]
    if all(c is None for _, c, _ in found):
        raise file_error(
            path,
            f"is a log of {LOG} with {len(scored):,} scored answers, but nothing says how sure "
            "the model was: it has neither logprobs nor a `confidence` in the metadata of its "
            "scores. Evaluate with `inspect eval --logprobs --top-logprobs 20`.",
        )
    kept = [(s, c, v) for s, c, v in found if c is not None and v in (0.0, 1.0)]
    if len(kept) < len(found):
        notes.append(
            f"{len(found) - len(kept):,} answers without a confidence, or neither right nor "
            "wrong, left out"
        )
    rows = [_row(s, task) | {"confidence": c, "correct": v == 1.0} for s, c, v in kept]
    return Answers(LOG, rows, [_metadata(s) for s, _, _ in kept], notes)


def _scores(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scores by scorer; logs of version 1 may have only one, in ``score``."""
    found = sample.get("scores")
    if not isinstance(found, Mapping):
        found = {"score": sample["score"]} if sample.get("score") is not None else {}
    return {name: score for name, score in found.items() if score is not None}


def _metadata(sample: Any) -> dict[str, Any]:
    """Return the metadata of a sample, where `apply` adds what it computes."""
    if not isinstance(sample.get("metadata"), dict):
        sample["metadata"] = {}
    found: dict[str, Any] = sample["metadata"]
    return found


def _order(sample: Mapping[str, Any]) -> tuple[str, float]:
    return str(sample.get("id")), number(sample.get("epoch")) or 0.0


def _row(sample: Mapping[str, Any], task: str) -> dict[str, Any]:
    return {"question": str(sample.get("id")), "task": task, "epoch": _order(sample)[1]}


def _score(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first scorer's score."""
    found = next(iter(_scores(sample).values()))
    return found if isinstance(found, Mapping) else {"value": found}


def _value(sample: Mapping[str, Any]) -> float | None:
    value = _score(sample).get("value")
    return VALUES.get(value) if isinstance(value, str) else number(value)


def _content(sample: Mapping[str, Any]) -> Any:
    return inside(sample, "output", "choices", 0, "logprobs", "content")


def _by_options(sample: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the scores of the letters and the right one, where the log has them.

    Not where the scorer contradicts the letters: Inspect renames options that were shuffled, but
    not the tokens of their letters.
    """
    choices, target = sample.get("choices"), sample.get("target")
    if isinstance(target, list) and len(target) == 1:
        target = target[0]
    if not isinstance(choices, list) or len(choices) < 2 or not isinstance(target, str):
        return None
    at = letter_position(target)
    if not 0 <= at < len(choices):
        return None
    answer = str(_score(sample).get("answer"))
    if _value(sample) not in (None, float(letter_position(answer) == at)):
        return None
    scores = scores_of_letters(_content(sample), answer, len(choices))
    return None if scores is None else {"option_logits": scores, "answer": at}


def _confidence(sample: Mapping[str, Any]) -> float | None:
    score = _score(sample)
    for place in (score.get("metadata"), sample.get("metadata")):
        for name, value in place.items() if isinstance(place, Mapping) else ():
            stated = number(value)
            if plain(str(name)) in CONFIDENCE and stated is not None and 0 <= stated <= 1:
                return stated
    return confidence_in(_content(sample), str(score.get("answer")))
