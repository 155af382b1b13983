"""Evaluation logs: options with scores, answers with a confidence, and those that have neither."""

import json
import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from focalibrate.calibrate import TemperatureScaling
from focalibrate.cli import main
from focalibrate.io import PredictionFileError, read_predictions

REAL = Path(__file__).parents[4] / "shared" / "data" / "worlds" / "llm"
needs_real = pytest.mark.skipif(not REAL.exists(), reason="real logs are not here")


def lm_eval_sample(k: int, scores: list[float], options: list[str], target: str) -> dict[str, Any]:
    """Return one line of ``samples_*.jsonl``, without `acc`."""
    given = {
        f"gen_args_{i}": {"arg_0": "Q", "arg_1": f" {text}"} for i, text in enumerate(options)
    }
    return {
        "doc_id": k,
        "doc": {"question": f"question {k}"},
        "target": target,
        "arguments": given,
        "resps": [[[str(z), "False"]] for z in scores],
        "filtered_resps": [[str(z), "False"] for z in scores],
        "filter": "none",
    }


def lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def tokens(letter: str, probs: dict[str, float]) -> list[dict[str, Any]]:
    """Return the tokens of ``ANSWER: <letter>`` with alternatives."""
    top = [{"token": f" {name}", "logprob": math.log(p)} for name, p in probs.items()]
    said = {"token": f" {letter}", "logprob": math.log(probs[letter]), "top_logprobs": top}
    return [{"token": "ANSWER:", "logprob": 0.0, "top_logprobs": []}, said]


def inspect_log(samples: list[dict[str, Any]]) -> dict[str, Any]:
    return {"version": 2, "status": "success", "eval": {"task": "toy"}, "samples": samples}


def inspect_sample(
    name: str, epoch: int, letter: str, probs: dict[str, float] | None, **score: Any
) -> dict[str, Any]:
    choice: dict[str, Any] = {"message": {"content": f"ANSWER: {letter}"}}
    if probs is not None:
        choice["logprobs"] = {"content": tokens(letter, probs)}
    return {
        "id": name,
        "epoch": epoch,
        "choices": ["one", "two", "three"],
        "target": "B",
        "output": {"choices": [choice]},
        "scores": {"choice": {"value": "C" if letter == "B" else "I", "answer": letter, **score}},
    }


def eval_file(path: Path, log: dict[str, Any], *, zstandard: bool = False) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for sample in log["samples"]:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(name, json.dumps(sample))
        rest = {key: value for key, value in log.items() if key != "samples"}
        archive.writestr("header.json", json.dumps(rest))
    if zstandard:
        path.write_bytes(as_zstandard(path))
    return path


def as_zstandard(path: Path) -> bytes:
    """Return a zip archive whose members are in Zstandard, as new versions of Inspect write."""
    made, central, n = b"", b"", 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            content, name = archive.read(member), member.filename.encode()
            packed = pa.compress(content, codec="zstd", asbytes=True)
            sizes = (zlib.crc32(content), len(packed), len(content), len(name), 0)
            common = struct.pack("<HHHHHLLLHH", 63, 0, 93, 0, 33, *sizes)
            central += b"PK\x01\x02" + struct.pack("<H", 63) + common
            central += struct.pack("<HHHLL", 0, 0, 0, 0, len(made)) + name
            made += b"PK\x03\x04" + common + name + packed
            n += 1
    end = struct.pack("<HHHHLLH", 0, 0, n, n, len(central), len(made), 0)
    return made + central + b"PK\x05\x06" + end


