"""A few mutated files of every format, the same every time; `python -m fuzz.files` reads more."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from fuzz.files import one_file, outcome
from fuzz.seeds import SEEDS

NEEDS = {"parquet": "pyarrow", "feather": "pyarrow", "pt": "torch", "xlsx": "openpyxl"}


SLOW = [pytest.param("pt", marks=pytest.mark.slow)]  # importing torch


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*(n for n in SEEDS if n != "pt"), *SLOW])
def test_mutated_files_end_in_our_own_error_or_are_read(tmp_path, name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    for number in range(12):
        path, options = one_file(name, number, seed=1, folder=tmp_path)
        found = outcome(path, number, options)
        assert found.kind in ("read", "refused"), found


@pytest.mark.parametrize("name", [n for n in SEEDS if not n.startswith("calibrator")])
def test_every_seed_is_read(tmp_path, name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    suffix, make = SEEDS[name]
    path = tmp_path / f"file{suffix}"
    path.write_bytes(make())
    options = {} if name != "npy" else {"input": "logits"}
    assert outcome(path, 0, options).kind == "read"
