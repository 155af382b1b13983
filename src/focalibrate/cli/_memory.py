"""Keep freed memory for reuse instead of returning it to the system."""

import sys

REUSED = 2**25
"""Arrays of up to this many bytes come from memory that is kept; the most that glibc allows."""
KEPT = 2**26
"""Free bytes that are not given back."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


def reuse_memory() -> None:
    """Let glibc keep freed arrays: fresh pages took a quarter of `evaluate`'s processor time.

    By default glibc maps an array of more than 128 kB again each time, and the system fills its
    pages with zeros. Elsewhere this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, REUSED)
        mallopt(M_TRIM_THRESHOLD, KEPT)
        mallopt(M_ARENA_MAX, 1)
