import json

import numpy as np
import pytest

from focalibrate.calibrate import TemperatureScaling

QUICK = ("--resamples", "40")


@pytest.mark.slow
def test_any_number_of_models(cli, val, examples, tmp_path):
    np.savez(tmp_path / "cool.npz", logits=examples.logits / 3, labels=examples.labels)
    np.savez(tmp_path / "same.npz", logits=examples.logits / 3, labels=examples.labels)
    done = cli("compare", "val.npz", "cool.npz", *QUICK)
    assert "cool.npz has the lowest log loss, significantly lower than val.npz." in done.stdout
    words = ("compare", "val.npz", "cool.npz", "same.npz", *QUICK)
    record = json.loads(cli(*words, "--json", "-o", "models.html").stdout)
    assert record["best"] == "cool.npz"
    assert record["verdict"].endswith("but no clear difference to same.npz.")
    worse, same = record["differences_to_best"]
    assert worse["scores"]["nll"]["low"] > 0
    assert worse["scores"]["error"]["estimate"] == 0
    assert same["p_value"] == 1
    page = (tmp_path / "models.html").read_text()
    assert all(name in page for name in ("val.npz", "cool.npz", "same.npz"))
    assert cli(*words, "-o", "models.html", ok=False).returncode == 1


def test_one_model_is_too_few(cli, val):
    done = cli("compare", "val.npz", ok=False)
    assert (done.returncode, "at least two" in done.stderr) == (2, True)
    done = cli("compare", "val.npz", "./val.npz", ok=False)
    assert (done.returncode, "named twice" in done.stderr) == (2, True)


def test_calibrators_on_one_file(cli, val, tmp_path):
    TemperatureScaling(3.0).save(tmp_path / "t.json")
    words = ("compare", "t.json", "raw", "--on", "val.npz", *QUICK)
    record = json.loads(cli(*words, "--json").stdout)
    assert [m["name"] for m in record["models"]] == ["t.json", "uncalibrated"]
    assert record["differences_to_best"][0]["scores"]["nll"]["low"] > 0


def test_other_examples_are_refused(cli, val, examples, tmp_path):
    np.savez(tmp_path / "short.npz", logits=examples.logits[:10], labels=examples.labels[:10])
    done = cli("compare", "val.npz", "short.npz", ok=False)
    assert (done.returncode, "same examples" in done.stderr) == (1, True)
    labels = examples.labels.copy()
    labels[3] = (labels[3] + 1) % 3
    np.savez(tmp_path / "other.npz", logits=examples.logits, labels=labels)
    done = cli("compare", "val.npz", "other.npz", ok=False)
    assert "1 rows differ, first row 3" in done.stderr


def test_compared_models_are_paired_by_id(cli, tmp_path):
    rng = np.random.default_rng(0)
    p, order = rng.random(300), rng.permutation(300)
    y = (rng.random(300) < p).astype(int)
    lines = [
        f"{i},{p[i]!r},{y[i]}".replace("np.float64(", "").replace(")", "") for i in range(300)
    ]
    (tmp_path / "a.csv").write_text("\n".join(["id,prob_yes,label", *lines]) + "\n")
    (tmp_path / "b.csv").write_text(
        "\n".join(["ID,prob_yes,label", *(lines[i] for i in order)]) + "\n"
    )
    done = cli("compare", "a.csv", "b.csv")
    assert "rows are matched to a.csv by id" in " ".join(done.stdout.split())
    found = json.loads(cli("compare", "a.csv", "b.csv", "--json").stdout)
    assert found["differences_to_best"][0]["scores"]["nll"]["estimate"] == pytest.approx(0.0)
    (tmp_path / "b.csv").write_text(
        "\n".join(["ID,prob_yes,label", *(f"x{line}" for line in lines[::-1])]) + "\n"
    )
    assert "same labels" in cli("compare", "a.csv", "b.csv", ok=False).stderr
    (tmp_path / "b.csv").write_text(
        "\n".join(["id,prob_yes,label", *(f"x{e}" for e in lines)]) + "\n"
    )
    said = " ".join(cli("compare", "a.csv", "b.csv").stdout.split())
    assert "paired with those of a.csv in their order, but id is not the same in both" in said
    done = cli("compare", "a.csv", "b.csv", "--id-column", "id", ok=False)
    assert "must name the same rows in id" in done.stderr


@pytest.mark.parametrize("written", ["{:04d}", "{}.0", " {}"])
def test_ids_that_are_written_in_two_ways_pair_the_rows(cli, tmp_path, written):
    """They were paired in their order, which labels that are sorted do not show."""
    p = np.sort(np.random.default_rng(0).random(60)).round(6)
    lines = [f"{p[i]},{i // 30}" for i in range(60)]
    order = [*range(29, -1, -1), *range(59, 29, -1)]
    one = [f"{i},{line}" for i, line in enumerate(lines)]
    other = [f"{written.format(i)},{lines[i]}" for i in order]
    for name, rows in (("a.csv", one), ("b.csv", other)):
        (tmp_path / name).write_text("\n".join(["id,prob_yes,label", *rows]) + "\n")
    done = cli("compare", "a.csv", "b.csv")
    assert "rows are matched to a.csv by id" in " ".join(done.stdout.split())


def test_rows_that_one_file_lacks_are_counted_and_named(cli, tmp_path):
    rng = np.random.default_rng(0)
    records = [
        {
            "doc_id": k,
            "target": str(k % 2),
            "arguments": {f"gen_args_{i}": {"arg_0": "Q", "arg_1": f" {i}x"} for i in range(3)},
            "filtered_resps": [[str(-x), "False"] for x in rng.exponential(size=2)]
            + [["-9", "F"]],
        }
        for k in range(60)
    ]
    for name, kept in (("base", records), ("tuned", records[:50][::-1]), ("same", records[::-1])):
        (tmp_path / name).mkdir()
        text = "\n".join(map(json.dumps, kept))
        (tmp_path / name / "samples_toy.jsonl").write_text(text)
    files = [f"{name}/samples_toy.jsonl" for name in ("base", "tuned", "same")]
    said = " ".join(cli("compare", files[0], files[1], ok=False).stderr.split())
    assert "by question, 10 of 60 are only in base/samples_toy.jsonl (toy 50, toy 51" in said
    assert "and 0 of 50 are only in tuned/samples_toy.jsonl. Keep the rows" in said
    said = " ".join(cli("compare", files[0], files[2], "--anyway").stdout.split())
    assert "no row has this label" not in said  # no lowest option is right


def test_logs_of_other_names_are_paired_by_document(cli, tmp_path):
    rng = np.random.default_rng(0)
    records = [
        {
            "doc_id": k,
            "doc_hash": f"{k:064x}",
            "target": str(k % 2),
            "arguments": {f"gen_args_{i}": {"arg_1": " AB"[i + 1]} for i in range(2)},
            "filtered_resps": [[str(z), "False"] for z in rng.normal(size=2)],
        }
        for k in range(100)
    ]
    for name, order in (("base", range(100)), ("tuned", rng.permutation(100))):
        text = "\n".join(json.dumps(records[k]) for k in order)
        (tmp_path / f"{name}.jsonl").write_text(text)
    found = json.loads(cli("compare", "base.jsonl", "tuned.jsonl", "--json").stdout)
    assert found["differences_to_best"][0]["scores"]["nll"]["estimate"] == pytest.approx(0.0)


def test_calibrators_without_predictions_are_given_the_option(cli, val):
    done = cli("compare", "report/calibrator.json", "raw", ok=False)
    assert done.returncode == 2
    assert "`focalibrate compare report/calibrator.json raw --on test.npz`" in done.stderr
