import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from focalibrate.cli import main
from focalibrate.engines import LocalProcesses
from focalibrate_papers.engine import EXPERIMENTS


def invoked(*arguments):
    return CliRunner().invoke(main, ["reproduce", *arguments])


@pytest.fixture
def in_process(serial, monkeypatch):
    """Make the runs in this process, one after the other."""
    monkeypatch.setattr(LocalProcesses, "map", lambda _, f, arguments: serial.map(f, arguments))


@pytest.fixture
def logged(registered, in_process, monkeypatch, tmp_path):
    """Run the experiment of logged runs of these kinds as a command."""
    monkeypatch.chdir(tmp_path)

    def run(kinds, *options):
        words = [registered.NAME, "--workers", "1", "--scale", "smallest", *options]
        monkeypatch.setenv(registered.KINDS, kinds)
        monkeypatch.setattr(sys, "argv", ["focalibrate", "reproduce", *words])
        return invoked(*words)

    return run


@pytest.mark.slow
def test_without_a_name_all_are_listed_and_neither_torch_nor_matplotlib_is_loaded():
    script = (
        "import sys; from focalibrate.cli import main\n"
        "main(['reproduce'], standalone_mode=False)\n"
        "sys.exit(str({'torch', 'matplotlib', 'sklearn'} & set(sys.modules)))\n"
    )
    wide = os.environ | {"COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=wide
    )
    names = [line.split()[0] for line in done.stdout.splitlines()[1:] if line[:1].strip()]
    assert names == list(EXPERIMENTS)
    assert done.stderr.strip() == "set()"


def test_an_unknown_name_is_answered_with_the_nearest():
    done = invoked("regime")
    assert done.exit_code == 1
    assert "there is no experiment 'regime'. Did you mean 'regimes'?" in done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--backend", "dask"], "--backend dask and --scheduler ADDRESS go together"),
        (["--scheduler", "tcp://host:1"], "--backend dask and --scheduler ADDRESS go together"),
        (
            ["--backend", "dask", "--scheduler", "tcp://host:1", "--workers", "2"],
            "--workers is for --backend local",
        ),
        (["--workers", "0"], "--workers"),
        (["--scale", "huge"], "'smallest', 'reduced', 'full'"),
        (["--backend", "cloud"], "'local', 'dask'"),
    ],
    ids=["no address", "no backend", "workers", "no workers", "scale", "backend"],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    done = invoked("regimes", *options)
    assert done.exit_code == 2
    assert message in done.output


def test_what_is_no_scheduler_is_refused(tmp_path):
    pytest.importorskip("distributed")
    options = ("--backend", "dask", "--scheduler", "nowhere", "--scale", "smallest")
    done = invoked("published-logits", *options, "-o", str(tmp_path / "out"))
    assert done.exit_code == 1
    assert "--scheduler must be the address of a Dask scheduler" in done.output


def test_runs_and_verdicts_are_shown(logged, tmp_path):
    done = logged(",,")
    assert done.exit_code == 0
    folder = tmp_path / "reproduced" / "logged-runs"
    assert "not run at full size" in " ".join(done.stdout.split())
    assert "Smaller than the paper: all of it" in done.stdout
    assert f"{folder.relative_to(tmp_path)}/README.md" in done.stdout
    assert "<b>claim</b>" in done.stdout
    assert done.stderr == ""
    meta = (folder / "meta.json").read_text()
    assert '"command": "focalibrate reproduce logged-runs --scale smallest --data DATA"' in meta
    assert (folder.parent / "trained" / "log").exists()


def test_a_failed_run_is_told_without_a_traceback(logged, tmp_path):
    done = logged(",raises", "-o", "out")
    assert done.exit_code == 1
    assert "1 of 2 runs failed" in done.stderr
    assert "it was asked to" in done.stderr
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 1
    assert not (tmp_path / "out" / "README.md").exists()


def test_without_data_the_next_step_is_told(in_process, monkeypatch, tmp_path):
    monkeypatch.delenv("FOCALIBRATE_DATA", raising=False)
    done = invoked("published-logits", "--workers", "1", "-o", str(tmp_path / "out"))
    assert done.exit_code == 1
    assert "16 of 16 runs failed" in done.stderr
    assert "Give it as --data or in FOCALIBRATE_DATA" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_interrupted_it_says_so_keeps_what_is_done_and_goes_on(
    logged, environment, logged_runs, tmp_path
):
    words = ["reproduce", logged_runs.NAME, "--workers", "2", "--scale", "smallest", "-o", "out"]
    kinds = environment | {logged_runs.KINDS: ",waits,waits,waits"}
    # Where the tests run in the background of a shell, Ctrl-C is ignored from the start.
    heed = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    process = subprocess.Popen(
        [sys.executable, "-c", heed + "runpy.run_module('focalibrate')", *words],
        cwd=tmp_path,
        env=kinds,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        runs = tmp_path / "out" / "runs"
        logged_runs.until(lambda: len(logged_runs.logged(tmp_path / "trained", "begin")[0]) == 3)
        logged_runs.until(lambda: len(list(runs.glob("*.json"))) == 1)
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does
        _, stderr = process.communicate(timeout=900)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1
    assert "Error: interrupted. Finished runs are in out/runs: run the same command" in stderr
    assert "Traceback" not in stderr
    (tmp_path / "trained" / "go").touch()
    logged(",waits,waits,waits", "-o", "out")
    assert logged_runs.logged(tmp_path / "trained", "begin")[0][0] == 1
    assert len(list(runs.glob("*.json"))) == 4


def test_rows_are_judged_again_without_a_run(logged, registered, tmp_path):
    logged(",,", "-o", "out")
    before = (tmp_path / "out" / "rows.csv").read_bytes()
    (tmp_path / "out" / "README.md").unlink()
    done = logged("raises", "-o", "out", "--judge-again")
    assert done.exit_code == 0
    assert (tmp_path / "out" / "README.md").exists()
    assert (tmp_path / "out" / "rows.csv").read_bytes() == before
    other = invoked("regimes", "-o", str(tmp_path / "out"), "--judge-again")
    assert other.exit_code == 2
    assert "holds the experiment 'logged-runs', not 'regimes'" in other.output
    nothing = invoked("regimes", "-o", str(tmp_path / "none"), "--judge-again")
    assert nothing.exit_code == 1
    assert "must be the meta.json of a finished experiment" in nothing.output
