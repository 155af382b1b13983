import json
import os
import shlex
from dataclasses import replace

import numpy as np
import pytest

from focalibrate.calibrate import Calibrator, fit_temperature

QUICK = ("--methods", "temperature", "--resamples", "20")
FAST = ("--methods", "temperature,vector", "--resamples", "20")


def test_the_main_job(cli, val, examples, tmp_path):
    done = cli("calibrate", "val.npz", *FAST, "-o", "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "calibrator.json",
        "report.html",
        "results.json",
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "val.npz"]
    record = json.loads((tmp_path / "out/results.json").read_text())
    assert record["comparison"]["judged_on"] == "cross-fit"
    assert "Held-out scores (5-fold cross-validation): 400 examples, 3 classes" in done.stdout
    assert "val.npz: 400 rows × 3 classes, logits" in done.stdout
    words = " ".join(done.stdout.split())
    for field in ("headline", "gain", "after", "reason", "advice"):
        assert record["verdict"][field] in words
    assert record["verdict"]["status"] == "repairable"
    assert "Off, but repairable The model is overconfident: its confidence is" in words
    assert "What to do: Apply calibrator.json to new predictions." in words
    assert (
        "Next:\n  focalibrate apply out/calibrator.json new.npz -o calibrated.npz" in done.stdout
    )
    chosen = Calibrator.load(tmp_path / "out/calibrator.json")
    assert chosen.to_dict() == record["calibrator"]
    assert "\x1b[" not in done.stdout
    assert record["made_with"]["command"].startswith("focalibrate calibrate val.npz")
    assert len(record["made_with"]["files"][0]["sha256"]) == 64


@pytest.mark.parametrize("more", [(), ("--fit-rows", "150")], ids=["whole", "in batches"])
def test_several_files_are_parts_of_one_table(cli, examples, tmp_path, more):
    for i in range(2):
        part = {"logits": examples.logits[i::2], "labels": examples.labels[i::2]}
        np.savez(tmp_path / f"part-{i}.npz", **part)
    words = (*QUICK, *more, "--json")
    several = json.loads(cli("calibrate", "part-0.npz", "part-1.npz", *words, "-o", "a").stdout)
    pattern = json.loads(cli("calibrate", "part-*.npz", *words, "-o", "b").stdout)
    assert several["comparison"] == pattern["comparison"]
    (file,), (same,) = several["made_with"]["files"], pattern["made_with"]["files"]
    assert (file["file"], file["sha256"]) == ("part-0.npz and 1 more", same["sha256"])


@pytest.mark.parametrize("more", [(), ("--fit-rows", "150")], ids=["whole", "in batches"])
def test_a_validation_and_a_test_file_are_not_pooled(cli, val, tmp_path, more):
    (tmp_path / "test.npz").write_bytes((tmp_path / "val.npz").read_bytes())
    done = cli("calibrate", "val.npz", "test.npz", *QUICK, *more, ok=False)
    assert done.returncode == 1
    assert "different splits, not parts of one table: val.npz, test.npz" in done.stderr


def test_a_test_file_is_judged_on(cli, val, examples, tmp_path):
    np.savez(tmp_path / "test.npz", logits=examples.logits[:150] + 1, labels=examples.labels[:150])
    done = cli("calibrate", "val.npz", "--test", "test.npz", *QUICK, "--json")
    record = json.loads(done.stdout)
    assert (record["comparison"]["judged_on"], record["comparison"]["n_judged"]) == ("test", 150)
    want = fit_temperature(examples.logits, examples.labels)
    assert record["calibrator"] == replace(want, uniform_mix=1 / 401).to_dict()


@pytest.mark.slow
def test_one_method_named_is_the_one_written(cli, examples, tmp_path):
    np.savez(tmp_path / "fine.npz", logits=examples.logits / 3, labels=examples.labels)
    record = json.loads(
        cli("calibrate", "fine.npz", "--methods", "vector", "--resamples", "20", "--json").stdout
    )
    assert record["chosen"] == "vector"
    words = ("calibrate", "fine.npz", *FAST, "--choose", "temperature", "--json", "-o", "t")
    record = json.loads(cli(*words).stdout)
    assert record["chosen"] == "temperature"
    assert "requested" in record["verdict"]["gain"]


def test_no_verdict_where_nothing_could_be_fitted(cli, examples, tmp_path):
    logits = examples.logits.copy()
    logits[5, examples.labels[5]] = -np.inf
    np.savez(tmp_path / "masked.npz", logits=logits, labels=examples.labels)
    done = cli("calibrate", "masked.npz", "--resamples", "20", ok=False)
    assert done.returncode == 1
    assert "row 5" in done.stderr
    assert not (tmp_path / "focalibrate-report").exists()


