"""The pictures of the report in the documentation.

``python -m tests.browser.screenshot [PAGE.html]`` writes into ``docs/images/`` the verdict and the
methods (``report.png``), the sliders (``report-explore.png``) and the top of the page on a phone
(``report-phone.png``). Without a page, one of a simulated model is made. Needs node, the packages
of ``frontend/`` (``npm ci``) and Chromium.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser.examples import make

ROOT = Path(__file__).parents[2]
PICTURES = {
    "report.png": ("--until", "methods"),
    "report-explore.png": ("--section", "explore"),
    "report-phone.png": ("--phone", "--clip", "844"),
}


def take(page: Path, folder: Path) -> None:
    """Write all pictures of `page` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("FOCALIBRATE_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        raise SystemExit("Chromium is not installed: try `apt-get install chromium`")
    for name, options in PICTURES.items():
        subprocess.run(
            ["node", "browser/screenshot.mjs", str(page.resolve()), str(folder / name), *options],
            cwd=ROOT / "frontend",
            env=os.environ | {"FOCALIBRATE_CHROMIUM": chromium},
            check=True,
        )
        print(folder / name)


def main() -> None:
    """Take pictures of the page named on the command line, or of an example."""
    folder = ROOT / "docs" / "images"
    if len(sys.argv) > 1:
        take(Path(sys.argv[1]), folder)
        return
    with tempfile.TemporaryDirectory() as made:
        make("k10", Path(made))
        take(Path(made) / "k10.html", folder)


if __name__ == "__main__":
    main()
