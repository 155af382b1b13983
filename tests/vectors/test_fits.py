"""Every fit against what it found before: `make_fits.py` wrote the table."""

import json

import pytest
from numpy.testing import assert_allclose
from tests.vectors.make_fits import PATH, data_sets, found_by, names_for, sigmoid_fits

TABLE = json.loads(PATH.read_text(encoding="utf-8"))
DATA = data_sets()

# A log loss at its minimum is flat: a search that ends within 1e-11 of it has parameters to
# about 1e-5, and rows likewise. Temperatures, grids and tables are found to the last digits.
PARAMETERS = {
    "focal temperature": 1e-4,  # a long, narrow valley of gamma against T
    "focal structured vector": 1e-4,  # follows it
    "vector": 1e-4,
    "structured vector": 1e-5,
    "structured matrix": 1e-5,
    "dirichlet": 1e-5,
    "ensemble temperature": 1e-5,
    "platt": 1e-6,
    "quadratic": 1e-6,
    "beta": 1e-6,
    "spline": 1e-5,
}
LOSS = {
    "focal structured vector": 1e-8,  # its base is anywhere in the same flat valley
    "temperature, focal": 1e-8,  # the log loss is not what was minimised
}


@pytest.mark.parametrize(
    ("title", "name"), [(title, name) for title in DATA for name in names_for(DATA[title])]
)
def test_a_fit_finds_what_it_found_before(title, name):
    want, got = TABLE[title][name], found_by(name, DATA[title])
    assert_allclose(
        got["nll"], want["nll"], rtol=LOSS.get(name, 1e-8 if "float32" in title else 1e-9)
    )
    tolerance = PARAMETERS.get(name, 2e-6 if "float32" in title else 1e-8)
    assert_allclose(got["log_probs"], want["log_probs"], rtol=tolerance, atol=tolerance)
    if "parameters" in want:
        assert_allclose(got["parameters"], want["parameters"], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", TABLE["sigmoid heads"])
def test_a_fit_of_a_sigmoid_head_finds_what_it_found_before(name):
    assert_allclose(sigmoid_fits()[name], TABLE["sigmoid heads"][name], rtol=1e-6, atol=1e-7)
