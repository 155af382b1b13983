"""`python -m benchmarks [module ...]`: time each module in a process of its own.

A module's results are written to build/bench/MODULE.json as soon as it ends, with the commit; a
module that fails, such as one whose peer cannot be imported, costs only its own results.
"""

import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import packages_distributions, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks._timing import Row
from focalibrate.engines import commit

OUTPUT = Path("build", "bench")


def find_modules() -> list[str]:
    """Return the names of the benchmark modules beside this file that time something."""
    here = Path(__file__).parent
    paths = [path for path in here.glob("*.py") if not path.stem.startswith("_")]
    return sorted(path.stem for path in paths if "\ndef run() ->" in path.read_text())


def as_table(rows: list[Row]) -> Table:
    """Return the rows as one printable table."""
    table = Table(title="focalibrate against its peers (smaller is better; ratio = ours / peer)")
    for heading in ("benchmark", "ours", "peer", "peer's name", "ratio", "bar", "met", "note"):
        table.add_column(heading, justify="right" if heading in ("ours", "peer") else "left")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.ours:.3g} {row.unit}",
            f"{row.peer:.3g} {row.unit}",
            row.peer_name,
            f"{row.ratio:.3g}",
            "" if row.bar is None else f"<= {row.bar:g}",
            {None: "", True: "yes", False: "NO"}[row.met],
            row.note,
        )
    return table


def packages_of(modules: set[str]) -> dict[str, str]:
    """Return the versions of the packages that brought these modules, and of focalibrate."""
    found = packages_distributions()
    names = {name for module in modules for name in found.get(module, ())}
    return {name: version(name) for name in sorted({"focalibrate", *names})}


def record(name: str) -> list[Row]:
    """Run one module in this process and write what it measured."""
    rows: list[Row] = import_module(f"benchmarks.{name}").run()
    written = {
        "commit": commit(),
        "machine": {
            "platform": platform.platform(),
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
            "load": os.getloadavg(),  # processes that wanted a CPU in the last 1, 5, 15 minutes
        },
        "packages": packages_of({module.partition(".")[0] for module in sys.modules}),
        "rows": [{**asdict(row), "met": row.met} for row in rows],
    }
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / f"{name}.json").write_text(json.dumps(written, indent=1) + "\n")
    return rows


def main(names: list[str]) -> None:
    """Run the named benchmark modules, or all; exit with 1 if one failed."""
    known = find_modules()
    unknown = sorted(set(names) - set(known))
    if unknown:
        sys.exit(f"no benchmark named {', '.join(unknown)}; there are {', '.join(known)}")
    if len(names) == 1:
        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(as_table(record(names[0])))
        console.print(f"written to {OUTPUT / names[0]}.json")
        return
    failed = []
    for name in names or known:
        print(f"running {name} ...", flush=True)
        if subprocess.run([sys.executable, "-m", "benchmarks", name], check=False).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed, see above: {', '.join(failed)}; the others are in {OUTPUT}")


if __name__ == "__main__":
    main(sys.argv[1:])
