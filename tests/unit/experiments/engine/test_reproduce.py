"""From a name to a folder of evidence."""

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focalibrate.experiments.engine.experiment import Row, Rows
from focalibrate.experiments.engine.registry import EXPERIMENTS, find_experiment
from focalibrate.experiments.engine.reproduce import read_rows, reproduce, rows_csv


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


@given(
    st.lists(
        st.builds(
            Row,
            run=st.just("abc"),
            recipe=st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"])),
            seed=st.integers(0, 2**40),
            metric=st.sampled_from(["ece", "a, b", 'a "b"']),
            value=st.floats(),
            at=st.floats(),
        ),
        max_size=8,
    )
)
def test_rows_read_back_as_they_were(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_text(rows_csv(Rows(tuple(rows))), encoding="utf-8", newline="")
    found = read_rows(path)
    assert len(found) == len(rows)
    assert all(map(same, found, rows))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must begin with the columns run, recipe, seed, metric, at, value"),
        ("a,b\n", "must begin with the columns"),
        ("run,recipe,seed,metric,at,value\na,b,1,c,,x\n", "line 2: could not convert"),
        ("run,recipe,seed,metric,at,value\na,b\n", "line 2: not enough values"),
    ],
    ids=["empty", "other columns", "no number", "short line"],
)
def test_what_is_no_file_of_rows_is_refused(tmp_path, text, message):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"rows.csv: {message}"):
        read_rows(path)


def test_the_folder_holds_rows_verdicts_conditions_and_page(made, tmp_path, registered):
    found = made(command="focalibrate reproduce it")
    folder = tmp_path / "out"
    assert sorted(path.name for path in folder.iterdir()) == [
        "figures",
        "meta.json",
        "page.html",
        "rows.csv",
        "runs",
        "tables.md",
        "verdicts.json",
    ]
    assert read_rows(folder / "rows.csv").values("squares", "square").tolist() == [0, 1, 4]
    (line,) = json.loads((folder / "verdicts.json").read_text())["claims"]
    assert line["ours"]["estimate"] == pytest.approx(5 / 3)
    assert line["verdict"] == found.conclusion.results[0].verdict == "not run at full size"
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["command"] == "focalibrate reproduce it"
    assert meta["smaller_than_the_paper"] == "all of it"
    assert sorted(run["number"] for run in meta["runs"].values()) == [0, 1, 2]
    assert "Logged &lt;runs&gt; (T)" in (folder / "page.html").read_text()


def test_a_second_call_repeats_no_run_and_writes_the_same(made, tmp_path, registered):
    made()
    before = (tmp_path / "out" / "rows.csv").read_bytes()
    (tmp_path / "out" / "figures" / "old.svg").touch()
    (tmp_path / "out" / "rows.csv").unlink()
    made()
    assert registered.logged(tmp_path / "trained", "begin")[0].total() == 3
    assert (tmp_path / "out" / "rows.csv").read_bytes() == before
    assert [p.name for p in (tmp_path / "out" / "figures").iterdir()] == ["claims.svg"]


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


def test_there_are_sixteen_names():
    assert len(EXPERIMENTS) == 16


@pytest.mark.parametrize(
    ("name", "near"),
    [("regime", "regimes"), ("psi-table", "psi-tabular"), ("S99", "s99")],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, near):
    with pytest.raises(ValueError, match=rf"no experiment '{name}'. Did you mean '{near}'\?"):
        find_experiment(name)
    with pytest.raises(ValueError, match=r"no experiment 'xyzzy'. There are regimes, "):
        find_experiment("xyzzy")