@pytest.mark.slow
def test_nothing_is_overwritten_without_force(cli, val, tmp_path):
    cli("calibrate", "val.npz", *QUICK, "-o", "out")
    before = (tmp_path / "out/calibrator.json").stat().st_mtime_ns
    done = cli("calibrate", "val.npz", *QUICK, "-o", "out", ok=False)
    assert done.returncode == 1
    assert "Pass --force to replace them" in done.stderr
    assert (tmp_path / "out/calibrator.json").stat().st_mtime_ns == before
    cli("calibrate", "val.npz", *QUICK, "-o", "out", "--force")


def test_a_failing_write_leaves_nothing(cli, val, tmp_path):
    (tmp_path / "out").write_text("a file")
    done = cli("calibrate", "val.npz", *QUICK, "-o", "out", ok=False)
    assert done.returncode == 1
    assert "exists and is not a folder" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "val.npz"]


def test_onnx_comes_on_request(cli, val, tmp_path):
    pytest.importorskip("onnx")
    cli("calibrate", "val.npz", *QUICK, "--onnx", "-o", "out")
    assert (tmp_path / "out/calibrator.onnx").stat().st_size > 100


def test_files_follow_the_umask(cli, val, tmp_path):
    old = os.umask(0o022)
    try:
        cli("calibrate", "val.npz", *QUICK, "-o", "out")
    finally:
        os.umask(old)
    modes = {p.name: oct(p.stat().st_mode & 0o777) for p in (tmp_path / "out").iterdir()}
    assert set(modes.values()) == {"0o644"}, modes


@pytest.mark.slow
def test_every_format_gives_the_same_calibrator(cli, examples, tmp_path):
    logits, labels = examples.logits, examples.labels
    np.save(tmp_path / "val.npy", logits)
    np.save(tmp_path / "y.npy", labels)
    header = "label,logit_a,logit_b,logit_c\n"
    rows = [
        f"{y}," + ",".join(map(repr, map(float, z))) for z, y in zip(logits, labels, strict=True)
    ]
    (tmp_path / "val.csv").write_text(header + "\n".join(rows) + "\n")
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"logit_{k}": logits[:, k] for k in range(3)} | {"label": labels}
    parquet.write_table(pa.table(columns), tmp_path / "val.parquet")
    for name, extra in (
        ("val.npy", ("--labels", "y.npy", "--input", "logits")),
        ("val.csv", ()),
        ("val.parquet", ()),
    ):
        record = json.loads(
            cli("calibrate", name, *extra, *QUICK, "-o", name[4:], "--json").stdout
        )
        want = fit_temperature(logits, labels).temperature
        assert record["calibrator"]["parameters"]["temperature"] == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["calibrate", "absent.npz"], 1, "absent.npz"),
        (["calibrate", "val.npz", "--methods", "magic"], 1, "got 'magic'"),
        (
            ["calibrate", "val.npz", "--methods", "posterior_recovery"],
            1,
            "`trained_gamma` must be given",
        ),
        (["calibrate", "val.npz", "--bins", "0"], 2, "--bins"),
        (["calibrate"], 2, "Missing argument 'VAL...'"),
        (["calibrate", "empty"], 1, "has no files of predictions"),
        (["calibrate", "val.npz", "--logits-key", "z"], 1, "z"),
        (["nonsense"], 2, "No such command 'nonsense'"),
    ],
)
def test_exit_codes_and_messages(cli, val, tmp_path, arguments, code, message):
    (tmp_path / "empty").mkdir()
    done = cli(*arguments, ok=False)
    assert done.returncode == code
    assert message in done.stderr


def test_bad_files_are_named_with_their_rows(cli, examples, tmp_path):
    bad = examples.logits.copy()
    bad[[7, 11]] = np.nan
    np.savez(tmp_path / "nan.npz", logits=bad, labels=examples.labels)
    np.savez(tmp_path / "more.npz", logits=bad[:5], labels=examples.labels)
    np.savez(tmp_path / "text.npz", logits=examples.logits, labels=np.array(["a"] * 400))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "nan.npz").read_bytes()[:100])
    for name, message in (
        ("nan.npz", "7"),
        ("more.npz", "400"),
        ("text.npz", "label"),
        ("cut.npz", "cut.npz"),
    ):
        done = cli("calibrate", name, ok=False)
        assert done.returncode == 1
        assert message in done.stderr
    assert not (tmp_path / "focalibrate-report").exists()


def test_probabilities_with_zeros_are_read(cli, examples, tmp_path):
    probs = np.eye(3)[(examples.labels + (np.arange(400) % 5 == 0)) % 3]
    np.savez(tmp_path / "p.npz", probs=probs, labels=examples.labels)
    record = json.loads(cli("calibrate", "p.npz", *QUICK, "--json").stdout)
    assert record["notes"][0].startswith("400 rows with a probability of exactly 0: all are 0 or")
    assert record["calibrator"]["zero_mix"] == 0.01
    assert "20.0 points above its accuracy" in record["verdict"]["headline"]


