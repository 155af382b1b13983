"""Work on parts that logs its start and can be made to wait, for worker processes."""

import os
import sys
import time
from pathlib import Path

from focalibrate.engines import LocalProcesses
from focalibrate.pipeline import sketch_predictions
from focalibrate.pipeline.applying import apply_part
from focalibrate.pipeline.sample import draw_chunk, judge_chunk
from focalibrate.pipeline.sketching import sketch_part

WORK = {work.__name__: work for work in (sketch_part, apply_part, draw_chunk, judge_chunk)}


def logged_part(name, chunk, *rest):
    """Work on a part; the last two wait for the file `go`, once for each worker's life."""
    at = chunk.pieces[0]
    log = Path(at.name).parents[1] / "log"
    log.mkdir(exist_ok=True)
    (log / f"begin-{at.part}-{os.getpid()}-{time.monotonic_ns()}").touch()
    if (log / f"kill-{at.part}").exists():
        os.kill(os.getpid(), 9)
    while at.part >= 2 and not (log / "go").exists():
        time.sleep(0.02)
    return WORK[name](chunk, *rest)


class Logged:
    """A backend that works on parts by `logged_part`."""

    def __init__(self, backend):
        self.backend = backend

    def map(self, function, arguments):
        return self.backend.map(logged_part, [(function.__name__, *args) for args in arguments])


def wait_until(is_so, seconds=600):
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def begun(folder):
    """Return how often each part was begun, and the last process that began each."""
    counts, pids = {}, {}
    for path in sorted((folder / "log").glob("begin-*"), key=lambda p: p.stat().st_mtime_ns):
        _, part, pid, _ = path.name.split("-")
        counts[int(part)] = counts.get(int(part), 0) + 1
        pids[int(part)] = int(pid)
    return counts, pids


if __name__ == "__main__":
    here = Path(sys.argv[1])
    where = Logged(LocalProcesses(2))
    sketch_predictions(here / "preds", folder=here / "kept", backend=where)
