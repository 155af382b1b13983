"""Which results of benchmarks are kept, and how."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import __main__ as benchmarks
from benchmarks._timing import Row, machine

ROW = Row(name="a|b", ours=1.0, peer_name="peer", peer=2.0, ratio=0.5, bar=1.0)


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Results of two modules, one of the present commit."""
    monkeypatch.setattr(benchmarks, "OUTPUT", tmp_path / "bench")
    monkeypatch.setattr(benchmarks, "commit", lambda: "now")
    (tmp_path / "bench").mkdir()
    for name, commit in (("new", "now"), ("old", "before")):
        record = {"commit": commit, "machine": machine(), "rows": [asdict(ROW) | {"met": True}]}
        (tmp_path / "bench" / f"{name}.json").write_text(json.dumps(record))
    return tmp_path


def test_only_what_the_present_code_gave_is_kept(measured):
    kept = measured / "kept"
    kept.mkdir()
    (kept / "gone.json").write_text("{}")
    benchmarks.keep(kept)
    assert sorted(path.name for path in kept.iterdir()) == ["README.md", "new.json"]
    page = (kept / "README.md").read_text()
    assert "at commit now on" in page
    assert "| a\\|b | 1 s | 2 s | peer | 0.5 | <= 1 | yes |  |" in page


def test_changed_code_has_no_results(measured, monkeypatch):
    monkeypatch.setattr(benchmarks, "commit", lambda: "now+")
    with pytest.raises(SystemExit, match="has no results of now"):
        benchmarks.keep(measured / "kept")