@pytest.mark.parametrize("targets", [("1", "0"), ("yes", "left"), ("B", "A")])
def test_options_of_varying_number_are_read_with_targets_of_any_form(
    tmp_path: Path, targets: tuple[str, str]
) -> None:
    samples = [
        lm_eval_sample(0, [-1.5, -0.5, -2.0], ["no", "yes", "maybe"], targets[0]),
        lm_eval_sample(1, [-3.0, -1.0], ["left", "right"], targets[1]),
    ]
    found = read_predictions(lines(tmp_path / "samples_toy.jsonl", samples))
    assert found.scores.tolist() == [[-1.5, -0.5, -2.0], [-3.0, -1.0, -math.inf]]
    assert found.labels is not None
    assert found.labels.tolist() == [1, 0]
    assert "up to 3 options" in found.describe()


def test_a_target_that_could_be_text_or_position_is_the_one_that_acc_agrees_with(
    tmp_path: Path,
) -> None:
    sample = lm_eval_sample(0, [-1.0, -2.0, -3.0], ["2", "1", "0"], "2")
    by_text = read_predictions(lines(tmp_path / "a.jsonl", [{**sample, "acc": 1.0}]))
    by_position = read_predictions(lines(tmp_path / "b.jsonl", [{**sample, "acc": 0.0}]))
    assert by_text.labels is not None
    assert by_text.labels.tolist() == [0]
    assert by_position.labels is not None
    assert by_position.labels.tolist() == [2]


def test_scores_are_divided_by_the_characters_or_the_bytes_of_each_option(tmp_path: Path) -> None:
    path = lines(tmp_path / "s.jsonl", [lm_eval_sample(0, [-6.0, -4.0], ["né!", "a"], "0")])
    for key, first in (("option_logits_per_character", -2.0), ("option_logits_per_byte", -1.5)):
        found = read_predictions(path, logits_key=key)
        assert found.scores.tolist() == [[first, -4.0]]
        assert found.labels is not None
        assert found.labels.tolist() == [0]


def test_a_truth_value_is_a_position_and_several_right_options_are_refused(
    tmp_path: Path,
) -> None:
    sample = lm_eval_sample(0, [-2.0, -1.0], ["no", "yes"], "True")
    found = read_predictions(lines(tmp_path / "s.jsonl", [{**sample, "acc": 1.0}]))
    assert found.labels is not None
    assert found.labels.tolist() == [1]
    several = lines(tmp_path / "s.jsonl", [{**sample, "target": "[0, 1]", "acc": 1.0}])
    with pytest.raises(PredictionFileError, match="several options are right"):
        read_predictions(several)


@pytest.mark.parametrize(
    ("bad", "says"),
    [({"filtered_resps": [["NaN", "False"]] * 2}, "lacks finite"), ({"target": "7"}, "is '7' in")],
)
def test_the_line_of_a_log_that_cannot_be_read_is_named(
    tmp_path: Path, bad: dict[str, Any], says: str
) -> None:
    samples = [lm_eval_sample(k, [-2.0, -1.0], ["no", "yes"], "1") for k in range(9)]
    path = lines(tmp_path / "s.jsonl", [*samples[:5], {**samples[5], **bad}, *samples[6:]])
    with pytest.raises(PredictionFileError, match=says) as caught:
        read_predictions(path)
    assert "doc_id 5" in str(caught.value)


def test_half_of_a_character_in_an_option_is_read(tmp_path: Path) -> None:
    sample = lm_eval_sample(0, [-1.0, -2.0], ["\ud800", "b"], "1")
    found = read_predictions(lines(tmp_path / "samples_toy.jsonl", [sample]))
    assert found.scores.tolist() == [[-1.0, -2.0]]


def test_the_folder_that_lm_eval_writes_asks_for_its_samples(tmp_path: Path) -> None:
    sample = lm_eval_sample(0, [-1.0, -2.0], ["a", "b"], "1")
    lines(tmp_path / "samples_toy.jsonl", [sample])
    (tmp_path / "results_toy.json").write_text("{}")
    with pytest.raises(PredictionFileError, match=r"such as '\*\.jsonl'"):
        read_predictions(tmp_path)


