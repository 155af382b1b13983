"""What the experiments gave, from results/, for the pages that speak of them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from generated import escaped

from focalibrate.experiments.page import show_interval
from focalibrate.experiments.verdict import Interval

RESULTS = Path(__file__).parents[1] / "results"
MARKS = {
    "reproduced": "✔ reproduced",
    "same direction": "➜ same direction",
    "not reproduced": "✘ not reproduced",
    "not run at full size": "○ not run at full size",
}
MARKER = re.compile(r"^\{\{ (evidence|errata) ([\w-]+) \}\}$", flags=re.MULTILINE)
"""A line of a page that the build replaces."""


def experiments() -> list[str]:
    """Return the experiments that have a folder of evidence."""
    return sorted(path.parent.name for path in RESULTS.glob("*/verdicts.json"))


def evidence_files() -> dict[str, str]:
    """Return the figures and pages of the experiments, by their place in the site."""
    found = {}
    for name in experiments():
        paths = [*sorted((RESULTS / name / "figures").glob("*.svg")), RESULTS / name / "page.html"]
        for path in paths:
            place = f"results/{path.relative_to(RESULTS).as_posix()}"
            found[place] = path.read_text(encoding="utf-8")
    return found


def filled(markdown: str, claims: list[dict[str, str | None]]) -> str:
    """Return a page with its markers replaced by evidence and errata.

    Raises:
        FileNotFoundError: there is no evidence of that name, so that no page speaks of a run
            that was not made.
    """

    def replacement(match: re.Match[str]) -> str:
        kind, name = match.groups()
        lines = _evidence(name) if kind == "evidence" else _errata(name, claims)
        return "\n".join(lines)

    return MARKER.sub(replacement, markdown)


def _evidence(name: str) -> Iterator[str]:
    folder = RESULTS / name
    lines = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    yield "```console"
    yield f"$ {meta['command']}"
    yield "```"
    yield ""
    if meta["smaller_than_the_paper"]:
        yield '!!! note "Smaller than the paper"'
        yield f"    {escaped(meta['smaller_than_the_paper'])}"
        yield ""
    yield "| claim | paper | here | verdict |"
    yield "|-|-|-|-|"
    for line in lines:
        here = escaped(f"{show_interval(Interval(**line['ours']))} {line['unit']}".strip())
        note = f"<br>*{escaped(line['note'])}*" if line["note"] else ""
        cells = (escaped(line["claim"]), escaped(line["paper"]), here + note)
        yield f"| {' | '.join(cells)} | {MARKS[line['standing']]} |"
    yield ""
    for path in sorted((folder / "figures").glob("*.svg")):
        yield f"![{path.stem.replace('-', ' ')}](../results/{name}/figures/{path.name})"
        yield ""
    runs, minutes = len(meta["runs"]), meta["seconds_of_all_runs"] / 60
    yield (
        f"[The whole page](../results/{name}/page.html), with rules and tables; rows in "
        f"`results/{name}/rows.csv`; {runs} run{'s' if runs > 1 else ''}, "
        f"{minutes:.1f} min of one core."
    )


def _errata(paper: str, claims: list[dict[str, str | None]]) -> Iterator[str]:
    mine = [c for c in claims if str(c["id"]).startswith(f"{paper}-")]
    yield "| claim, in our words | | by |"
    yield "|-|-|-|"
    for claim in sorted(mine, key=lambda c: c["verdict"] != "refuted"):
        by = claim["counterexample"] or claim["where"] or ""
        link = f"[{claim['verdict']}](../papers.md#{claim['id']})"
        yield f"| {escaped(str(claim['statement']))} | {link} | {escaped(by)} |"
