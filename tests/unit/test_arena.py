"""The arena: a folder of experiments and CalArena's layout, run, killed, resumed and
summarised."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import _arena_summary, arena
from benchmarks._arena_summary import read_results, summarise, win
from benchmarks.calarena_calibrators import CUSTOM_CALIBRATORS

METHODS = ["temperature", "focal_temperature", "identity", "structured_matrix"]


def scores(n_classes, n, seed):
    rng = np.random.default_rng(seed)
    truth = 2.0 * rng.standard_normal((n, n_classes))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return (2.5 * truth).astype(np.float32), labels


@pytest.fixture
def folder(tmp_path):
    source = tmp_path / "source"
    (source / "tables").mkdir(parents=True)
    experiments = []
    for table, n_classes in (("two", 2), ("also_two", 2), ("three", 3)):
        arrays = {}
        for part, seed in (("cal", 0), ("test", 1)):
            z, labels = scores(n_classes, 120, seed + 10 * n_classes)
            arrays |= {f"net__{part}_scores": z, f"{part}_labels": labels}
        np.savez(source / "tables" / f"{table}.npz", **arrays)
        experiments.append(
            {
                "benchmark": "tables",
                "table": table,
                "model": "net",
                "kind": "logits",
                "K": n_classes,
                "n_cal": 120,
                "n_test": 120,
                "file": f"tables/{table}.npz",
            }
        )
    (source / "manifest.json").write_text(json.dumps({"experiments": experiments}))
    with (source / "peers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["table", "model", "method", "logloss", "brier", "seconds"])
        for e in experiments:
            writer.writerow([e["table"], "net", "Base-model", 3.0, 1.0, 0.0])
            writer.writerow([e["table"], "net", "Isotonic", 4.0, 1.0, 0.0])
    return source


def lines(out):
    return (out / "results.csv").read_text().splitlines()


@pytest.mark.slow
def test_a_folder_end_to_end(folder, tmp_path):
    out = tmp_path / "out"
    arena.main([str(folder), "--out", str(out), "--methods", *METHODS])
    assert len(lines(out)) == 1 + 3 * len(METHODS)
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary) == {"two classes", "many classes"}
    ours = summary["two classes"]["focalibrate temperature"]
    assert ours["win_logloss"] == [1.0, 1.0, 1.0]
    assert ours["gain_logloss"][0] > 0
    assert ours["n"] == 2
    assert "| Isotonic |" in (out / "table.md").read_text()
    assert "100 %" in (out / "binned.md").read_text()
    assert "| all | 3 |" in (out / "gamma.md").read_text()
    assert (out / "gamma.svg").exists()


def test_a_killed_run_goes_on_where_it_stopped(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_arena_summary, "draw_gamma", lambda *_: None)  # takes a second
    out = tmp_path / "out"
    arena.main([str(folder), "--out", str(out), "--methods", *METHODS])
    whole = lines(out)
    # killed while it wrote the third experiment's second line
    torn = "\n".join(whole[: 1 + 2 * len(METHODS) + 1]) + "\n" + whole[-1][:20]
    (out / "results.csv").write_text(torn)
    capsys.readouterr()
    arena.main([str(folder), "--out", str(out), "--methods", *METHODS])
    assert "1/1 three net" in capsys.readouterr().out

    def without_seconds(rows):
        return sorted(row.split(",")[:10] for row in rows)

    assert without_seconds(lines(out)) == without_seconds(whole)
    arena.main([str(folder), "--out", str(out), "--methods", *METHODS])
    assert len(lines(out)) == len(whole)


def test_calarena_layout(tmp_path):
    h5py = pytest.importorskip("h5py")
    path, out = tmp_path / "cv-multiclass.h5", tmp_path / "out"
    z, labels = scores(3, 200, 0)
    probs = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    binary, two = scores(2, 200, 1)
    with h5py.File(path, "w") as file:
        for table, p, y in (
            ("cifar", probs, labels),
            ("binary", 1 / (1 + np.exp(binary[:, 0] - binary[:, 1])), two),
        ):
            group = file.create_group(f"{table}/net")
            for part, some in (("cal", slice(100)), ("test", slice(100, None))):
                group[f"probas_{part}"], group[f"labels_{part}"] = p[some], y[some]
    arena.main([str(path), "--out", str(out), "--methods", "identity", "temperature"])
    found = read_results(out / "results.csv")
    for key in (("cifar", "net"), ("binary", "net")):
        assert found[key]["temperature"]["logloss"] < found[key]["identity"]["logloss"]
    assert set(json.loads((out / "summary.json").read_text())) == {"two classes", "many classes"}


def test_calibrators_for_its_runner():
    z, labels = scores(3, 200, 0)
    probs = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    for name in ("focalibrate-auto", "focalibrate-structured_matrix"):
        calibrator = CUSTOM_CALIBRATORS[name]()
        calibrator.fit(probs, labels)
        np.testing.assert_allclose(calibrator.predict_proba(probs).sum(axis=1), 1.0, atol=1e-6)


def test_wins_and_intervals_by_table():
    assert [win(1.0, 2.0), win(2.0, 1.0), win(1.0, 1.0), win(np.inf, np.inf)] == [1, 0, 0.5, 0.5]
    keys = [("a", "m"), ("a", "n"), ("b", "m")]
    value = {"logloss": 0.5, "brier": 0.5, "seconds": 0.0}
    raw = {"logloss": 1.0, "brier": 1.0, "seconds": 0.0}
    peers = {k: {"Base-model": raw, "TS": raw} for k in keys}
    peers[keys[2]]["TS"] = {"logloss": 0.1, "brier": 0.1, "seconds": 0.0}
    found = summarise(keys, {k: {"x": value} for k in keys}, peers)["focalibrate x"]
    assert found["win_logloss"] == [pytest.approx(5 / 6), 0.5, 1.0]
    assert found["gain_logloss"][0] == pytest.approx(0.5)
    assert found["worse_than_model"][0] == 0.0