def test_generated_answers_are_refused_with_the_reason(tmp_path: Path) -> None:
    sample = {"doc_id": 0, "target": "3", "filtered_resps": [" 1. The"], "filter": "none"}
    with pytest.raises(PredictionFileError, match="generated answers, which have no scores"):
        read_predictions(lines(tmp_path / "s.jsonl", [sample]))


def test_an_eval_file_and_its_json_give_the_same_rows(tmp_path: Path) -> None:
    probs = {"A": 0.2, "B": 0.7, "C": 0.1}
    samples = [inspect_sample(n, e, "AB"[e - 1], probs) for n in ("q1", "q2") for e in (1, 2)]
    log = inspect_log(samples)
    (tmp_path / "log.json").write_text(json.dumps(log))
    one = read_predictions(tmp_path / "log.json")
    other = read_predictions(eval_file(tmp_path / "log.eval", log))
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_allclose(np.exp(one.scores), [[0.2, 0.7, 0.1]] * 4)
    assert one.labels is not None
    assert one.labels.tolist() == [1, 1, 1, 1]
    for found in (one, other):
        assert found.cluster is not None
        assert found.cluster.tolist() == ["q1", "q1", "q2", "q2"]


def test_a_letter_that_is_not_among_the_alternatives_makes_answers_events(tmp_path: Path) -> None:
    samples = [
        inspect_sample("q1", 1, "B", {"A": 0.2, "B": 0.7}),
        inspect_sample("q2", 1, "A", {"A": 0.6, "B": 0.3}),
    ]
    (tmp_path / "log.json").write_text(json.dumps(inspect_log(samples)))
    found = read_predictions(tmp_path / "log.json")
    np.testing.assert_allclose(found.scores[:, 1], [0.7, 0.6])
    assert found.labels is not None
    assert found.labels.tolist() == [1, 0]


def test_letters_that_the_scorer_contradicts_are_not_read(tmp_path: Path) -> None:
    """Inspect renames options that were shuffled, but not the letters in the tokens."""
    sample = inspect_sample("q1", 1, "A", {"A": 0.6, "B": 0.3, "C": 0.1})
    other = inspect_sample("q2", 1, "B", {"A": 0.1, "B": 0.8, "C": 0.1})
    sample["scores"]["choice"]["value"] = "C"
    (tmp_path / "log.json").write_text(json.dumps(inspect_log([sample, other])))
    found = read_predictions(tmp_path / "log.json")
    np.testing.assert_allclose(found.scores[:, 1], [0.6, 0.8])
    assert found.labels is not None
    assert found.labels.tolist() == [1, 1]


def test_a_log_of_inspect_without_answers_is_named(tmp_path: Path) -> None:
    header = inspect_log([]) | {"plan": {}}
    del header["samples"]
    (tmp_path / "log.json").write_text(json.dumps(header))
    with pytest.raises(PredictionFileError, match="Inspect without scored answers"):
        read_predictions(tmp_path / "log.json")
    half = inspect_sample("q", 1, "A", {"A": 0.6, "B": 0.3}, value=0.5)
    (tmp_path / "log.json").write_text(json.dumps(inspect_log([half])))
    with pytest.raises(PredictionFileError, match="no answers: 1 answers without a confidence"):
        read_predictions(tmp_path / "log.json")
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        for epoch in (1, 2):
            archive.writestr(f"samples/q_epoch_{epoch}.json", json.dumps(half))
    with pytest.raises(PredictionFileError, match=r"no header\.json names its evaluation"):
        read_predictions(tmp_path / "log.eval")


def test_a_stated_confidence_is_read_from_the_metadata_of_the_score(tmp_path: Path) -> None:
    sample = [
        inspect_sample(str(k), 1, "AB"[k], None, metadata={"confidence": 0.9 - k / 10})
        for k in (0, 1)
    ]
    (tmp_path / "log.json").write_text(json.dumps(inspect_log(sample)))
    found = read_predictions(tmp_path / "log.json")
    np.testing.assert_allclose(found.scores[:, 1], [0.9, 0.8])
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1]


