"""The recipes for other engines in "At scale" run as written, where the engine is installed."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.metrics import Sketch

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "at-scale.md"


def recipe(word):
    found = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    (text,) = (block for block in found if word in block)
    return text


@pytest.fixture
def predictions(tmp_path, monkeypatch):
    """Parquet parts in ``preds``, and the sketch of all rows."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(600, 3)), rng.integers(3, size=600)
    (tmp_path / "preds").mkdir()
    for i in range(3):
        rows = slice(200 * i, 200 * (i + 1))
        columns = {f"logit_{n}": logits[rows, j] for j, n in enumerate(("cat", "dog", "ox"))}
        table = pa.table({**columns, "label": labels[rows]})
        pq.write_table(table, tmp_path / "preds" / f"part-{i}.parquet")
    monkeypatch.chdir(tmp_path)
    return Sketch.of(logits=logits, labels=labels)


@pytest.mark.slow
@pytest.mark.parametrize(("package", "word"), [("ray", "import ray"), ("pyspark", "pyspark")])
def test_a_recipe_gives_the_sketch_of_all_rows(predictions, package, word, monkeypatch):
    pytest.importorskip(package)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # else the python3 of the machine
    names = {}
    exec(recipe(word), names)
    assert names["sketch"].n == 600
    assert_allclose(names["sketch"].top, predictions.top, rtol=1e-12)
    assert_allclose(names["sketch"].scores, predictions.scores, rtol=1e-12)


def test_the_recipes_are_python():
    for word in ("import ray", "pyspark"):
        compile(recipe(word), word, "exec")
