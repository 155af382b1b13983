"""Runs of HELM: ``scenario_state.json`` and ``per_instance_stats.json``."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from focalibrate.io.errors import file_error
from focalibrate.io.formats.answers import Answers, inside, number, plain_answer

LOG = "HELM"


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
                f"describes a run of {LOG}, without its answers. Name the scenario_state.json "
                "beside it.",
            )
        return None
    if not isinstance(document.get("adapter_spec"), Mapping):
        return None
    scored = [s for s in given if isinstance(s, Mapping) and _completion(s) is not None]
    states = [s for s in scored if any(is_right for _, is_right in _references(s))]
    notes = []
    if len(scored) < len(given):
        notes.append(f"{len(given) - len(scored):,} requests without a log-probability left out")
    if len(states) < len(scored):
        notes.append(f"{len(scored) - len(states):,} requests without a right answer left out")
    if any(s.get("reference_index") is not None for s in states):
        return Answers(LOG, *_by_options(states, path), notes)
    return Answers(LOG, [_event(s, path) for s in states], states, notes)


def helm_stats_answers(path: Path, records: Sequence[dict[str, Any]]) -> Answers | None:
    """Return ``max_prob`` and ``exact_match`` of ``per_instance_stats.json``, or None."""
    if not all({"instance_id", "stats"} <= set(record) for record in records):
        return None
    rows, places = [], []
    for record in records:
        given = record["stats"] if isinstance(record["stats"], list) else ()
        stats = {
            str(s["name"].get("name")): number(s.get("mean"))
            for s in given
            if isinstance(s, Mapping) and isinstance(s.get("name"), Mapping)
        }
        sure, right = stats.get("max_prob"), stats.get("exact_match")
        if sure is not None and right in (0.0, 1.0):
            places.append(record)
            rows.append(
                _row(record["instance_id"], path)
                | {"confidence": min(max(sure, 0.0), 1.0), "correct": right == 1.0}
            )
    if not rows:
        raise file_error(
            path,
            f"is a log of {LOG}, but no instance has `max_prob` and `exact_match`. Evaluate "
            "scenario_state.json of the same run.",
        )
    notes = []
    if len(rows) < len(records):
        notes.append(f"{len(records) - len(rows):,} instances without these statistics left out")
    return Answers(LOG, rows, places, notes)


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


def _event(state: Mapping[str, Any], path: Path) -> dict[str, Any]:
    completion, mapping = _completion(state) or {}, state.get("output_mapping")
    said = plain_answer(str(completion.get("text", "")))
    for letter, text in mapping.items() if isinstance(mapping, Mapping) else ():
        if plain_answer(str(letter)) == said:
            said = plain_answer(str(text))
    right = {plain_answer(text) for text, is_right in _references(state) if is_right}
    sure = math.exp(min(0.0, number(completion.get("logprob")) or 0.0))
    row = _row(state["instance"].get("id"), path)
    return row | {"confidence": sure, "correct": said in right}


def _by_options(
    states: Sequence[Mapping[str, Any]], path: Path
) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """Return the questions all of whose options were asked for, and where these are."""
    questions: dict[tuple[Any, Any], dict[int, Mapping[str, Any]]] = {}
    for state in states:
        at = state.get("reference_index")
        if isinstance(at, int) and state.get("request_mode") in (None, "original"):
            key = state["instance"].get("id"), state.get("train_trial_index")
            questions.setdefault(key, {})[at] = state
    rows, places = [], []
    for (instance, _), by_option in questions.items():
        references = _references(next(iter(by_option.values())))
        right = [k for k, (_, is_right) in enumerate(references) if is_right]
        if len(right) != 1 or set(by_option) != set(range(len(references))):
            continue
        found = [_completion(by_option[k]) or {} for k in range(len(references))]
        scores = [number(completion["logprob"]) for completion in found]
        rows.append(_row(instance, path) | {"option_logits": scores, "answer": right[0]})
        places.append([by_option[k] for k in range(len(references))])
    return rows, places
