import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from focalibrate.cli import main


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """Run the command in an empty folder: in this process, or with `env` in a separate one."""

    def run(*arguments, ok=True, env=None, stdin=None):
        words = [str(a) for a in arguments]
        if env is None:
            monkeypatch.chdir(tmp_path)
            monkeypatch.setattr(sys, "argv", ["focalibrate", *words])
            found = CliRunner().invoke(main, words, prog_name="focalibrate", input=stdin)
            if found.exception is not None and not isinstance(found.exception, SystemExit):
                raise found.exception
            done = SimpleNamespace(
                returncode=found.exit_code, stdout=found.stdout, stderr=found.stderr
            )
        else:
            done = subprocess.run(
                [sys.executable, "-m", "focalibrate", *words],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                env=env,
                input=stdin,
            )
        if ok:
            assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.fixture
def examples():
    """Overconfident logits of 400 examples in 3 classes."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(400, 3)) * 2
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return SimpleNamespace(logits=(3 * truth).astype(np.float32), labels=labels)


@pytest.fixture
def val(tmp_path, examples):
    """The same as val.npz."""
    path = tmp_path / "val.npz"
    np.savez(path, logits=examples.logits, labels=examples.labels)
    return path