@pytest.mark.parametrize("stated", [[90, 60], ["90%", "60 %"]])
def test_stated_confidences_may_be_percent(tmp_path: Path, stated: list[Any]) -> None:
    samples = [
        inspect_sample(str(k), 1, "AB"[k], None, metadata={"confidence": c, "score": 1.0})
        for k, c in enumerate(stated)
    ]
    (tmp_path / "log.json").write_text(json.dumps(inspect_log(samples)))
    found = read_predictions(tmp_path / "log.json")
    np.testing.assert_allclose(found.scores[:, 1], [0.9, 0.6])
    assert any("read as percent" in note for note in found.notes)
    samples[0]["scores"]["choice"]["metadata"]["confidence"] = 0.9
    (tmp_path / "log.json").write_text(json.dumps(inspect_log(samples)))
    with pytest.raises(PredictionFileError, match="state all as percent, or none"):
        read_predictions(tmp_path / "log.json")


def test_a_grade_called_score_is_no_confidence(tmp_path: Path) -> None:
    samples = [
        inspect_sample(str(k), 1, "AB"[k], None, metadata={"score": float(k)}) for k in range(2)
    ]
    (tmp_path / "log.json").write_text(json.dumps(inspect_log(samples)))
    with pytest.raises(PredictionFileError, match="nothing says how sure the model was"):
        read_predictions(tmp_path / "log.json")


def test_a_log_without_confidence_says_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(
        json.dumps(inspect_log([inspect_sample("q", 1, "B", None)]))
    )
    with pytest.raises(PredictionFileError, match="inspect eval --logprobs"):
        read_predictions(tmp_path / "log.json")


def test_an_unknown_version_is_named(tmp_path: Path) -> None:
    log = inspect_log([inspect_sample("q", 1, "B", None)]) | {"version": 9}
    (tmp_path / "log.json").write_text(json.dumps(log))
    with pytest.raises(PredictionFileError, match="version 9"):
        read_predictions(tmp_path / "log.json")


def test_a_target_that_may_be_position_or_text_needs_acc(tmp_path: Path) -> None:
    options, scores = ["1", "0"], [-1.0, -2.0]
    records = [lm_eval_sample(k, scores, options, target) for k, target in enumerate("0101")]
    path = lines(tmp_path / "samples_t.jsonl", records)
    with pytest.raises(PredictionFileError, match="Evaluate with the metric `acc`"):
        read_predictions(path)
    by_text = [record | {"acc": float(record["target"] == "1")} for record in records]
    found = read_predictions(lines(path, by_text))
    assert found.labels is not None
    assert found.labels.tolist() == [1, 0, 1, 0]


def test_options_of_infinite_log_likelihood_are_not_called_generated(tmp_path: Path) -> None:
    records = [lm_eval_sample(k, [-math.inf, -1.0], ["a", "b"], "1") for k in range(3)]
    with pytest.raises(PredictionFileError, match="doc_id 0 lacks finite log-likelihoods"):
        read_predictions(lines(tmp_path / "samples_t.jsonl", records))


def chat(letter: str, p: float) -> dict[str, Any]:
    return {
        "choices": [
            {
                "message": {"content": f"{letter}."},
                "logprobs": {
                    "content": [
                        {"token": letter, "logprob": math.log(p), "top_logprobs": []},
                        {"token": ".", "logprob": 0.0, "top_logprobs": []},
                    ]
                },
            }
        ]
    }


