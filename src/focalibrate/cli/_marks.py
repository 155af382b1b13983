"""Which calibrator wrote a file: a mark beside it, so that it is not calibrated twice."""

import hashlib
import json
from pathlib import Path
from typing import Any

from focalibrate._atomic import atomic_path, json_text
from focalibrate.io import MANIFEST, Scan

CHUNK = 1 << 20


def mark_of(path: Path) -> Path:
    """Return the name of a file's mark.

    Example:
        >>> mark_of(Path("out", "new.csv")).as_posix()
        'out/.new.csv.calibrated.json'
    """
    return path.with_name(f".{path.name}.calibrated.json")


def write_mark(path: Path, content: Path, calibrator: str) -> None:
    """Mark a file as calibrated, before it appears.

    Args:
        path: the file that is written.
        content: where its bytes are until then.
        calibrator: what was applied, in words.
    """
    with atomic_path(mark_of(path), force=True) as made:
        text = json_text({"sha256": _sha256(content), "calibrator": calibrator})
        made.write_text(text, encoding="utf-8")


def calibrated_by(scan: Scan) -> str | None:
    """Return what `apply` has applied to predictions already, in words; None: nothing is known."""
    path = Path(scan.parts[0].name)
    listed = _read(path.parent / MANIFEST).get("names")
    if isinstance(listed, list) and path.name in listed:
        return "a calibrator"
    if len(scan.parts) > 1:
        return None
    marks = [mark_of(path), *path.parent.glob(mark_of(Path("*")).name)]  # it may be a copy
    for record in map(_read, marks):
        if "calibrator" in record and record.get("sha256") == scan.checksum():
            return str(record["calibrator"])
    return None


def _read(path: Path) -> dict[str, Any]:
    """Return what a mark or a list of parts holds; nothing where it is absent or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()