def test_an_interrupted_run_leaves_nothing(cli, val, tmp_path, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("focalibrate.pipeline.result.write_report", interrupt)
    assert cli("calibrate", "val.npz", *QUICK, "-o", "out", ok=False).returncode == 1
    assert [p.name for p in tmp_path.iterdir()] == ["val.npz"]


@pytest.mark.slow
def test_workers_share_out_the_rows_that_are_not_fitted_on(cli, val):
    words = ("calibrate", val, "--methods", "temperature", "--resamples", "10", "--json")
    one = json.loads(cli(*words, "--fit-rows", "100", "-o", "one").stdout)
    two = json.loads(cli(*words, "--fit-rows", "100", "-o", "two", "--workers", "2").stdout)
    assert one["comparison"] == two["comparison"]
    assert one["calibrator"] == two["calibrator"]
    done = cli(*words, "-o", "three", "--workers", "2")
    assert "--workers and --backend are not used" in done.stderr


WAYS = {
    "the kind": ("cat,dog,owl,label", ["--input", "logits"]),
    "the label": ("cat,dog,owl,my y", ["--input", "logits", "--label-column", "my y"]),
    "columns": ("1,2,3,x,label", ["--input", "logits", "--score-columns", "1,2,3"]),
    "a column to leave out": ("cat,dog,owl,x,label", ["--input", "logits", "--ignore", "x"]),
    "class names": ("logits_0,logits_1,logits_2,label", ["--class-names", "cat,dog,owl"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_next_command_works_on_new_data(cli, tmp_path, examples, way):
    header, options = WAYS[way]
    names = header.split(",")
    middle = [0.5] * (len(names) - 4)
    rows = [
        [*map(repr, z), *middle, ["cat", "dog", "owl"][k] if names[0] != "1" else k + 1]
        for z, k in zip(examples.logits.tolist(), examples.labels, strict=True)
    ]

    def write(file, part, width):
        lines = [names[:width], *([str(cell) for cell in row[:width]] for row in part)]
        (tmp_path / file).write_text("".join(",".join(line) + "\n" for line in lines))

    write("val.csv", rows[:300], len(names))
    done = cli("calibrate", "val.csv", *options, "--methods", "temperature", "--resamples", "10")
    line = done.stdout.split("Next:\n")[1].splitlines()[0]
    program, *words = shlex.split(line)
    assert (program, words[2]) == ("focalibrate", "new.csv")
    want = ["cat", "dog", "owl"] if names[0] != "1" else ["1", "2", "3"]
    for width in (len(names), len(names) - 1):  # with labels and without
        write("new.csv", rows[300:], width)
        cli(*words)
        written = (tmp_path / "calibrated.csv").read_text().splitlines()
        assert written[0].split(",")[:3] == [f"prob_{name}" for name in want]
        assert len(written) == 101
        (tmp_path / "calibrated.csv").unlink()


def test_the_next_command_works_where_a_column_was_chosen_and_cells_are_missing(
    cli, tmp_path, examples
):
    names = ["cat", "dog", "owl"]
    lines = [
        ",".join([*map(repr, z), names[k], names[0]])
        for z, k in zip(examples.logits.tolist(), examples.labels, strict=True)
    ]
    lines[3] = lines[303] = ",1.0,1.0,cat,cat"
    for file, part in (("val.csv", lines[:300]), ("new.csv", lines[300:])):
        (tmp_path / file).write_text("\n".join(["cat,dog,owl,target,second", *part]) + "\n")
    done = cli(
        *("calibrate", "val.csv", "--input", "logits", "--label-column", "target"),
        *("--drop-missing", "--methods", "temperature", "--resamples", "10"),
    )
    cli(*shlex.split(done.stdout.split("Next:\n")[1].splitlines()[0])[1:])
    written = (tmp_path / "calibrated.csv").read_text().splitlines()
    assert written[0] == "prob_cat,prob_dog,prob_owl,target,second"
    assert len(written) == 100


def test_the_next_command_says_which_class_is_positive(cli, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(300)
    labels = np.where(rng.random(300) < p**2, "yes", "no")
    rows = "".join(f"{a!r},{b}\n" for a, b in zip(p.tolist(), labels, strict=True))
    (tmp_path / "val.csv").write_text(f"score,label\n{rows}")
    (tmp_path / "new.csv").write_text("score\n0.25\n")
    done = cli("calibrate", "val.csv", "--methods", "platt", "--resamples", "10")
    line = done.stdout.split("Next:\n")[1].splitlines()[0]
    cli(*shlex.split(line)[1:])
    assert (tmp_path / "calibrated.csv").read_text().startswith("prob_yes\n")


def test_always_average_writes_the_average_whatever_its_score(cli, val):
    record = json.loads(cli("calibrate", "val.npz", "--always-average", *QUICK, "--json").stdout)
    rows = {row["method"] for row in record["comparison"]["methods"]}
    assert record["chosen"] == "average" or "average" not in rows
    done = cli("calibrate", "val.npz", "--always-average", "--simple", ok=False)
    assert done.returncode == 2
    assert "--always-average excludes --choose and --simple" in done.stderr
