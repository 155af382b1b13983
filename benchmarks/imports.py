"""Time of imports, in fresh processes."""

import subprocess
import sys

from benchmarks._timing import Row, compare, interleave

CODE = {
    "nothing": "pass",
    "scipy.special": "import scipy.special",
    "focalibrate": "import focalibrate",
    "theory, losses, metrics": "from focalibrate import losses, metrics, theory",
}


def run() -> list[Row]:
    """Time imports; the start of Python itself is subtracted from each."""

    def start(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    whole = interleave({k: lambda c=c: start(c) for k, c in CODE.items()}, rounds=11)
    net = {
        name: [a - b for a, b in zip(times, whole["nothing"], strict=True)]
        for name, times in whole.items()
    }
    return [
        compare(f"import {name}", net, ours=name, peer="scipy.special", bar=bar, note=note)
        for name, bar, note in [
            ("focalibrate", 1.5, "fresh process, start of Python subtracted"),
            ("theory, losses, metrics", 1.5, "all three subpackages at once"),
        ]
    ]