def test_responses_with_logprobs_and_the_output_of_a_batch_give_the_same_events(
    tmp_path: Path,
) -> None:
    given = [("B", 0.9, "B"), ("A", 0.6, "c")]
    plain = [chat(said, p) | {"label": truth} for said, p, truth in given]
    batch = [
        {"custom_id": f"r{k}", "label": truth, "response": {"body": chat(said, p)}}
        for k, (said, p, truth) in enumerate(given)
    ]
    responses = []
    for said, p, truth in given:
        part = {"type": "output_text", "text": f"{said}.", "logprobs": []}
        part["logprobs"] = chat(said, p)["choices"][0]["logprobs"]["content"]
        output = [{"type": "reasoning", "content": None}, {"type": "message", "content": [part]}]
        responses.append({"object": "response", "output": output, "label": truth})
    for name, records in (("plain", plain), ("batch", batch), ("responses", responses)):
        found = read_predictions(lines(tmp_path / f"{name}.jsonl", records))
        np.testing.assert_allclose(found.scores[:, 1], [0.9, 0.6])
        assert found.labels is not None
        assert found.labels.tolist() == [1, 0]


def test_the_choices_of_one_response_are_answers_to_one_question(tmp_path: Path) -> None:
    three = [chat(letter, p)["choices"][0] for letter, p in (("B", 0.9), ("A", 0.6), ("B", 0.7))]
    records = [{"id": "q1", "label": "B", "choices": three}, chat("C", 0.5) | {"label": "A"}]
    path = lines(tmp_path / "n.jsonl", records)
    found = read_predictions(path)
    np.testing.assert_allclose(found.scores[:, 1], [0.9, 0.6, 0.7, 0.5])
    assert found.labels is not None
    assert found.labels.tolist() == [1, 0, 1, 0]
    assert found.cluster is not None
    assert found.cluster.tolist() == ["q1", "q1", "q1", "1"]
    applied(path, tmp_path / "out.jsonl")
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    made = [choice["calibrated_confidence"] for choice in written[0]["choices"]]
    np.testing.assert_allclose(made, 1 / (1 + np.sqrt(1 / np.array([0.9, 0.6, 0.7]) - 1)))
    assert written[1]["calibrated_confidence"] == pytest.approx(0.5)


def test_an_answer_among_other_words_is_warned_of(tmp_path: Path) -> None:
    records = [chat("It is B", 0.9) | {"label": "B"}, chat("B", 0.6) | {"label": "B"}]
    found = read_predictions(lines(tmp_path / "words.jsonl", records))
    assert any("1 answers hold the right one among other words" in note for note in found.notes)


def test_responses_without_truth_or_logprobs_are_refused_with_the_reason(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [chat("B", 0.9), chat("A", 0.6)])
    done = CliRunner().invoke(main, ["evaluate", str(path)])
    assert "not the right answers" in done.stderr
    assert "--label-column" not in done.stderr
    bare = {"label": "B", "choices": [{"message": {"content": "B"}}]}
    with pytest.raises(PredictionFileError, match="logprobs=True"):
        read_predictions(lines(tmp_path / "b.jsonl", [bare]))


def test_responses_without_truth_are_calibrated(tmp_path: Path) -> None:
    path = lines(tmp_path / "new.jsonl", [chat("B", 0.9), chat("A", 0.6)])
    applied(path, tmp_path / "out.jsonl")
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    made = [record["calibrated_confidence"] for record in written]
    np.testing.assert_allclose(made, 1 / (1 + np.sqrt(1 / np.array([0.9, 0.6]) - 1)))


@pytest.mark.parametrize(
    "first",
    [
        {"correct_answer": "B"},
        {"answer": "B", "label": "b"},  # `answer` may be the model's own
        {"label": 1, "answer": "B"},  # no answer is a number
        {"answers": ["b", "two"]},
        {"label": "Madrid", "is_correct": True},  # a judge has the last word
    ],
)
def test_which_answers_of_responses_are_right(tmp_path: Path, first: dict[str, Any]) -> None:
    other = {"label": "C", "is_correct": False, "correct_answer": "C", "answers": ["C", "three"]}
    second = {name: other.get(name, "A" if name == "answer" else None) for name in first}
    records = [chat("B", 0.9) | first, chat("A", 0.6) | second]
    if first == {"label": 1, "answer": "B"}:
        records[1] |= {"label": 2, "answer": "C"}
    found = read_predictions(lines(tmp_path / "a.jsonl", records))
    assert found.labels is not None
    assert found.labels.tolist() == [1, 0]


