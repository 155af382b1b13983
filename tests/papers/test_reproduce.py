"""From a name to a folder of evidence."""

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focalibrate_papers import engine
from focalibrate_papers.engine import Row, Rows, Task, find_experiment
from focalibrate_papers.evidence import read_rows, reproduce, rows_csv


@pytest.fixture
def made(registered, serial, tmp_path, monkeypatch):
    """Runs the experiment of three logged runs, as often as called."""
    monkeypatch.setenv(registered.KINDS, ",,")

    def run(**options):
        given = {"out": tmp_path / "out", "scale": "smallest", "backend": serial}
        return reproduce(registered.NAME, **(given | options))

    return run


def same(one, other):
    """Whether two rows are equal, nan being nan."""
    return one == other or repr(one) == repr(other)


TASKS = (
    Task.of("logged-runs", number=1, kind="a"),
    Task.of("logged-runs", number=1, kind="with, comma", share=1.0, taus=(0.0, 1e-4)),
    Task.of("logged-runs", number=2, kind="b", share=1, is_small=False),
)


@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from(TASKS),
            st.sampled_from(["ece", "a, b", 'a "b"']),
            st.floats(allow_infinity=False),
        ),
        st.floats(),
        max_size=8,
    )
)
def test_rows_read_back_as_they_were(registered_once, tmp_path_factory, numbers):
    rows = [Row(task, metric, value, at) for (task, metric, at), value in numbers.items()]
    rows = list({(row.task, row.metric, repr(row.at)): row for row in rows}.values())
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    text = rows_csv(Rows(tuple(rows)))
    path.write_text(text, encoding="utf-8", newline="")
    found = read_rows(path, "logged-runs")
    assert sorted(map(repr, found)) == sorted(map(repr, rows))


@pytest.fixture(scope="module")
def registered_once(logged_runs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "EXPERIMENTS", engine.EXPERIMENTS)
        logged_runs.register()
        yield


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have the column 'at'"),
        ("a,b\n", "must have the column 'at'"),
        ("number,at,ece\n1,,x\n", "line 2: could not convert"),
        ("number,at,ece\n1,,0.5,1\n", "line 2: 4 cells, where there are 3 columns"),
    ],
    ids=["empty", "other columns", "no number", "short line"],
)
def test_what_is_no_file_of_rows_is_refused(registered, tmp_path, text, message):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"rows.csv: {message}"):
        read_rows(path, registered.NAME)


def test_the_folder_holds_rows_verdicts_conditions_and_page(made, tmp_path, registered):
    found = made()
    folder = tmp_path / "out"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "figures",
        "meta.json",
        "rows.csv",
        "runs",
        "verdicts.json",
    ]
    rows = read_rows(folder / "rows.csv", registered.NAME)
    assert [row.value for row in rows if row.metric == "square"] == [0, 1, 4]
    (line,) = json.loads((folder / "verdicts.json").read_text())["claims"]
    assert line["ours"]["estimate"] == pytest.approx(5 / 3)
    assert line["verdict"] == found.conclusion.results[0].verdict == "not run at full size"
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["command"] == "focalibrate reproduce logged-runs --scale smallest --data DATA"
    assert meta["smaller_than_the_paper"] == "all of it"
    assert set(meta["runs"]) == {row.task.key for row in found.rows}
    text = (folder / "README.md").read_text()
    assert text.startswith("# Logged <runs>\n")
    assert "| not run at full size | &lt;b>claim&lt;/b> | 1.667 [" in text
    assert "**Smaller than the paper.** all of it" in text
    assert "| a\\|b | c |" in text


def test_a_second_call_repeats_no_run_and_writes_the_same(made, tmp_path, registered):
    made()
    before = (tmp_path / "out" / "rows.csv").read_bytes()
    (tmp_path / "out" / "figures" / "old.svg").touch()
    (tmp_path / "out" / "rows.csv").unlink()
    made()
    assert registered.logged(tmp_path / "trained", "begin")[0].total() == 3
    assert (tmp_path / "out" / "rows.csv").read_bytes() == before
    assert list((tmp_path / "out" / "figures").iterdir()) == []


def test_runs_get_whole_paths(made, tmp_path, registered, monkeypatch):
    seen = []
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOCALIBRATE_DATA", "data")

    class Looking:
        def map(self, function, arguments):
            seen.extend(arguments)
            return ((i, function(*given)) for i, given in enumerate(arguments))

    made(out="out", trained="trained", backend=Looking())
    (_, folder, folders), *_ = seen
    assert folder == tmp_path / "out" / "runs"
    assert (folders.data, folders.trained) == (tmp_path / "data", tmp_path / "trained")


def test_committed_rows_count_as_finished_runs(made, tmp_path, registered):
    first = made()
    shutil.rmtree(tmp_path / "out" / "runs")
    committed = {path.name: path.read_text() for path in (tmp_path / "out").glob("*.*")}
    again = made(keep_rows=True)
    assert registered.logged(tmp_path / "trained", "begin")[0].total() == 3  # none again
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 3
    assert all(map(same, again.rows, first.rows))
    assert (tmp_path / "out" / "rows.csv").read_text() == committed["rows.csv"]
    runs = [json.loads(text)["runs"] for text in (
        committed["meta.json"], (tmp_path / "out" / "meta.json").read_text()
    )]  # fmt: skip
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("name", "near"),
    [("regime", "regimes"), ("psi-table", "psi-tabular"), ("S99", "s99")],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, near):
    with pytest.raises(ValueError, match=rf"no experiment '{name}'. Did you mean '{near}'\?"):
        find_experiment(name)
    with pytest.raises(ValueError, match=r"no experiment 'xyzzy'. There are regimes, "):
        find_experiment("xyzzy")
