"""Logs of lm-evaluation-harness and of Inspect."""

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from focalibrate.io.bytes import refused
from focalibrate.io.errors import file_error, short
from focalibrate.io.formats.answers import (
    LETTERS,
    Answers,
    confidence_in,
    inside,
    letter_position,
    number,
    plain_answer,
    scores_of_letters,
)
from focalibrate.io.options import check_fits
from focalibrate.io.roles.vocabulary import CONFIDENCE, plain
from focalibrate.io.source import Part

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
    log, first = Answers(path, "lm-evaluation-harness"), records[0].get("filter")
    kept = [record for record in records if record.get("filter") == first]
    found = [_log_likelihoods(record) for record in kept]
    scores = [z for z in found if z is not None and len(z) > 1]
    if not scores and not any(map(_has_options, kept)):
        why = (
            "with one log-likelihood per document: there are no options to choose from"
            if any(found)
            else "with generated answers, which have no scores: nothing says how sure the model "
            "was"
        )
        raise log.error(
            f"{why}. Evaluate a task with `output_type: multiple_choice`, which logs the "
            "log-likelihood of every option."
        )
    if len(scores) < len(kept):
        bad = next(r for r, z in zip(kept, found, strict=True) if z is None or len(z) < 2)
        raise log.error(
            f"in which doc_id {short(bad['doc_id'])} lacks finite log-likelihoods of two or more "
            "options. Leave its line out."
        )
    given = [_options(record, len(z)) for record, z in zip(kept, scores, strict=True)]
    right = _right(log, kept, scores, given)
    texts = _texts(kept, scores, given, right)
    task = _task(path)
    plain = all(text.isascii() for options in texts for text in options)
    for record, z, options, at in zip(kept, scores, texts, right, strict=True):
        by_character = by_byte = _divided(z, map(len, options))
        if not plain:
            by_byte = _divided(z, (len(t.encode("utf-8", "surrogatepass")) for t in options))
        log.add(
            record,
            question=f"{task} {record['doc_id']}",
            document=str(record.get("doc_hash", record["doc_id"])),
            task=task,
            options=options,
            option_logits=z,
            option_logits_per_character=by_character,
            option_logits_per_byte=by_byte,
            answer=at,
        )
    log.notes = [
        "option_logits are log-likelihoods of whole options, which decide acc; for acc_norm pass "
        "--logits-key option_logits_per_character"
    ]
    log.left_out(len(records) - len(kept), f"rows of other filters than {first!r}")
    log.letters = all(
        [plain_answer(text) for text in options] == [*LETTERS[: len(options)].lower()]
        for options in texts
    )
    return log


def refuse_results(path: Path, document: Mapping[str, Any]) -> None:
    """Raise for ``results_*.json``, which has sums over the answers only."""
    if {"results", "configs", "versions"} <= set(document):
        raise file_error(
            path,
            "holds the results of lm-evaluation-harness, not its answers. Name the "
            "samples_*.jsonl beside it, which `--log_samples` writes.",
        )


