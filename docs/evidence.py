"""The results of the experiments, from results/, for the pages about them."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from generated import escaped

from focalibrate.experiments.engine.registry import find_experiment

RESULTS = Path(__file__).parents[1] / "results"
IN_SIGHT = 12
"""A picture of more claims than these is folded away."""
PAPERS = {
    "000": ("regimes", "synthetic-posterior", "psi-gap", "psi-images", "psi-tabular"),
    "002": (
        "published-logits",
        "interpolation",
        "focal-calibration",
        "sst",
        "dynamics",
        "s99",
        "linear",
    ),
    "003": ("temperature-relation", "focal-temperature"),
    "004": ("curvature", "curvature-regularised"),
}
"""The experiments of each paper, in the order of its page."""
ERRATA = ("false", "slip", "digit")
MARKER = re.compile(r"^\{\{ (evidence|errata|findings|tallies) ([\w-]+) \}\}$", flags=re.MULTILINE)
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
    for path in sorted((RESULTS / "examples").glob("*.svg")):
        found[f"results/examples/{path.name}"] = path.read_text(encoding="utf-8")
    return found


def filled(markdown: str, claims: list[dict[str, str | None]]) -> str:
    """Return a page with its markers replaced by evidence and errata.

    Raises:
        FileNotFoundError: there is no evidence of that name, so that no page describes a run
            that was not made.
    """
    fill: dict[str, Callable[[str], Iterator[str]]] = {
        "evidence": _evidence,
        "errata": lambda paper: _errata(paper, claims),
        "findings": _findings,
        "tallies": lambda _: _tallies(),
    }
    return MARKER.sub(lambda m: "\n".join(fill[m[1]](m[2])), markdown)


def read(name: str, file: str) -> Any:
    """Return a JSON file of an experiment's folder."""
    return json.loads((RESULTS / name / file).read_text(encoding="utf-8"))


def _evidence(name: str) -> Iterator[str]:
    verdicts, meta = read(name, "verdicts.json"), read(name, "meta.json")
    yield f"**{escaped(verdicts['finding'])}**"
    yield ""
    yield escaped(verdicts["tally"])
    yield ""
    if meta["smaller_than_the_paper"]:
        yield '??? note "Smaller than the paper"'
        yield f"    {escaped(meta['smaller_than_the_paper'])}"
        yield ""
    if find_experiment(name).changed_rules:
        yield '??? note "Rules and results: which came first"'
        yield f"    {escaped(find_experiment(name).changed_rules)}"
        yield ""
    many = len(verdicts["claims"]) > IN_SIGHT
    indent = "    " if many else ""
    if many:
        yield f'??? abstract "All {len(verdicts["claims"])} claims as a picture"'
    yield f"{indent}![One line per claim](../results/{name}/figures/claims.svg)"
    yield ""
    for figure, caption in verdicts["figures"].items():
        yield f"![{figure.replace('-', ' ')}](../results/{name}/figures/{figure}.svg)"
        yield ""
        yield f"*{escaped(caption)}*"
        yield ""
    runs, minutes = len(meta["runs"]), meta["seconds_of_all_runs"] / 60
    besides = ", not counting networks trained before" if find_experiment(name).network else ""
    yield (
        f"[The whole page](../results/{name}/page.html): the paper's sentences, rules, coverage "
        f"and tables. Rows in `results/{name}/rows.csv`; {runs} run{'s' if runs > 1 else ''}, "
        f"{minutes:.1f} minutes of one core{besides}. Made by `{meta['command']}`."
    )


def _findings(paper: str) -> Iterator[str]:
    """Return a row for each experiment of a paper that has evidence."""
    yield "| experiment | finding | verdicts |"
    yield "|-|-|-|"
    for name in PAPERS[paper]:
        if name in experiments():
            found = read(name, "verdicts.json")
            title = escaped(find_experiment(name).title)
            yield f"| {title} | {escaped(found['finding'])} | {escaped(found['tally'])} |"


def _tallies() -> Iterator[str]:
    """Return how often each verdict was given, per experiment."""
    yield "| experiment | source | verdicts |"
    yield "|-|-|-|"
    for name in experiments():
        source = escaped(find_experiment(name).source)
        tally = escaped(read(name, "verdicts.json")["tally"])
        yield f"| [{name}](../results/{name}/page.html) | {source} | {tally} |"


def _capital(text: str) -> str:
    """Return a text that begins with a capital letter, without a full stop; γ=1 stays γ=1."""
    is_word = text[0].isascii() and (text[1].isalpha() or text[1] == " ")
    return (text[0].upper() if is_word else text[0]) + text[1:].rstrip(".")


def _errata(paper: str, claims: list[dict[str, str | None]]) -> Iterator[str]:
    mine = [c for c in claims if str(c["id"]).startswith(f"{paper}-")]
    wrong = [c for grade in ERRATA for c in mine if c["verdict"] == grade]
    if wrong:
        yield "| grade | the paper's sentence | what we found |"
        yield "|-|-|-|"
        for claim in wrong:
            link = f"[{claim['verdict']}](../papers.md#{claim['id']})"
            texts = (claim[name] for name in ("counterexample", "evidence", "scan"))
            by = " ".join(f"{_capital(text)}." for text in texts if text)
            yield f"| {link} | {escaped(str(claim['sentence']))} | {escaped(by)} |"
        yield ""
    right = [f"[{c['id']}](../papers.md#{c['id']})" for c in mine if c["verdict"] not in ERRATA]
    if right:
        more = "more " if wrong else ""
        which = f"{len(right)} {more}claims hold" if len(right) > 1 else f"One {more}claim holds"
        yield f"{which} in all cases that we tried: {', '.join(right)}."
