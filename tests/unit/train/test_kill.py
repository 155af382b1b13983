import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

DRIVER = textwrap.dedent(
    """
    import os, random, signal, sys, time
    from pathlib import Path
    import torch
    torch.set_num_threads(1)
    from focalibrate.train import Recipe, train
    from focalibrate.datasets import load

    folder = Path(sys.argv[1])
    data = load("overlap_1d", fraction=0.1)
    recipe = Recipe(
        dataset="overlap_1d", model="mlp", size={"hidden": [16, 16]}, gamma="adafocal",
        optimiser="adam", lr=0.01, epochs=3, batch=50, fraction=0.1, milestones=(0.5,),
    )

    def start(out):
        pid = os.fork()
        if pid == 0:
            try:
                train(recipe, out=out, dataset=data, checkpoint_seconds=0)
                os._exit(0)
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(1)
        return pid

    begin = time.monotonic()
    assert os.waitpid(start(folder / "whole"), 0)[1] == 0
    whole = time.monotonic() - begin
    rng, kills = random.Random(0), 0
    for _ in range(5):
        pid = start(folder / "killed")
        time.sleep(rng.uniform(0.02, min(whole / 4, 1.0)))
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        kills += 1
    assert os.waitpid(start(folder / "killed"), 0)[1] == 0
    print("kills", kills)
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
    assert int(done.stdout.split()[-1]) >= 2
    whole, killed = (
        torch.load(tmp_path / name / "model.pt", weights_only=True) for name in ("whole", "killed")
    )
    for name, weight in whole.items():
        assert weight.numpy().tobytes() == killed[name].numpy().tobytes(), name
    for file in ("dynamics.npz", "val.npz", "test.npz"):
        a, b = (np.load(tmp_path / name / file) for name in ("whole", "killed"))
        assert all(a[key].tobytes() == b[key].tobytes() for key in a.files), file
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == sorted(
        path.name for path in (tmp_path / "whole").iterdir()
    )
