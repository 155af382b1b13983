"""How long a run took."""

import json

import pytest

from focalibrate_papers.train import Recipe, loop, train

RECIPE = Recipe(dataset="made", model="linear", epochs=3, batch=100, lr=0.01)


class InterruptedRunError(Exception):
    pass


class Clock:
    """A simulated clock: every training step takes ten seconds."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def tick(self, tick):
        self.now += 10.0


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    return clock


def test_it_is_in_the_folder_and_a_finished_run_keeps_it(tmp_path, table, clock):
    run = train(RECIPE, out=tmp_path, dataset=table, progress=clock.tick)
    ticks = 3 * (9 + 1)  # of the batches of 900 examples, and of the look after each epoch
    assert run.seconds == 10.0 * ticks
    assert json.loads((tmp_path / "time.json").read_text()) == {"seconds": 10.0 * ticks}
    clock.now += 1e6
    again = train(RECIPE, out=tmp_path, dataset=table, progress=clock.tick)
    assert again.seconds == run.seconds


@pytest.mark.slow
def test_stretches_add_up_and_work_undone_is_not_counted(tmp_path, table, clock):
    def interrupt(tick):
        clock.tick(tick)
        if (tick.epoch, tick.step) == (1, 4):
            clock.now += 500.0  # nothing of this reaches a checkpoint
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train(RECIPE, out=tmp_path, dataset=table, checkpoint_seconds=10.0, progress=interrupt)
    clock.now += 1e6  # while nothing runs
    run = train(RECIPE, out=tmp_path, dataset=table, progress=clock.tick)
    # The last checkpoint was written before the clock's tick of the step it holds.
    assert 10.0 * (3 * 10 - 1) <= run.seconds <= 10.0 * 3 * 10