@pytest.mark.parametrize("right", [[1, 0], ["Paris", "Rome"]])
def test_right_answers_that_no_answer_can_equal_are_refused(
    tmp_path: Path, right: list[Any]
) -> None:
    records = [chat("B", 0.9) | {"label": right[0]}, chat("A", 0.6) | {"label": right[1]}]
    with pytest.raises(PredictionFileError, match='answers are a, b, "label" is'):
        read_predictions(lines(tmp_path / "a.jsonl", records))


def test_native_responses_of_sglang_and_llama_cpp(tmp_path: Path) -> None:
    given = [("B", 0.9, "B"), ("A", 0.6, "C")]
    sglang = [
        {"text": f" {said}", "label": truth}
        | {"meta_info": {"output_token_logprobs": [[math.log(p), 7, f" {said}"]]}}
        for said, p, truth in given
    ]
    llama = [
        {"content": f" {said}", "label": truth}
        | {"completion_probabilities": [{"token": f" {said}", "logprob": math.log(p)}]}
        for said, p, truth in given
    ]
    for name, records in (("sglang", sglang), ("llama", llama)):
        found = read_predictions(lines(tmp_path / f"{name}.jsonl", records))
        np.testing.assert_allclose(found.scores[:, 1], [0.9, 0.6])
        assert found.labels is not None
        assert found.labels.tolist() == [1, 0]


def test_chunks_of_streamed_responses_are_refused(tmp_path: Path) -> None:
    token = {"token": "B", "logprob": -0.1}
    chunk = {"choices": [{"delta": {"content": "B"}, "logprobs": {"content": [token]}}]}
    with pytest.raises(PredictionFileError, match="stream=False"):
        read_predictions(lines(tmp_path / "a.jsonl", [chunk | {"label": "B"}]))


def test_one_request_per_option_of_helm_gives_scores_of_options(tmp_path: Path) -> None:
    references = [
        {"output": {"text": t}, "tags": ["correct"] * (t == "no")} for t in ("yes", "no")
    ]
    states = [
        {
            "instance": {"id": "id1", "references": references},
            "reference_index": k,
            "request_mode": "original",
            "result": {"completions": [{"text": "", "logprob": z, "tokens": []}]},
        }
        for k, z in enumerate([-2.0, -1.0])
    ]
    document = {"adapter_spec": {"method": "x"}, "request_states": states}
    (tmp_path / "scenario_state.json").write_text(json.dumps(document))
    found = read_predictions(tmp_path / "scenario_state.json")
    assert found.scores.tolist() == [[-2.0, -1.0]]
    assert found.labels is not None
    assert found.labels.tolist() == [1]


def test_a_request_of_helm_without_a_right_answer_is_left_out(tmp_path: Path) -> None:
    states = [
        {
            "instance": {"id": f"id{k}", "references": [{"output": "yes", "tags": tags}]},
            "result": {"completions": [{"text": "yes", "logprob": -0.1}]},
        }
        for k, tags in enumerate([["correct"], []])
    ]
    document = {"adapter_spec": {}, "request_states": states}
    (tmp_path / "scenario_state.json").write_text(json.dumps(document))
    found = read_predictions(tmp_path / "scenario_state.json")
    assert found.n_rows == 1
    assert any("1 requests without a right answer" in note for note in found.notes)


def evaluated(path: Path) -> Any:
    """Return what `evaluate` found, of labels that need not fit."""
    options = ["--json", "--resamples", "10", "--anyway"]
    return CliRunner().invoke(main, ["evaluate", str(path), *options])


