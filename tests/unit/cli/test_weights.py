"""Weights are importance by default; counts of identical rows if one says so."""

import json

import numpy as np


def test_whole_sampling_weights_do_not_accuse_a_calibrated_model(cli, tmp_path):
    rng = np.random.default_rng(1)
    p = rng.random(400)
    y = (rng.random(400) < p).astype(int)
    w = rng.choice([1, 40], size=400)
    np.savez(tmp_path / "w.npz", probs=np.stack([1 - p, p], 1), labels=y, w=w)
    words = ("evaluate", "w.npz", "--weight-column", "w", "--json")
    plain, copies = (
        json.loads(cli(*words, *more).stdout)["assessment"]
        for more in ((), ("--weights-are", "copies"))
    )
    assert plain["p_value"] > 0.05
    assert copies["p_value"] < plain["p_value"]
