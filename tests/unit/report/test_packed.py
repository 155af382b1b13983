import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from focalibrate.calibrate.focal_rows import focal_rows
from focalibrate.report.rows import (
    IMPOSSIBLE_CODE,
    MAX_ENTRIES,
    PILOT,
    Entries,
    companded,
    pack,
    pack_rows,
    plan_entries,
)


def unpack(packed):
    """Read the output of `pack` by its specification, without using its code."""
    n, columns = packed["shape"]
    dtype = np.dtype(packed["dtype"]).newbyteorder("<")
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), dtype=np.uint8)
    flat = planes.reshape(dtype.itemsize, -1).T.copy().view(dtype)
    table = flat.reshape(columns, n).T
    return np.cumsum(table, axis=1, dtype=dtype) if packed["delta"] else table


@given(
    n=st.integers(1, 20), columns=st.integers(1, 5), delta=st.booleans(), seed=st.integers(0, 99)
)
def test_packing_loses_nothing(n, columns, delta, seed):
    table = np.random.default_rng(seed).integers(65536, size=(n, columns)).astype(np.uint16)
    assert (unpack(pack(table, delta=delta)) == table).all()


def test_floats_survive():
    values = np.array([0.0, 1.5, -2e30], dtype=np.float32)
    assert unpack(pack(values))[:, 0].tolist() == values.tolist()


@given(top=st.floats(0.5, 200.0), n_codes=st.sampled_from([4096, 65535]))
def test_codes_keep_values_within_the_bound_stated(top, n_codes):
    values = np.linspace(0.0, top, 300)
    codes = companded(values, top=top, n_codes=n_codes)
    assert codes.max() == n_codes - 1
    back = np.expm1(codes * np.log1p(top) / (n_codes - 1))
    bound = (1 + values) * np.log1p(top) / (2 * n_codes - 2)
    assert (np.abs(back - values) <= 1.01 * bound + 1e-9).all()


def test_nothing_but_zeros_has_a_code():
    assert companded(np.zeros(3), top=0.0, n_codes=10).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("n", "k"), [(50, 3), (20_000, 10), (40, 200)])
def test_rows_on_the_page_give_the_confidence_of_the_logits(n, k):
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(n, k))
    logits[0, 2] = -np.inf
    labels = logits.argmax(axis=1)
    packed = pack_rows(logits, labels)
    gaps = unpack(packed["gaps"]).astype(np.float64)
    if packed["gaps"]["dtype"] == "uint16":
        is_impossible = gaps == IMPOSSIBLE_CODE
        gaps = np.expm1(gaps * np.log1p(packed["max_gap"]) / (IMPOSSIBLE_CODE - 1))
        gaps[is_impossible] = np.inf
    weights = np.ones_like(gaps)
    if packed["weights"] is not None:
        codes = unpack(packed["weights"]).astype(np.float64)
        values = np.expm1(codes * np.log1p(packed["max_weight"]) / (packed["weight_codes"] - 1))
        weights[:, -codes.shape[1] :] = values
    confidence = 1.0 / (weights * np.exp(-gaps)).sum(axis=1)
    want = focal_rows(logits, labels).confidence(gamma=0.0, temperature=1.0)
    assert np.abs(confidence - want).max() < (1e-6 if n * k < 1000 else 5e-4)
    assert np.abs(confidence - want).mean() < 5e-5


def class_entries(before, after, labels):
    n, floor = plan_entries(before[:PILOT], after[:PILOT], n=len(labels))
    entries = Entries(np.arange(n), before.shape[1], floor)
    entries.add(0, before, after, labels)
    return entries.record()


def test_classes_keep_every_row_in_entries_or_rest():
    rng = np.random.default_rng(0)
    before, after = (rng.dirichlet(np.full(30, 0.1), size=300) for _ in range(2))
    labels = rng.integers(30, size=300)
    found = class_entries(before, after, labels)
    counts, hits, rest = (unpack(found[k])[:, 0] for k in ("counts", "hits", "rest_hits"))
    assert (hits + rest == np.bincount(labels, minlength=30)).all()
    total = np.zeros(30)
    p = unpack(found["before"])[:, 0] / 65535
    np.add.at(total, np.repeat(np.arange(30), counts), p)
    total += unpack(found["rest_before"])[:, 0]
    np.testing.assert_allclose(total, before.sum(axis=0), atol=300 / 65535)


@pytest.mark.parametrize("k", [2, 5])
def test_few_classes_keep_whole_rows(k):
    rng = np.random.default_rng(0)
    before, after = (rng.dirichlet(np.ones(k), size=50) for _ in range(2))
    labels = rng.integers(k, size=50)
    found = class_entries(before, after, labels)
    assert (unpack(found["labels"])[:, 0] == labels).all()
    want = after[:, 1:] if k == 2 else after
    np.testing.assert_allclose(unpack(found["after"]) / 65535, want, atol=1e-5)


def test_blocks_give_what_all_rows_give():
    rng = np.random.default_rng(0)
    before, after = (rng.dirichlet(np.full(30, 0.1), size=300) for _ in range(2))
    labels = rng.integers(30, size=300)
    rows = np.sort(rng.permutation(300)[:200])
    blocks = Entries(rows, 30, 0.01)
    for start in range(0, 300, 70):
        part = slice(start, start + 70)
        blocks.add(start, before[part], after[part], labels[part])
    whole = Entries(rows, 30, 0.01)
    whole.add(0, before, after, labels)
    assert blocks.record() == whole.record()


@pytest.mark.parametrize(
    ("sharpness", "n", "want"), [(0.01, 9000, (9000, 0.002)), (50.0, 50_000, (20_000, 0.04))]
)
def test_as_many_entries_as_a_page_can_hold(sharpness, n, want):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(1000, sharpness / 1000), size=200)
    rows, floor = plan_entries(probs, probs, n=n)
    per_row = (probs > floor).sum() / 200
    assert rows * per_row <= MAX_ENTRIES
    assert floor <= want[1]
    assert rows <= want[0]


def test_a_flat_model_is_cut_by_rows():
    probs = np.full((400, 20), 0.05)
    assert plan_entries(probs, probs, n=20_000) == (MAX_ENTRIES // 20, 0.04)
