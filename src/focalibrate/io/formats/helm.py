"""Runs of HELM: ``scenario_state.json`` and ``per_instance_stats.json``."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from focalibrate.io.errors import file_error
from focalibrate.io.formats.answers import number, plain_answer, table_of_answers
from focalibrate.io.formats.opened import Opened

LOG = "HELM"


def open_helm(path: Path, document: Mapping[str, Any]) -> Opened | None:
    """Return the answers in ``scenario_state.json``, or None for other documents.

    With one request per option (``multiple_choice_separate_original``) these are scores of the
    options, otherwise the probability of the answer that was generated.
    """
    states = document.get("request_states")
    if not isinstance(states, list) or not isinstance(document.get("adapter_spec"), Mapping):
        return None
    states = [s for s in states if isinstance(s, Mapping) and _completion(s) is not None]
    if any("reference_index" in s for s in states):
        answers = _by_options(states, path.stem)
    else:
        answers = [_event(s, path.stem) for s in states]
    return table_of_answers(path, LOG, answers)


def open_helm_stats(path: Path, records: Sequence[Mapping[str, Any]]) -> Opened | None:
    """Return ``max_prob`` and ``exact_match`` of ``per_instance_stats.json``, or None."""
    if not all({"instance_id", "stats"} <= set(record) for record in records):
        return None
    answers = []
    for record in records:
        stats = {
            s["name"].get("name"): number(s.get("mean"))
            for s in record["stats"]
            if isinstance(s, Mapping) and isinstance(s.get("name"), Mapping)
        }
        sure, right = stats.get("max_prob"), stats.get("exact_match")
        if sure is not None and right in (0.0, 1.0):
            answers.append(
                _row(record["instance_id"], path.stem)
                | {"confidence": min(max(sure, 0.0), 1.0), "correct": right == 1.0}
            )
    if not answers:
        raise file_error(
            path,
            f"is a log of {LOG}, but no instance has `max_prob` and `exact_match`. Evaluate "
            "scenario_state.json of the same run.",
        )
    return table_of_answers(path, LOG, answers)


def _row(instance: Any, task: str) -> dict[str, Any]:
    task = task.removesuffix("_scenario_state").removesuffix("_per_instance_stats")
    return {"question": str(instance), "task": task}


def _completion(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    result = state.get("result")
    found = result.get("completions") if isinstance(result, Mapping) else None
    first = found[0] if isinstance(found, list) and found else None
    is_known = isinstance(first, Mapping) and number(first.get("logprob")) is not None
    return first if is_known and isinstance(state.get("instance"), Mapping) else None


def _references(state: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Return the texts of the options, and whether each is right."""
    given = state["instance"].get("references")
    found = []
    for reference in given if isinstance(given, list) else ():
        output = reference.get("output") if isinstance(reference, Mapping) else None
        text = output.get("text") if isinstance(output, Mapping) else output
        tags = reference.get("tags") if isinstance(reference, Mapping) else None
        found.append((str(text), isinstance(tags, list) and "correct" in tags))
    return found


def _event(state: Mapping[str, Any], task: str) -> dict[str, Any]:
    completion, mapping = _completion(state) or {}, state.get("output_mapping")
    said = plain_answer(str(completion.get("text", "")))
    for letter, text in mapping.items() if isinstance(mapping, Mapping) else ():
        if plain_answer(str(letter)) == said:
            said = plain_answer(str(text))
    right = {plain_answer(text) for text, is_right in _references(state) if is_right}
    sure = math.exp(min(0.0, number(completion.get("logprob")) or 0.0))
    row = _row(state["instance"].get("id"), task)
    return row | {"confidence": sure, "correct": said in right}


def _by_options(states: Sequence[Mapping[str, Any]], task: str) -> list[dict[str, Any]]:
    questions: dict[tuple[Any, Any], dict[int, Mapping[str, Any]]] = {}
    for state in states:
        at = state.get("reference_index")
        if isinstance(at, int) and state.get("request_mode", "original") == "original":
            key = state["instance"].get("id"), state.get("train_trial_index")
            questions.setdefault(key, {})[at] = state
    answers = []
    for (instance, _), by_option in questions.items():
        references = _references(next(iter(by_option.values())))
        right = [k for k, (_, is_right) in enumerate(references) if is_right]
        if len(right) != 1 or set(by_option) != set(range(len(references))):
            continue
        found = [_completion(by_option[k]) or {} for k in range(len(references))]
        scores = [number(completion["logprob"]) for completion in found]
        answers.append(_row(instance, task) | {"option_logits": scores, "answer": right[0]})
    return answers
