"""System errors end in one clear line and exit status 1, with no incomplete file."""

import os
import shlex
import subprocess
import sys

import numpy as np
import pytest

from focalibrate.calibrate import FocalTemperatureScaling
from focalibrate.cli import _group


@pytest.fixture
def calibrator(tmp_path):
    found = FocalTemperatureScaling(gamma=1.0, temperature=2.5)
    found.save(tmp_path / "c.json")
    return found


ASCII = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [ASCII, {"PYTHONIOENCODING": "cp1252"}])
def test_a_terminal_without_utf_8(val, settings):
    words = [sys.executable, "-m", "focalibrate", "evaluate", str(val)]
    environment = {**os.environ, **settings}
    done = subprocess.run(words, capture_output=True, check=False, env=environment)
    assert (done.returncode, b"400 rows" in done.stdout) == (0, True)


@pytest.mark.slow
def test_a_reader_that_goes_away(tmp_path, val):
    command = f"{sys.executable} -m focalibrate evaluate {val} | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_a_misspelt_command_and_swapped_files_are_named(cli, val, calibrator):
    done = cli("calibrat", val, ok=False)
    assert done.returncode == 2
    assert "No such command 'calibrat'. Did you mean 'calibrate'?" in done.stderr
    done = cli("apply", val, "c.json", "-o", "out.npz", ok=False)
    assert done.returncode == 1
    assert "is not JSON" in done.stderr
    assert "A calibrator is a file that its `save`" in done.stderr


def test_a_path_with_brackets(cli, tmp_path, examples, calibrator):
    name = "[bold]val[0].npz"
    np.savez(tmp_path / name, logits=examples.logits, labels=examples.labels)
    done = cli("evaluate", name)
    assert f"{name}: 400 rows" in done.stdout
    done = cli("apply", "c.json", name, "-o", "[red]out.npz")
    assert "[red]out.npz" in done.stdout


def test_escape_sequences_in_class_names(cli, tmp_path, calibrator):
    text = "label,prob_a\x1b[2J,prob_b\n0,0.5,0.5\n1,0.25,0.75\n"
    (tmp_path / "x.csv").write_text(text)
    done = cli("apply", "c.json", "x.csv", "-o", "out.csv")
    assert "\x1b" not in done.stdout + done.stderr
    (tmp_path / "y.csv").write_text("label,prob_a,prob_b\n\x1b]0;hi\x07,0.5,0.5\nb,0.25,0.75\n")
    done = cli("apply", "c.json", "y.csv", "-o", "out2.csv", ok=False)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout + done.stderr


def test_a_folder_where_a_file_is_expected(cli, val, tmp_path, calibrator):
    (tmp_path / "out.npz").mkdir()
    done = cli("apply", "c.json", "val.npz", "-o", "out.npz", ok=False)
    assert (done.returncode, "is a folder" in done.stderr) == (1, True)
    done = cli("apply", ".", "val.npz", "-o", "o.npz", ok=False)
    assert (done.returncode, "directory" in done.stderr.lower()) == (1, True)


def test_memory_that_does_not_suffice(cli, val, monkeypatch):
    def greedy(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr("focalibrate.cli.evaluate.evaluate_predictions", greedy)
    done = cli("evaluate", "val.npz", ok=False)
    assert (done.returncode, "Not enough memory" in done.stderr) == (1, True)


def test_a_limit_of_memory(cli, val):
    done = cli("evaluate", "val.npz", "--max-memory", "1kB", ok=False)
    assert done.returncode == 1
    assert "the limit is 1 kB" in done.stderr
    pasted = done.stderr.split("To paste:\n  focalibrate ")[1].split()
    assert cli(*pasted).returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a disk that is always full")
@pytest.mark.slow
def test_a_full_disk_behind_the_output(tmp_path, val):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "focalibrate", "evaluate", str(val)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def test_a_missing_extra_is_found_before_fitting(cli, val, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = cli("calibrate", "val.npz", "--onnx", ok=False)
    assert done.returncode == 1
    assert "pip install onnx onnxruntime" in done.stderr
    assert not (tmp_path / "focalibrate-report").exists()


@pytest.mark.parametrize("command", ["theory", "reproduce", "train"])
def test_without_the_papers_a_command_says_how_to_install_them(cli, monkeypatch, command):
    monkeypatch.setattr(_group, "added_commands", dict)
    done = cli(command, ok=False)
    assert done.returncode == 1
    assert "pip install ./papers" in " ".join(done.stderr.split())
    assert command not in cli("--help").stdout.split()


def test_a_module_that_is_not_installed(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "focalibrate_papers.cli.train", None)
    import focalibrate.cli._group as group

    def absent(name):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(group, "import_module", absent)
    done = cli("train", "x", ok=False)
    assert (done.returncode, "pip install torch" in done.stderr) == (1, True)


def test_commands_to_paste_work(cli, tmp_path, examples):
    z = examples.logits
    lines = [
        ",".join(map(str, [*row, y])) for row, y in zip(z.tolist(), examples.labels, strict=True)
    ]
    (tmp_path / "my file.csv").write_text("a,b,c,label\n" + "\n".join(lines) + "\n")
    done = cli("evaluate", "my file.csv", "--resamples", "10", ok=False)
    assert done.returncode == 1
    pasted = shlex.split(done.stderr.split("To paste:\n  ")[1].splitlines()[0])
    assert pasted == [
        "focalibrate",
        "evaluate",
        "my file.csv",
        "--resamples",
        "10",
        "--input",
        "logits",
    ]
    assert "400 rows × 3 classes (a, b, c), logits" in cli(*pasted[1:]).stdout


def test_standard_input(cli, val, calibrator, tmp_path):
    text = "id,y,prob\n" + "".join(f"{i},{i % 2},0.{1 + i % 9}\n" for i in range(60))
    done = cli("evaluate", "-", stdin=text, ok=True)
    assert 'standard input: 60 rows × 2 classes, probabilities of class 1 in "prob"' in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("apply", "c.json", "val.npz", "-o", "s3://bucket/x.csv"),
        ("calibrate", "val.npz", "-o", "s3://bucket/report"),
        ("evaluate", "val.npz", "-o", "s3://bucket/page.html"),
        ("sketch", "val.npz", "-o", "s3://bucket/day1.sketch"),
        ("check", "val.npz", "--max-ece", "0.1", "--junit", "s3://bucket/check.xml"),
    ],
    ids=lambda words: words[0],
)
def test_a_url_as_output_makes_no_folder_called_s3(cli, val, calibrator, tmp_path, words):
    done = cli(*words, ok=False)
    assert done.returncode == 2
    assert "URL" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.json", "val.npz"]