def applied(path: Path, out: Path) -> str:
    """Calibrate a log by one temperature, write it back, and return what was printed."""
    calibrator = out.with_name(f"{out.name}.calibrator.json")
    TemperatureScaling(2.0).save(calibrator)
    command = ["apply", str(calibrator), str(path), "-o", str(out)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    return done.output


def test_apply_writes_the_log_back_with_probabilities_beside_the_scores(tmp_path: Path) -> None:
    samples = [
        lm_eval_sample(0, [-1.5, -0.5, -2.0], ["no", "yes", "maybe"], "1"),
        {"doc_id": 0, "filtered_resps": ["x"], "filter": "other"},
        lm_eval_sample(1, [-3.0, -1.0], ["left", "right"], "0"),
    ]
    path, out = lines(tmp_path / "samples_toy.jsonl", samples), tmp_path / "out.jsonl"
    applied(path, out)
    made = [json.loads(line) for line in out.read_text().splitlines()]
    added = [one.pop("calibrated_probs", None) for one in made]
    assert made == samples
    assert added[1] is None
    for row, probs in zip((samples[0], samples[2]), (added[0], added[2]), strict=True):
        z = np.array([float(pair[0]) for pair in row["filtered_resps"]]) / 2
        np.testing.assert_allclose(probs, np.exp(z) / np.exp(z).sum(), rtol=1e-12)
    again = read_predictions(out)
    np.testing.assert_allclose(np.exp(again.scores[0]), added[0], rtol=1e-12)


@pytest.mark.parametrize("zstandard", [False, True])
def test_apply_writes_a_log_of_inspect_back(tmp_path: Path, zstandard: bool) -> None:
    probs = {"A": 0.2, "B": 0.7, "C": 0.1}
    log = inspect_log([inspect_sample(f"q{k}", 1, "B", probs) for k in range(3)])
    (tmp_path / "log.json").write_text(json.dumps(log))
    path = eval_file(tmp_path / "log.eval", log, zstandard=zstandard)
    applied(tmp_path / "log.json", tmp_path / "out.json")
    applied(path, tmp_path / "out.eval")
    one, other = (read_predictions(tmp_path / f"out.{kind}") for kind in ("json", "eval"))
    np.testing.assert_array_equal(one.scores, other.scores)
    want = np.sqrt([0.2, 0.7, 0.1])
    np.testing.assert_allclose(np.exp(one.scores[0]), want / want.sum())
    made = json.loads((tmp_path / "out.json").read_text())
    assert made["samples"][0]["output"] == log["samples"][0]["output"]


def test_tasks_with_different_numbers_of_options_are_one_data_set_by_task(tmp_path: Path) -> None:
    two = [lm_eval_sample(k, [-1.0, -2.0], ["a", "b"], "0") for k in range(2)]
    three = [lm_eval_sample(k, [-1.0, -2.0, -3.0], ["a", "b", "c"], "2") for k in range(3)]
    tasks = {"two": two, "x": three}
    files = [lines(tmp_path / f"samples_{name}.jsonl", rows) for name, rows in tasks.items()]
    for paths in (files, files[::-1]):
        found = read_predictions(paths)
        assert found.n_classes == 3
        assert (found.scores == -np.inf).sum() == 2
        assert sorted(found.groups["task"].tolist()) == ["two"] * 2 + ["x"] * 3


def test_the_order_of_the_options_changes_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    samples, permuted, orders = [], [], []
    for k in range(60):
        n = int(rng.integers(2, 6))
        z, names, right = rng.normal(size=n).tolist(), list("abcde"[:n]), int(rng.integers(n))
        order = rng.permutation(n)
        samples.append(lm_eval_sample(k, z, names, names[right]))
        moved = [names[i] for i in order]
        permuted.append(lm_eval_sample(k, [z[i] for i in order], moved, names[right]))
        orders.append(order)
    a, b = lines(tmp_path / "a.jsonl", samples), lines(tmp_path / "b.jsonl", permuted)
    records = []
    for path in (a, b):
        done = evaluated(path)
        assert done.exit_code == 0, done.output
        records.append({k: v for k, v in json.loads(done.stdout).items() if k != "file"})
    assert records[0]["scores"] == records[1]["scores"]
    assert records[0]["assessment"] == records[1]["assessment"]
    applied(a, tmp_path / "out_a.jsonl")
    applied(b, tmp_path / "out_b.jsonl")
    made = [(tmp_path / f"out_{name}.jsonl").read_text().splitlines() for name in "ab"]
    for order, *pair in zip(orders, *made, strict=True):
        one, other = (json.loads(line)["calibrated_probs"] for line in pair)
        assert [one[i] for i in order] == other


def test_results_and_descriptions_of_runs_name_the_file_with_the_answers(tmp_path: Path) -> None:
    results = {"results": {}, "configs": {}, "versions": {}}
    run = {"name": "x", "scenario_spec": {}, "adapter_spec": {}}
    for document, name in ((results, "samples_"), (run, "scenario_state.json")):
        (tmp_path / "r.json").write_text(json.dumps(document))
        with pytest.raises(PredictionFileError, match=name):
            read_predictions(tmp_path / "r.json")


def test_completions_and_lists_of_early_versions_are_read(tmp_path: Path) -> None:
    choice = {"text": " B", "logprobs": {"tokens": [" B"], "token_logprobs": [math.log(0.8)]}}
    path = lines(tmp_path / "c.jsonl", [{"label": "B", "choices": [choice]}])
    np.testing.assert_allclose(read_predictions(path).scores[:, 1], [0.8])
    sample = lm_eval_sample(0, [-1.0, -2.0], ["a", "b"], "1")
    sample["arguments"] = [["Q", " a"], ["Q", " b"]]
    sample["filtered_resps"] = [[-1.0, False], [-2.0, True]]
    (tmp_path / "old.jsonl").write_text(json.dumps([sample], indent=2))
    found = read_predictions(tmp_path / "old.jsonl")
    assert found.scores.tolist() == [[-1.0, -2.0]]


def test_the_brier_score_is_that_of_lm_eval(tmp_path: Path) -> None:
    """lm-eval 0.4.13, `brier_score`: the mean over rows of the sum over options."""
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(50, 4)), rng.integers(4, size=50)
    samples = [lm_eval_sample(k, z[k].tolist(), list("abcd"), str(y[k])) for k in range(50)]
    path = lines(tmp_path / "s.jsonl", samples)
    done = evaluated(path)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    theirs = np.mean(np.sum((p - np.eye(4)[y]) ** 2, axis=1))
    ours = json.loads(done.stdout)["scores"]["brier"]["estimate"]
    assert ours == pytest.approx(theirs, rel=1e-12)


@needs_real
@pytest.mark.parametrize("key", ["option_logits", "option_logits_per_character"])
def test_accuracies_are_those_of_lm_eval(key: str) -> None:
    path = next(REAL.glob("lm_eval/samples_toy_mc*"))
    found = read_predictions(path, logits_key=key)
    theirs = [json.loads(line) for line in path.read_text().splitlines()]
    metric = "acc" if key == "option_logits" else "acc_norm"
    hits = found.scores.argmax(axis=1) == found.labels
    assert hits.tolist() == [row[metric] == 1.0 for row in theirs]


@needs_real
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lm_eval/samples_winogrande*", "up to 2 options"),
        ("lm_eval/samples_math*", "generated answers, which have no scores"),
        ("inspect/*.eval", "nothing says how sure the model was"),
        ("inspect/data_arc*", "nothing says how sure the model was"),
        ("helm/*scenario_state.json", "10 rows × 2 classes"),
        ("helm/*per_instance_stats.json", "10 rows × 2 classes"),
    ],
)
def test_real_logs_open_or_are_refused_with_the_true_reason(name: str, says: str) -> None:
    path = next(REAL.glob(name))
    found = CliRunner().invoke(main, ["evaluate", str(path)])
    assert says in " ".join(found.output.split())
