"""The results of the experiments, from results/, for the pages about them."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from generated import escaped

from focalibrate_papers.engine import find_experiment
from focalibrate_papers.evidence import MANY_LOOKS, outcome

RESULTS = Path(__file__).parents[1] / "results"
PAPERS = {
    "000": ("regimes", "synthetic-posterior", "psi-gap", "psi-images", "psi-tabular"),
    "002": (
        "published-logits",
        "interpolation",
        "full-cifar",
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


def evidence_files() -> dict[str, bytes]:
    """Return the figures and pages of the experiments, by their place in the site."""
    folders = [RESULTS / name for name in experiments()]
    paths = [path for folder in folders for path in (folder / "figures").glob("*.webp")]
    paths += [folder / "README.md" for folder in folders]
    paths += (RESULTS / "examples").glob("*.svg")
    places = {path: f"results/{path.relative_to(RESULTS).as_posix()}" for path in sorted(paths)}
    return {
        place.replace("README.md", "index.md"): path.read_bytes() for path, place in places.items()
    }


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
    for figure, caption in verdicts["figures"].items():
        yield f"![{figure.replace('-', ' ')}](../results/{name}/figures/{figure}.webp)"
        yield ""
        yield f"*{escaped(caption)}*"
        yield ""
    runs, minutes = len(meta["runs"]), meta["seconds_of_all_runs"] / 60
    besides = ", not counting networks trained before" if find_experiment(name).network else ""
    yield (
        f"[Every claim](../results/{name}/index.md), with the sentence, the rule, coverage "
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
    """Return the outcome by sentence and ground, and the verdicts per experiment."""
    yield MANY_LOOKS
    yield ""
    yield outcome(RESULTS)
    yield ""
    yield "| experiment | source | verdicts |"
    yield "|-|-|-|"
    for name in experiments():
        source = escaped(find_experiment(name).source)
        tally = escaped(read(name, "verdicts.json")["tally"])
        yield f"| [{name}](../results/{name}/index.md) | {source} | {tally} |"


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
