import json

import pytest
from click.testing import CliRunner

from focalibrate.cli import main


def run(*arguments):
    return CliRunner().invoke(main, [str(word) for word in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small network, trained once for all tests here."""
    out = tmp_path_factory.mktemp("curvature") / "run"
    size = ("--set", "size.hidden=[4]", "--set", "epochs=1")
    done = run("train", "e2-fl1", "--scale", "0.02", *size, "-o", out)
    assert done.exit_code == 0, done.output
    return out


@pytest.mark.slow
def test_numbers_come_with_their_errors(folder):
    found = run("curvature", folder, "--vectors", "4", "--json")
    record = json.loads(found.stdout)
    assert record["size"] == 23
    assert record["lambda_min"]["value"] < record["lambda_max"]["value"]
    assert record["lambda_max"]["converged"]
    assert record["trace"]["standard_error"] >= 0.0  # 0 where the trace is exact
    assert record["trace"]["method"]
    assert run("curvature", folder, "--vectors", "4", "--json").stdout == found.stdout


def test_a_table_and_a_spectrum_for_people(folder):
    done = run("curvature", folder, "--vectors", "4", "--on", "train", "--max-examples", "20")
    text = " ".join(done.stdout.split())  # a long path breaks the title
    assert "Hessian of the train loss" in text
    assert "largest eigenvalue" in text
    assert "Spectrum" in text


def test_an_unfinished_run_is_refused(tmp_path):
    done = run("curvature", tmp_path)
    assert done.exit_code == 1
    assert "holds no recipe.toml" in done.output
