import json
from pathlib import Path

import numpy as np
import pytest

from focalibrate.metrics import ece


@pytest.fixture
def days(tmp_path):
    rng = np.random.default_rng(0)
    for day in (1, 2):
        logits = 3 * rng.normal(size=(300, 3))
        labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
        np.savez(tmp_path / f"day{day}.npz", logits=logits, labels=labels)


def test_days_are_sketched_merged_and_evaluated(cli, days):
    for day in (1, 2):
        done = cli(
            "sketch", f"day{day}.npz", "-o", f"day{day}.sketch", "--from", f"2026-01-0{day}"
        )
        assert f"day{day}.sketch: 300 rows × 3 classes" in done.stdout
        assert "Next: focalibrate evaluate" in done.stdout
    done = cli("evaluate", "day1.sketch", "day2.sketch")
    assert "600 rows × 3 classes" in done.stdout
    assert "The model is overconfident: its confidence is" in done.stdout
    assert "o: accuracy, |: confidence, dots: 95 % if calibrated" in done.stdout
    assert "Evaluated in one pass, from a sketch" in done.stdout
    merged = json.loads(cli("evaluate", "day1.sketch", "day2.sketch", "--json").stdout)
    days = ("evaluate", "day1.npz", "day2.npz", "--json")
    rows = json.loads(cli(*days, "--workers", "1").stdout)
    assert merged["scores"] == rows["scores"]
    assert merged["assessment"] == rows["assessment"]
    assert merged["sketch"]["from"] == "2026-01-01"
    assert sum(merged["bins"]["count"]) == 600


def test_the_same_rows_as_one_file_and_as_two_give_the_same(cli, days, tmp_path):
    both = [dict(np.load(tmp_path / f"day{day}.npz")) for day in (1, 2)]
    np.savez(tmp_path / "all.npz", **{k: np.concatenate([d[k] for d in both]) for k in both[0]})
    one, two = (
        json.loads(cli("evaluate", *paths, "--json").stdout)
        for paths in (("all.npz",), ("day1.npz", "day2.npz"))
    )
    for name in ("scores", "assessment", "bins"):
        assert one[name] == two[name]


def test_the_rows_and_their_sketch_say_the_same(cli, days, tmp_path):
    rows = json.loads(cli("evaluate", "day1.npz", "--resamples", "20", "--json").stdout)
    with np.load(tmp_path / "day1.npz") as data:
        z = data["logits"]
        probs = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        want = ece(probs, data["labels"])
    cli("sketch", "day1.npz", "-o", "a.sketch")
    found = json.loads(cli("evaluate", "a.sketch", "--json").stdout)
    assert found["scores"]["ece"]["estimate"] == pytest.approx(want, rel=1e-9)
    for name, score in rows["scores"].items():
        bound = found["sketch"]["error_bound"].get(name, 0.0)
        assert found["scores"][name]["estimate"] == pytest.approx(
            score["estimate"], abs=bound + 1e-9
        )
    assert found["assessment"]["verdict"] == rows["assessment"]["verdict"]


def test_what_is_wrong_is_said(cli, days, tmp_path):
    cli("sketch", "day1.npz", "-o", "a.sketch")
    assert "already exists" in cli("sketch", "day1.npz", "-o", "a.sketch", ok=False).stderr
    cli("sketch", "day1.npz", "-o", "a.sketch", "--force")
    done = cli("evaluate", "a.sketch", "day2.npz", ok=False)
    assert "focalibrate sketch day2.npz -o day2.sketch" in done.stderr
    done = cli("evaluate", "a.sketch", "--bins", "10", ok=False)
    assert "--bins must be 15, as in the sketch, got 10" in done.stderr
    done = cli("evaluate", "a.sketch", "--calibrator", "c.json", ok=False)
    assert "--calibrator needs rows" in done.stderr
    done = cli("sketch", "day1.npz", "-o", "b.sketch", "--from", "soon", ok=False)
    assert "`--from` must be a date or time" in done.stderr
    done = cli("sketch", "day1.npz", "-o", "no/b.sketch", ok=False)
    assert "no/b.sketch: the folder no does not exist" in done.stderr
    done = cli("evaluate", "day1.npz", "--backend", "dask", ok=False)
    assert "--backend dask and --scheduler ADDRESS go together" in done.stderr
    text = (tmp_path / "a.sketch").read_text()
    (tmp_path / "a.sketch").write_text(text[:-20])
    assert "a.sketch: is damaged" in cli("evaluate", "a.sketch", ok=False).stderr


