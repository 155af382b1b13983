"""The picture of the report in the README.

``python -m tests.browser.screenshot [PAGE.html]`` writes ``docs/images/report.png``, the top of
the page. Without a page, that of the README's first command is made. Needs node, the packages of
``frontend/`` (``npm ci``) and Chromium.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.churn import write_churn

from focalibrate import calibrate_predictions

ROOT = Path(__file__).parents[2]
PICTURES = {"report.png": ("--clip", "1000")}


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
        shrink(folder / name)
        print(folder / name)


def shrink(path: Path) -> None:
    """Keep 256 colours of a picture: a page has few, and the file is a third as large."""
    from PIL import Image

    few = Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def main() -> None:
    """Take pictures of the page named on the command line, or of the README's example."""
    folder = ROOT / "docs" / "images"
    if len(sys.argv) > 1:
        take(Path(sys.argv[1]), folder)
        return
    with tempfile.TemporaryDirectory() as made:
        write_churn(Path(made) / "churn.csv")
        calibrate_predictions(Path(made) / "churn.csv").save(Path(made) / "report")
        take(Path(made) / "report" / "report.html", folder)


if __name__ == "__main__":
    main()
