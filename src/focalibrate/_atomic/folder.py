"""Folders of results that appear whole or not at all."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def claim_folder(out: Path, names: Sequence[str], *, force: bool) -> None:
    """Raise unless files called `names` may be written into `out`: before the work, not after."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: exists and is no folder. Name another with -o.")
    taken = [name for name in names if (out / name).exists()]
    if taken and not force:
        raise ValueError(
            f"{out}: holds {', '.join(taken)} of an earlier run. Pass --force to replace them, or "
            "name another folder with -o."
        )


@contextmanager
def finish_folder(out: Path) -> Iterator[Path]:
    """Yield a folder to write to; on success its files move to `out`, else all is removed."""
    out.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        yield made
        out.mkdir(exist_ok=True)
        for path in sorted(made.iterdir()):
            path.replace(out / path.name)
    finally:
        shutil.rmtree(made, ignore_errors=True)
