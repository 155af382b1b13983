"""The pytest fixture `calibration_check`; loaded by pytest where focalibrate is installed.

Importing this file imports nothing else of focalibrate, so that pytest starts as fast as before.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from focalibrate.pipeline import GateResult


@pytest.fixture
def calibration_check() -> "Callable[..., GateResult]":
    """Return a function that fails the test where predictions do not keep their limits.

    It takes the arguments of `focalibrate.check_predictions`, and ``allow_undetermined=True`` to
    let a test pass where there are not enough data to tell. It returns the `GateResult`.

    Example::

        def test_calibration(calibration_check):
            calibration_check(probs=probs, labels=labels, max_ece=0.05)
    """

    def check(*arguments: Any, allow_undetermined: bool = False, **settings: Any) -> "GateResult":
        from focalibrate.pipeline import check_predictions

        __tracebackhide__ = True
        found = check_predictions(*arguments, **settings)
        if found.status == "fail" or (found.status == "undetermined" and not allow_undetermined):
            lines = [f"{c.label}: {c.message}" for c in found.checks if c.status != "pass"]
            pytest.fail("\n".join([found.summary, *lines]), pytrace=False)
        return found

    return check
