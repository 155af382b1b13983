"""`python -m benchmarks [module ...]`: time each module in a process of its own.

A module's results are written to build/bench/MODULE.json as soon as it ends, with the commit; a
module that fails, such as one whose peer cannot be imported, costs only its own results.
`python -m benchmarks --keep FOLDER` replaces the files in FOLDER by those of the present commit,
with a README.md of all ratios.
"""

import json
import subprocess
import sys
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import packages_distributions, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks._study import markdown, write_json
from benchmarks._timing import Row, machine
from focalibrate.engines import commit

OUTPUT = Path("build", "bench")


def find_modules() -> list[str]:
    """Return the names of the benchmark modules beside this file that time something."""
    here = Path(__file__).parent
    paths = [path for path in here.glob("*.py") if not path.stem.startswith("_")]
    return sorted(path.stem for path in paths if "\ndef run() ->" in path.read_text())


HEAD = ("benchmark", "ours", "peer", "peer's name", "ratio", "aim", "met", "note")


def cells(row: Row) -> tuple[str, ...]:
    """Return a row as text, in the columns of `HEAD`."""
    return (
        row.name,
        f"{row.ours:.3g} {row.unit}",
        f"{row.peer:.3g} {row.unit}",
        row.peer_name,
        f"{row.ratio:.3g}",
        "" if row.bar is None else f"<= {row.bar:.3g}",
        {None: "", True: "yes", False: "NO"}[row.met],
        row.note,
    )


def show(rows: list[Row]) -> None:
    """Print the rows as a table."""
    table = Table(title="focalibrate against its peers (smaller is better; ratio = ours / peer)")
    for heading in HEAD:
        table.add_column(heading, justify="right" if heading in ("ours", "peer") else "left")
    for row in rows:
        table.add_row(*cells(row))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


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
        "machine": machine(),
        "packages": packages_of({module.partition(".")[0] for module in sys.modules}),
        "rows": [{**asdict(row), "met": row.met} for row in rows],
    }
    write_json(OUTPUT / f"{name}.json", written)
    return rows


def keep(folder: Path) -> None:
    """Replace what is in `folder` by the results of the present commit, and write its README."""
    now, parts = commit(), []
    found = {path.name: json.loads(path.read_text()) for path in sorted(OUTPUT.glob("*.json"))}
    kept = {name: record for name, record in found.items() if record.get("commit") == now}
    if not kept or now.endswith("+"):
        sys.exit(f"{OUTPUT} has no results of {now}; commit, then run `python -m benchmarks`")
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json"):
        path.unlink()
    for name, record in kept.items():
        write_json(folder / name, record)
        rows = [Row(**{k: v for k, v in row.items() if k != "met"}) for row in record["rows"]]
        load = record["machine"]["load"][0]
        title = f"## {name.removesuffix('.json')}, at load {load:.1f}"
        parts.append(f"{title}\n\n{markdown(HEAD, map(cells, rows))}")
    where = "{platform}, {cpus} cores, Python {python}".format(**record["machine"])
    (folder / "README.md").write_text(README.format(now=now, where=where) + "\n".join(parts))
    for name in sorted(found.keys() - kept.keys()):
        print(f"left out: {name}, of another commit")


README = """\
# Benchmarks

focalibrate against its peers, measured at commit {now} on {where}. Smaller is better; the ratio is
ours divided by the peer's, its median over rounds that run both. The load is the number of
processes that wanted a core in the minute before: above the number of cores, seconds are too long,
and only ratios can be compared.

```sh
make bench
python -m benchmarks --keep results/benchmarks
```

"""


def main(names: list[str]) -> None:
    """Run the named benchmark modules, or all; exit with 1 if one failed."""
    if names[:1] == ["--keep"] and len(names) == 2:
        keep(Path(names[1]))
        return
    known = find_modules()
    unknown = sorted(set(names) - set(known))
    if unknown:
        sys.exit(f"no benchmark named {', '.join(unknown)}; there are {', '.join(known)}")
    if len(names) == 1:
        show(record(names[0]))
        print(f"written to {OUTPUT / names[0]}.json")
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
