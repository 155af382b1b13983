"""Our calibrators against the log losses of the packages they are named after.

``python -m benchmarks.references`` wrote them; the packages themselves are not needed here.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import fit

TABLE = json.loads(Path(__file__).with_name("references.json").read_text(encoding="utf-8"))
TOLERANCE = 1e-4
LEAST = float(np.log(np.finfo(np.float32).tiny))  # what a probability of 0 counts as


def log_loss(found, logits, labels):
    true = np.asarray(found.log_probs(logits))[np.arange(len(labels)), labels]
    return -np.maximum(true, LEAST).mean()


def log_probs(logits):
    return logits - np.logaddexp.reduce(logits, axis=1)[:, None]


def case_id(record):
    return f"{record['data']}-{record['method']}-{record['package']}"


@pytest.mark.parametrize("record", TABLE["records"], ids=case_id)
def test_the_log_loss_is_that_of_the_reference_or_the_difference_is_stated(record):
    data = TABLE["data"][record["data"]]
    cal, test = (log_probs(np.array(data[part])) for part in ("cal", "test"))
    labels, test_labels = np.array(data["cal_labels"]), np.array(data["test_labels"])
    # The packages fit by maximum likelihood: labels are not smoothed.
    options = {"pseudo_count": 0.0} if record["method"] in ("platt", "quadratic", "beta") else {}
    found = fit(cal, labels, method=record["method"], **options)
    ours = [log_loss(found, cal, labels), log_loss(found, test, test_labels)]
    if record["note"]:  # a stated difference: no worse on the rows fitted on, or on new ones
        assert (np.subtract(ours, record["theirs"]) <= TOLERANCE).any()
    else:
        assert_allclose(ours, record["theirs"], rtol=0, atol=TOLERANCE)


def test_every_package_is_named_with_its_version():
    assert {r["package"] for r in TABLE["records"]} == set(TABLE["versions"])
    assert {"probmetrics", "betacal", "venn-abers", "netcal"} <= set(TABLE["versions"])