def test_the_help_says_who_can_run_code(cli):
    for command in ("sketch", "evaluate", "reproduce"):
        text = " ".join(cli(command, "--help").stdout.split())
        assert "Whoever reaches a scheduler can run code on its workers" in text


def page_data(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(text.split('id="focalibrate-data">')[1].split("</script>")[0])


@pytest.mark.slow
def test_an_evaluation_has_a_page(cli, tmp_path):
    rng = np.random.default_rng(1)
    logits = 3 * rng.normal(size=(800, 3))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    region = rng.choice(["north", "south"], size=800)
    np.savez(tmp_path / "rows.npz", logits=logits, labels=labels, region=region)
    words = ["--by", "region", "--resamples", "20"]
    done = cli("evaluate", "rows.npz", *words, "-o", "rows.html")
    assert "Written to rows.html" in done.stdout
    cli("sketch", "rows.npz", "-o", "rows.sketch", "--by", "region")
    cli("evaluate", "rows.sketch", "-o", "sketch.html")
    rows, sketch = (page_data(tmp_path / f"{name}.html") for name in ("rows", "sketch"))
    for page in (rows, sketch):
        assert (page["kind"], page["n_rows"]) == ("models", 800)
        assert page["verdict"]["headline"].startswith("The model is overconfident")
        assert [g["name"] for g in page["assessed"]] == ["region = north", "region = south"]
        assert page["models"][0]["difference"] is None
    assert sketch["notes"][0].startswith("Evaluated in one pass, from a sketch")
    mine, theirs = (page["models"][0] for page in (sketch, rows))
    assert mine["scores"]["nll"][0] == pytest.approx(theirs["scores"]["nll"][0], abs=1e-4)
    for name in ("miscalibration", "discrimination"):
        near = pytest.approx(theirs["apart"]["Brier score"][name], abs=1e-3)
        assert mine["apart"]["Brier score"][name] == near
    assert mine["risk"]["risk"][-1] == pytest.approx(theirs["risk"]["risk"][-1], abs=1e-3)
    done = cli("evaluate", "rows.sketch", "-o", "sketch.html", ok=False)
    assert "already exists and is not overwritten" in " ".join(done.stderr.split())
    assert "--force" in " ".join(done.stderr.split())
    cli("evaluate", "rows.sketch", "-o", "sketch.html", "--force")


def test_a_sketch_has_the_suffix_by_which_it_is_read_again(cli, val, tmp_path):
    (tmp_path / "days").mkdir()
    done = cli("sketch", val, "-o", "days/a.sketch.json", ok=False)
    shown = " ".join(done.stderr.split())
    assert (done.returncode, f"pass `-o {Path('days', 'a.sketch')}`" in shown) == (2, True)


def test_classes_keep_their_names_where_rows_are_read_in_pieces(cli, tmp_path):
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(1500, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    names = np.array(["cat", "cow", "dog"])
    np.savez(tmp_path / "a.npz", logits=logits - [0, 0, 2], labels=labels, class_names=names)
    said = "the probabilities of dog are off most"
    for words in ([], ["--workers", "2"]):
        done = cli("evaluate", "a.npz", *words, "--resamples", "20")
        assert said in done.stdout.replace("\n", " ")
    words = ("--fit-rows", "200", "--methods", "temperature", "--resamples", "20")
    done = cli("calibrate", "a.npz", *words, "-o", "report")
    assert said in done.stdout.replace("\n", " ")