def _log_likelihoods(record: Mapping[str, Any]) -> list[float] | None:
    given = record["filtered_resps"]
    if not isinstance(given, list) or not given:
        return None
    if "acc_mutual_info" in record and len(given) % 2 == 0:
        given = given[: len(given) // 2]  # then come those without the question
    found = [number(pair[0]) if isinstance(pair, list) and pair else None for pair in given]
    return None if None in found else [value for value in found if value is not None]


def _has_options(record: Mapping[str, Any]) -> bool:
    """Return whether there are pairs of several options, though perhaps not of finite numbers."""
    given = record["filtered_resps"]
    several = given if isinstance(given, list) and len(given) > 1 else [None]
    return all(isinstance(pair, list) and len(pair) == 2 for pair in several)


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
    log: Answers,
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
        raise log.error(
            "with questions of which several options are right, so that no single one has a "
            "probability of being right. Evaluate a task with one right option."
        )
    longest: list[int] = []
    whole: list[list[int]] = []
    for way in (_by_position, _by_text, _by_letter):
        found: list[int] = []
        for record, acc, z, texts in zip(records, accs, scores, options, strict=True):
            top = z.index(max(z))
            fits = [k for k in way(record.get("target"), texts) if acc in (None, float(k == top))]
            if len(fits) != 1:
                break
            found.append(fits[0])
        else:
            whole.append(found)
            if way is _by_text:
                break  # a letter that is the text of an option names that option
        longest = max(longest, found, key=len)
    if None in accs and any(found != whole[0] for found in whole):
        raise log.error(
            "whose `target` may be the position of the right option or its text, and `acc`, which "
            "would say which, is not there. Evaluate with the metric `acc`."
        )
    if whole:
        return whole[0]
    at = records[len(longest)]
    raise log.error(
        "whose `target` must be the position, the letter or the text of the one option that `acc` "
        f"says is right, but is {short(at.get('target'))!r} in doc_id {short(at['doc_id'])}. "
        "Leave its line out."
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


INSPECT = "Inspect"
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
        text = f"is not a log of {INSPECT}: no header.json names its evaluation."
        raise part.error(text)
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


def write_eval(target: Path, document: Mapping[str, Any], *, part: Part) -> None:
    """Write a copy of a log that is a zip archive with other samples."""
    changed = {(str(s.get("id")), number(s.get("epoch"))): s for s in document["samples"]}
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
    log, version = Answers(path, INSPECT), document.get("version", VERSIONS[-1])
    if version not in VERSIONS:
        raise log.error(f"of version {short(version)}; versions 1 and 2 are read.")
    samples = sorted((s for s in samples if isinstance(s, Mapping)), key=_order)
    scored = [s for s in samples if _scores(s)]
    task = str(document["eval"].get("task", path.stem))
    log.left_out(len(samples) - len(scored), "samples without a score")
    if not scored:
        raise log.error("without scored answers: `inspect score` adds them.")
    scorers = list(_scores(scored[0]))
    if len(scorers) > 1:
        log.notes.append(f"scored by {scorers[0]}, the first of {', '.join(map(str, scorers))}")
    options = [_by_options(s) for s in scored]
    log.letters = None not in options
    if log.letters:
        for s, o in zip(scored, options, strict=True):
            log.add(_metadata(s), **_row(s, task), **(o or {}))
        return log
    stated = [_stated(s) for s in scored]
    of_tokens = [confidence_in(_content(s), str(_score(s).get("answer"))) for s in scored]
    found = min(stated, of_tokens, key=lambda some: some.count(None))  # never some of each
    if found.count(None) == len(found):
        raise log.error(
            f"with {len(scored):,} scored answers, but nothing says how sure the model was: it "
            "has neither logprobs nor a `confidence` in the metadata of its scores. Evaluate with "
            "`inspect eval --logprobs --top-logprobs 20`."
        )
    if is_percent := max(c for c in found if c is not None) > 1:
        mixed = [c for c in found if c is not None and 0 < c < 1]
        if mixed:
            raise log.error(
                f"with confidences from 0 to 1 ({mixed[0]:g}) beside others above 1: state "
                "all as percent, or none."
            )
        log.notes.append("the stated confidences are read as percent")
    for s, c in zip(scored, found, strict=True):
        value = _value(s)
        if c is not None and value in (0.0, 1.0):
            sure = c / 100 if is_percent else c
            log.add(_metadata(s), **_row(s, task), confidence=sure, correct=value == 1.0)
    n_unclear = len(found) - len(log.rows)
    log.left_out(n_unclear, "answers without a confidence, or neither right nor wrong,")
    return log


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


def _stated(sample: Mapping[str, Any]) -> float | None:
    """Return the confidence that the metadata of a score or a sample state, 0 to 1 or to 100."""
    for place in (_score(sample).get("metadata"), sample.get("metadata")):
        for name, value in place.items() if isinstance(place, Mapping) else ():
            stated = number(value.rstrip("% ") if isinstance(value, str) else value)
            is_said = plain(str(name)) in CONFIDENCE - {"score"}  # in Inspect, a score is a grade
            if is_said and stated is not None and 0 <= stated <= 100:
                return stated
    return None
