"""JSON: logs of evaluations, by whatever wrote them, and tables."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from focalibrate.io.errors import file_error
from focalibrate.io.formats.answers import (
    Answers,
    add_calibrated,
    chat_answers,
    inside,
    number,
    plain_answer,
    table_of_answers,
)
from focalibrate.io.formats.detections import detected_boxes
from focalibrate.io.formats.harnesses import (
    inspect_answers,
    lm_eval_answers,
    read_eval,
    refuse_results,
    write_eval,
)
from focalibrate.io.formats.records import (
    document_in,
    many_objects,
    records_in,
    table_of_document,
    write_json,
)
from focalibrate.io.options import Request
from focalibrate.io.source import Part
from focalibrate.io.table import Opened

HELM = "HELM"


def helm_answers(path: Path, document: Mapping[str, Any]) -> Answers | None:
    """Return the answers in ``scenario_state.json``, or None for other documents.

    With one request per option (``multiple_choice_separate_original``) these are scores of the
    options, otherwise the probability of the answer that was generated.
    """
    given = document.get("request_states")
    if not isinstance(given, list):
        if {"scenario_spec", "adapter_spec"} <= set(document):
            raise file_error(
                path,
                f"describes a run of {HELM}, without its answers. Name the scenario_state.json "
                "beside it.",
            )
        return None
    if not isinstance(document.get("adapter_spec"), Mapping):
        return None
    log = Answers(path, HELM)
    scored = [s for s in given if isinstance(s, Mapping) and _completion(s) is not None]
    states = [s for s in scored if any(is_right for _, is_right in _references(s))]
    log.left_out(len(given) - len(scored), "requests without a log-probability")
    log.left_out(len(scored) - len(states), "requests without a right answer")
    if any(s.get("reference_index") is not None for s in states):
        _add_by_options(log, states)
    else:
        for state in states:
            _add_generated(log, state)
    return log


def helm_stats_answers(path: Path, records: Sequence[dict[str, Any]]) -> Answers | None:
    """Return ``max_prob`` and ``exact_match`` of ``per_instance_stats.json``, or None."""
    if not all({"instance_id", "stats"} <= set(record) for record in records):
        return None
    log = Answers(path, HELM)
    for record in records:
        given = record["stats"] if isinstance(record["stats"], list) else ()
        stats = {
            str(s["name"].get("name")): number(s.get("mean"))
            for s in given
            if isinstance(s, Mapping) and isinstance(s.get("name"), Mapping)
        }
        sure, right = stats.get("max_prob"), stats.get("exact_match")
        if sure is not None and right in (0.0, 1.0):
            row = _row(record["instance_id"], path)
            log.add(record, **row, confidence=min(max(sure, 0.0), 1.0), correct=right == 1.0)
    if not log.rows:
        raise file_error(
            path,
            f"is a log of {HELM}, but no instance has `max_prob` and `exact_match`. Evaluate "
            "scenario_state.json of the same run.",
        )
    log.left_out(len(records) - len(log.rows), "instances without these statistics")
    return log


def _row(instance: Any, path: Path) -> dict[str, Any]:
    """Return the question and the task: the name of the file, or of the run's folder."""
    task = re.sub(r"_?(scenario_state|per_instance_stats)$", "", path.stem)
    return {"question": str(instance), "task": task or path.parent.name}


def _completion(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    first = inside(state, "result", "completions", 0)
    is_known = isinstance(first, Mapping) and number(first.get("logprob")) is not None
    return first if is_known and isinstance(state.get("instance"), Mapping) else None


def _references(state: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Return the texts of the options, and whether each is right."""
    given = state["instance"].get("references")
    found = []
    for reference in given if isinstance(given, list) else ():
        output, tags = inside(reference, "output"), inside(reference, "tags")
        text = output.get("text") if isinstance(output, Mapping) else output
        found.append((str(text), isinstance(tags, list) and "correct" in tags))
    return found


def _add_generated(log: Answers, state: Mapping[str, Any]) -> None:
    completion, mapping = _completion(state) or {}, state.get("output_mapping")
    said = plain_answer(str(completion.get("text", "")))
    for letter, text in mapping.items() if isinstance(mapping, Mapping) else ():
        if plain_answer(str(letter)) == said:
            said = plain_answer(str(text))
    right = {plain_answer(text) for text, is_right in _references(state) if is_right}
    sure = math.exp(min(0.0, number(completion.get("logprob")) or 0.0))
    row = _row(state["instance"].get("id"), log.path)
    log.add(state, **row, confidence=sure, correct=said in right)


def _add_by_options(log: Answers, states: Sequence[Mapping[str, Any]]) -> None:
    """Add the questions all of whose options were asked for."""
    questions: dict[tuple[Any, Any], dict[int, Mapping[str, Any]]] = {}
    for state in states:
        at = state.get("reference_index")
        if isinstance(at, int) and state.get("request_mode") in (None, "original"):
            key = state["instance"].get("id"), state.get("train_trial_index")
            questions.setdefault(key, {})[at] = state
    for (instance, _), by_option in questions.items():
        references = _references(next(iter(by_option.values())))
        right = [k for k, (_, is_right) in enumerate(references) if is_right]
        if len(right) != 1 or set(by_option) != set(range(len(references))):
            continue
        asked = [by_option[k] for k in range(len(references))]
        scores = [number((_completion(one) or {})["logprob"]) for one in asked]
        log.add(asked, **_row(instance, log.path), option_logits=scores, answer=right[0])


RECORD_LOGS = (lm_eval_answers, helm_stats_answers, chat_answers, detected_boxes)
DOCUMENT_LOGS = (inspect_answers, helm_answers)
"""Evaluation logs that are records, and those that are one document."""


def answers_in(path: Path, document: Any) -> Answers | None:
    """Return the answers of an evaluation log, or None for any other JSON."""
    found: Iterator[Answers | None]
    if isinstance(document, Mapping):
        refuse_results(path, document)
        found = (read(path, document) for read in DOCUMENT_LOGS)
    elif isinstance(document, list) and document and all(isinstance(r, dict) for r in document):
        found = (read(path, document) for read in RECORD_LOGS)
    else:
        return None
    return next((log for log in found if log is not None), None)


def open_log(
    path: Path, document: Any, load: Callable[[], Any], dump: Callable[[Path, Any], None]
) -> Opened | None:
    """Return the answers in a document, which can be loaded again and written; else None."""
    found = answers_in(path, document)
    if found is None:
        return None

    def rewrite(target: Path, blocks: Iterable[NDArray[Any]]) -> None:
        again = load()  # the first was let go: it takes many times the memory of the table
        answers = answers_in(path, again)
        assert answers is not None  # noqa: S101  it was one before
        add_calibrated(answers, blocks)
        dump(target, again)

    table = table_of_answers(found)
    return replace(table, layout={**table.layout, "rewrite": rewrite})


def open_eval(part: Part, request: Request) -> Opened:
    """Return the answers in an `.eval` archive of Inspect."""
    load = partial(read_eval, part, limit=request.limit)
    log = open_log(part.path, load(), load, partial(write_eval, part=part))
    assert log is not None  # noqa: S101  `read_eval` has raised for other archives
    return log


def open_json(part: Part, limit: int, *, is_lines: bool) -> Opened:
    """Return the columns of a document, or of one object per line."""
    with many_objects():
        load = partial(records_in if is_lines else document_in, part, limit)
        document = load()
        if document is None:
            return open_json(part, limit, is_lines=not is_lines)
        log = open_log(part.path, document, load, partial(write_json, is_lines=is_lines))
        return log or table_of_document(part.path, document)
