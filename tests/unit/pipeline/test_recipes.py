"""The recipes for other engines in "At scale" run as written, where the engine is installed."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.metrics import Sketch

pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
PAGE = Path(__file__).parents[3] / "docs" / "howto" / "at-scale.md"


def recipe(word):
    found = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    (text,) = (block for block in found if word in block)
    return text


def check(text, predictions):
    names = {}
    exec(text, names)
    assert names["sketch"].n == 600
    assert_allclose(names["sketch"].top.sums, predictions.top.sums, rtol=1e-12)
    assert names["sketch"].n == predictions.n


@pytest.fixture
def predictions(tmp_path, monkeypatch):
    """Parquet parts in ``preds``, and the sketch of all rows."""
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
@pytest.mark.filterwarnings("ignore")  # Ray and Spark warn of their own deprecated settings
@pytest.mark.parametrize(("package", "word"), [("ray", "import ray"), ("pyspark", "pyspark")])
def test_a_recipe_gives_the_sketch_of_all_rows(predictions, package, word, monkeypatch):
    pytest.importorskip(package)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # else the python3 of the machine
    check(recipe(word), predictions)


class RayRows:
    """What the recipe uses of ray.data, one batch per part."""

    def __init__(self, folder):
        self.batches = [pq.read_table(path) for path in sorted(Path(folder).iterdir())]

    def map_batches(self, function, *, batch_size):
        self.found = [
            function({name: batch[name].to_numpy() for name in batch.column_names})
            for batch in self.batches
        ]
        return self

    def iter_rows(self):
        return ({"sketch": value} for found in self.found for value in found["sketch"])


class SparkRows(RayRows):
    """What the recipe uses of pyspark, with a partition without rows, as filters leave them."""

    def mapInPandas(self, function, schema):  # noqa: N802
        frames = [batch.to_pandas() for batch in self.batches]
        partitions = [frames[:2], [frames[0][:0]], [], frames[2:]]
        self.found = [made for part in partitions for made in function(iter(part))]
        return self

    def collect(self):
        cells = [cell for frame in self.found for cell in frame["sketch"]]
        return [SimpleNamespace(sketch=bytearray(cell)) for cell in cells]


@pytest.mark.parametrize("word", ["import ray", "pyspark"])
def test_a_recipe_does_the_same_with_a_stand_in_for_the_engine(predictions, word, monkeypatch):
    session = SimpleNamespace(read=SimpleNamespace(parquet=SparkRows))
    builder = SimpleNamespace(getOrCreate=lambda: session)
    ray = SimpleNamespace(data=SimpleNamespace(read_parquet=RayRows))
    spark = SimpleNamespace(SparkSession=SimpleNamespace(builder=builder))
    for name, module in {"ray": ray, "pyspark": spark, "pyspark.sql": spark}.items():
        monkeypatch.setitem(sys.modules, name, module)
    check(recipe(word), predictions)
