import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture
def cli(tmp_path):
    """Run the installed command in an empty directory."""

    def run(*arguments, ok=True, env=None):
        done = subprocess.run(
            [sys.executable, "-m", "focalibrate", *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env=env,
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
