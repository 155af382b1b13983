"""How much memory reading a file may take."""

import os
import re
from pathlib import Path

from focalibrate.io._error import file_error

SHARE = 0.8
"""Part of the machine's memory that reading may use when no limit is given."""

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def default_limit() -> int:
    """Return `SHARE` of the machine's memory in bytes; 8 GB if that is unknown."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 << 30
    return int(SHARE * total)


def parse_size(text: str | int | None) -> int:
    """Return bytes of "500MB", "4G" or a number.

    Example:
        >>> parse_size("2 GB") == 2 << 30
        True
    """
    if text is None:
        return default_limit()
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", str(text).lower(), re.ASCII)
    if not found or len(found[1]) > 20:
        raise ValueError(
            f"`max_memory` must be a size such as '4GB' or 500_000_000, got {text!r}."
        )
    size = int(float(found[1]) * UNITS[found[2]])
    if size < 1:
        raise ValueError(f"`max_memory` must be at least 1 byte, got {text!r}.")
    return size


def check_fits(path: Path, n_bytes: int, limit: int) -> None:
    """Raise where reading would take more than `limit` bytes."""
    if n_bytes > limit:
        raise file_error(
            path,
            f"needs {human(n_bytes)} of memory, but the limit is {human(limit)}. Save the scores "
            "as .npy or .safetensors, which are read as a memory map, or raise the limit.",
            fixes=[{"max_memory": f"{-(-n_bytes * 11 // 10 >> 20)}MB"}]
            if n_bytes < 1 << 50
            else (),
        )


def human(n_bytes: int) -> str:
    """Return a size as readable text.

    Example:
        >>> human(1_500_000_000)
        '1.4 GB'
    """
    size = float(n_bytes)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.0f} PB"
