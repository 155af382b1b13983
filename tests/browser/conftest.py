"""Node, the front end's packages and Chromium, or a clear reason why not."""

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "frontend"


def _missing(reason: str) -> NoReturn:
    """Skip, or fail if FOCALIBRATE_BROWSER=required."""
    if os.environ.get("FOCALIBRATE_BROWSER") == "required":
        pytest.fail(f"{reason} (and FOCALIBRATE_BROWSER=required)")
    pytest.skip(reason)


@contextmanager
def _one_at_a_time(folder: Path, name: str) -> Iterator[None]:
    with (folder / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run share."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "browser"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def frontend(shared_folder: Path) -> Path:
    """The front end with its packages, installed from the npm registry if they are missing."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        _missing("node and npm are not installed: the page is not tested in a browser")
    with _one_at_a_time(shared_folder, "npm"):
        installed = FRONTEND / "node_modules" / ".package-lock.json"
        locked = FRONTEND / "package-lock.json"
        if not installed.exists() or installed.stat().st_mtime < locked.stat().st_mtime:
            done = subprocess.run(
                ["npm", "ci", "--no-progress"],
                cwd=FRONTEND,
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )
            if done.returncode != 0:
                _missing(f"`npm ci` failed in {FRONTEND}: {done.stderr.strip()[-300:]}")
            installed.touch()
    return FRONTEND


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium."""
    named = os.environ.get("FOCALIBRATE_CHROMIUM")
    found = named or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        _missing("Chromium is not installed: try `apt-get install chromium`")
    return found


@pytest.fixture(scope="session")
def node(frontend: Path, chromium: str):
    """Run a script of the front end and return what it prints."""

    def run(*arguments: str, given: Any = None) -> str:
        done = subprocess.run(
            ["node", *arguments],
            cwd=frontend,
            input=None if given is None else json.dumps(given),
            env=os.environ | {"FOCALIBRATE_CHROMIUM": chromium},
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def seen(node, shared_folder: Path) -> dict[str, dict[str, Any]]:
    """What the browser observed on every page: all are opened in one browser, once per run."""
    path = shared_folder / "seen.json"
    with _one_at_a_time(shared_folder, "browser"):
        if not path.exists():
            # Imported late: pages of training runs need torch.
            from tests.browser.jobs import make_jobs

            jobs = make_jobs(shared_folder)
            found = json.loads(node("browser/run.mjs", given=list(jobs.values())))
            path.write_text(json.dumps(dict(zip(jobs, found, strict=True))))
    result: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return result


@pytest.fixture(scope="session")
def look(seen, shared_folder: Path):
    """Return what a page should show and what the browser observed."""

    def look(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        return json.loads((shared_folder / f"{name}.json").read_text()), seen[name]

    return look
