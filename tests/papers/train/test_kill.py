import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

DRIVER = textwrap.dedent(
    """
    import os, random, signal, sys
    from pathlib import Path
    import torch
    import torch._dynamo  # the first optimiser imports it: not in each of the processes
    torch.set_num_threads(1)
    from focalibrate_papers.train import Recipe, train
    from focalibrate_papers.datasets import load

    folder = Path(sys.argv[1])
    data = load("overlap_1d", fraction=0.05)
    recipe = Recipe(
        dataset="overlap_1d", model="mlp", size={"hidden": [16, 16]}, gamma="adafocal",
        optimiser="adam", lr=0.01, epochs=2, batch=50, fraction=0.05, milestones=(0.5,),
    )

    def start(out, last=None):
        "Train in a process that dies at the `last` call of a function."
        pid = os.fork()
        if pid == 0:
            calls = 0

            def count(frame, event, argument):
                nonlocal calls
                calls += 1
                if calls == last:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.setprofile(count)
            try:
                train(recipe, out=out, dataset=data, checkpoint_seconds=0)
                sys.setprofile(None)
                (folder / "calls").write_text(str(calls))
                os._exit(0)
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(1)
        return pid

    assert os.waitpid(start(folder / "whole"), 0)[1] == 0
    whole = int((folder / "calls").read_text())
    rng = random.Random(0)
    for share in (0.1, 0.3, 0.3):
        pid = start(folder / "killed", last=int(whole * rng.uniform(0.5, 1.5) * share))
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    assert os.waitpid(start(folder / "killed"), 0)[1] == 0
    """
)


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_with_the_same_bits(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    whole, killed = (
        torch.load(tmp_path / name / "model.pt", weights_only=True) for name in ("whole", "killed")
    )
    for name, weight in whole.items():
        assert weight.numpy().tobytes() == killed[name].numpy().tobytes(), name
    for file in ("dynamics.npz", "val.npz", "test.npz"):
        with np.load(tmp_path / "whole" / file) as a, np.load(tmp_path / "killed" / file) as b:
            assert all(a[key].tobytes() == b[key].tobytes() for key in a.files), file
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == sorted(
        path.name for path in (tmp_path / "whole").iterdir()
    )
