"""The page of an experiment: one HTML file without scripts or network requests."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from focalibrate.experiments.engine.experiment import (
    Conclusion,
    Covered,
    Experiment,
    Scale,
    Table,
)
from focalibrate.experiments.engine.forest import CAPTION, forest_svg, show_interval
from focalibrate.experiments.engine.verdict import ClaimResult, Verdict, tally

_MARKS: dict[Verdict, str] = {
    "reproduced": "good",
    "supported": "good",
    "same direction": "fair",
    "undecided": "open",
    "not run at full size": "open",
    "opposite direction": "bad",
    "not reproduced": "bad",
    "not supported": "bad",
}
_NUMBER = re.compile(r"(?=.*\d)[-−+±\d.,e%\[\]() /]+")
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --faint: #5c5f66;
  --rule: #d8dae0; --good: #00684a; --fair: #0b5fa5; --bad: #a6341b; --open: #5c5f66; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ec; --paper: #16171b;
  --faint: #a9adb8; --rule: #3a3d45; --good: #4fc79a; --fair: #6db5f2; --bad: #f28b6f;
  --open: #a9adb8; } }
body { margin: 0 auto; padding: 1.5rem; max-width: 70rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; }
h1 { margin: 0; line-height: 1.2; } h2 { margin-top: 2.5rem; }
p { max-width: 48rem; } .source, figcaption, .note, dt { color: var(--faint); }
.finding { font-size: 1.15rem; font-weight: 600; } .tally { font-weight: 600; }
.wide { overflow-x: auto; } .wide + .wide, p + .wide { margin-top: 2rem; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--rule); text-align: left;
  vertical-align: top; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { color: var(--good); } .fair { color: var(--fair); } .bad { color: var(--bad); }
.open { color: var(--open); } .verdict { font-weight: 600; }
.smaller { border-left: 4px solid var(--fair); padding: .2rem 1rem; }
figure { margin: 1.5rem 0; } figure .wide { background: #fff; border-radius: 6px; }
figure svg { max-width: 100%; height: auto; } #claims svg { min-width: 52rem; }
summary { cursor: pointer; font-weight: 600; margin: 1.5rem 0 .5rem; }
code, pre { font: .85rem ui-monospace, monospace; } pre { overflow-x: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dd { margin: 0; }
"""


def render_page(
    experiment: Experiment,
    scale: Scale,
    found: Conclusion,
    figures: Mapping[str, str],
    meta: Mapping[str, Any],
) -> str:
    """Return the page: finding, tally, claims as a picture, figures, tables (collapsed)."""
    title = f"{experiment.title} ({experiment.code})"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{_text(title)}</h1>",
            f'<p class="source">{_text(experiment.source)}</p>',
            *([f'<p class="finding">{_text(found.finding)}</p>'] if found.finding else []),
            f'<p class="tally">{_text(tally(found.results))}</p>',
            *_smaller(experiment.smaller[scale]),
            *_figure("claims", CAPTION, forest_svg(found.results)),
            *(p for c in found.charts for p in _figure(c.name, c.caption, figures[c.name])),
            "<h2>How it was done</h2>",
            f"<p>{_text(experiment.protocol)}</p>",
            *([f"<p>{_text(experiment.changed_rules)}</p>"] if experiment.changed_rules else []),
            *_coverage(experiment.coverage.get(scale, ())),
            *_folded("Every claim, with the paper's words and the rule", _verdicts(found.results)),
            *(part for t in found.tables for part in _folded(t.title, _table(t))),
            *_made(meta),
            "</main></body></html>",
            "",
        ]
    )


def _text(text: str) -> str:
    return html.escape(text)


def _smaller(text: str) -> Iterator[str]:
    if text:
        yield f'<p class="smaller"><strong>Smaller than the paper.</strong> {_text(text)}</p>'


def _folded(title: str, parts: Iterator[str]) -> Iterator[str]:
    yield f"<details><summary>{_text(title)}</summary>"
    yield from parts
    yield "</details>"


def _coverage(covered: Sequence[Covered]) -> Iterator[str]:
    if covered:
        body = tuple((c.part, c.paper, c.here) for c in covered)
        yield from _table(Table("Coverage", ("", "in the paper", "here"), body), is_text=True)


def _verdicts(results: Sequence[ClaimResult]) -> Iterator[str]:
    yield '<div class="wide" tabindex="0" role="region" aria-label="Claims"><table><thead><tr>'
    yield from (f'<th scope="col">{h}</th>' for h in ("claim", "paper", "here", "verdict", "rule"))
    yield "</tr></thead><tbody>"
    for result in results:
        here = f"{show_interval(result.ours)} {result.unit}".strip()
        note = f'<br><span class="note">{_text(result.note)}</span>' if result.note else ""
        whose = "" if result.is_papers else " (our own question, not the paper's)"
        yield (
            f"<tr><td>{_text(result.claim)}{whose}</td><td>{_text(result.paper_value)}</td>"
            f"<td>{_text(here)}{note}</td>"
            f'<td class="verdict {_MARKS[result.verdict]}">{result.shown}</td>'
            f"<td>{_text(result.rule)}</td></tr>"
        )
    yield "</tbody></table></div>"


def _figure(name: str, caption: str, svg: str) -> Iterator[str]:
    drawing = svg[svg.index("<svg") :]
    label = html.escape(caption, quote=True)
    drawing = drawing.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    yield f'<figure id="{_text(name)}"><div class="wide">{drawing}</div>'
    yield f"<figcaption>{_text(caption)}</figcaption></figure>"


def _table(table: Table, *, is_text: bool = False) -> Iterator[str]:
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{_text(table.title)}">'
    yield f"<table><caption>{_text(table.title)}</caption><thead><tr>"
    yield from (f'<th scope="col">{_text(h)}</th>' for h in table.head)
    yield "</tr></thead><tbody>"
    for row in table.body:
        cells = (f"<td{'' if is_text else _kind(cell)}>{_text(cell)}</td>" for cell in row)
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    if table.note:
        yield f'<p class="note">{_text(table.note)}</p>'


def _kind(cell: str) -> str:
    """Return the CSS class of a cell: one that holds only numbers and signs is right-aligned."""
    return ' class="number"' if _NUMBER.fullmatch(cell) else ""


def _made(meta: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>How this page was made</h2>"
    if meta["command"]:
        yield f"<pre>{_text(meta['command'])}</pre>"
    yield "<dl>"
    spent = f"{meta['seconds_of_all_runs']:g} s in {len(meta['runs'])} runs, {meta['machine']}"
    shown = ", ".join(f"{name} {number}" for name, number in meta["versions"].items())
    if meta.get("runs_left_out"):
        spent += f"; {meta['runs_left_out']} more are planned, whose networks are not trained yet"
    facts = {"Scale": meta["scale"], "Time": spent, "Versions": shown}
    if meta.get("commit"):
        facts["Commit of the runs"] = meta["commit"]
    if meta.get("judged_by"):
        facts["Commit of the rules"] = meta["judged_by"]
    for name, value in facts.items():
        yield f"<dt>{name}</dt><dd>{_text(value)}</dd>"
    yield "</dl>"
    yield '<p class="note">Every number is in rows.csv beside this page, one per line.</p>'
