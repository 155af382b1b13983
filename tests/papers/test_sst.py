"""SST by paper 002's own protocol."""

import pytest

from focalibrate_papers.engine import Row, Rows, Task
from focalibrate_papers.p002 import sst


def made(errors, ece):
    """Return rows of CE and FL-3 over seeds, with an error each and an ECE by loss."""
    return Rows(
        tuple(
            Row(Task.of("sst", problem="sst_binary", loss=loss, seed=seed), metric, value)
            for loss, middle in ece.items()
            for seed, error in enumerate(errors)
            for metric, value in {
                "error %": error,
                "ECE %": middle + 0.1 * seed,
                "ECE % after T": 2.0 + 0.1 * seed,
                "T": 1.5,
                "|ln T|": 0.4,
                "train error %": 1.0,
            }.items()
        )
    )


CLAIM = "SST, 25 epochs: FL-3 has a higher ECE before T than CE"  # as the paper's table has it


@pytest.mark.parametrize(("error", "verdict"), [(13.0, "reproduced"), (15.2, "same direction")])
def test_networks_that_err_more_than_the_paper_s_cover_nothing(error, verdict):
    rows = made([error - 0.1, error, error + 0.1], {"ce": 7.0, "fl3": 16.0})
    found = {line.claim: line for line in sst.EXPERIMENT.conclude(rows, "full").results}
    assert found[CLAIM].verdict == verdict
    number = found["SST, 25 epochs: ECE of FL-3 before T"]
    assert number.verdict == ("reproduced" if error < 14 else "not run at full size")


def test_one_seed_decides_nothing():
    found = sst.EXPERIMENT.conclude(made([15.0], {"ce": 7.0, "fl3": 16.0}), "full")
    line = next(line for line in found.results if line.claim == CLAIM)
    assert line.verdict == "undecided"
    assert "from 2 of the 50 networks" in found.finding
    table = found.tables[-1]
    assert ("FL-3", "0", "1 of 5") in table.body
    assert ("MMCE", "none", "0 of 5") in table.body
