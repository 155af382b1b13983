"""The page of an experiment: one HTML file, without scripts and requests."""

import html
import math
from collections.abc import Iterator, Mapping
from typing import Any

from focalibrate.experiments.experiment import Conclusion, Experiment, Scale, Table
from focalibrate.experiments.verdict import Interval, Line

_MARKS = {
    "reproduced": "good",
    "same direction": "fair",
    "not reproduced": "bad",
    "not run at full size": "open",
}
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
.wide { overflow-x: auto; } .wide + .wide, p + .wide { margin-top: 2rem; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--rule); text-align: left;
  vertical-align: top; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { color: var(--good); } .fair { color: var(--fair); } .bad { color: var(--bad); }
.open { color: var(--open); } .standing { font-weight: 600; }
.smaller { border-left: 4px solid var(--fair); padding: .2rem 1rem; }
figure { margin: 1.5rem 0; } figure .wide { background: #fff; border-radius: 6px; }
figure svg { max-width: 100%; height: auto; }
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
    """Return the page: what was asked, the verdicts, tables and figures, and how it was made."""
    title = f"{experiment.title} ({experiment.spec})"
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
            f"<p>{_text(experiment.protocol)}</p>",
            *_smaller(experiment.smaller[scale]),
            "<h2>Verdicts</h2>",
            *_verdicts(found.lines),
            *(part for chart in found.charts for part in _figure(chart, figures[chart.name])),
            *(part for table in found.tables for part in _table(table)),
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


def _verdicts(lines: tuple[Line, ...]) -> Iterator[str]:
    yield '<div class="wide" tabindex="0" role="region" aria-label="Verdicts"><table><thead><tr>'
    yield from (f'<th scope="col">{h}</th>' for h in ("claim", "paper", "here", "verdict", "rule"))
    yield "</tr></thead><tbody>"
    for line in lines:
        here = f"{show_interval(line.ours)} {line.unit}".strip()
        note = f'<br><span class="note">{_text(line.note)}</span>' if line.note else ""
        mark = _MARKS[line.standing]
        yield (
            f"<tr><td>{_text(line.claim)}</td><td>{_text(line.paper)}</td>"
            f"<td>{_text(here)}{note}</td>"
            f'<td class="standing {mark}">{line.standing}</td><td>{_text(line.rule)}</td></tr>'
        )
    yield "</tbody></table></div>"


def show_interval(interval: Interval) -> str:
    """Return a number with its interval, to four digits; without one where it is exact.

    Example:
        >>> show_interval(Interval(1.23456, 1.0, 1.5)), show_interval(Interval.exact(2.0))
        ('1.235 [1, 1.5]', '2')
    """
    text = f"{interval.estimate:.4g}"
    if interval.low == interval.high or not math.isfinite(interval.low):
        return text
    return f"{text} [{interval.low:.4g}, {interval.high:.4g}]"


def _figure(chart: Any, svg: str) -> Iterator[str]:
    drawing = svg[svg.index("<svg") :]
    label = html.escape(chart.caption, quote=True)
    drawing = drawing.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    yield f'<figure id="{_text(chart.name)}"><div class="wide">{drawing}</div>'
    yield f"<figcaption>{_text(chart.caption)}</figcaption></figure>"


def _table(table: Table) -> Iterator[str]:
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{_text(table.title)}">'
    yield f"<table><caption>{_text(table.title)}</caption><thead><tr>"
    yield from (f'<th scope="col">{_text(h)}</th>' for h in table.head)
    yield "</tr></thead><tbody>"
    for row in table.body:
        cells = (f"<td{_kind(cell)}>{_text(cell)}</td>" for cell in row)
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    if table.note:
        yield f'<p class="note">{_text(table.note)}</p>'


def _kind(cell: str) -> str:
    return ' class="number"' if cell[:1].isdigit() or cell[:1] in "-−+" else ""


def _made(meta: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>How this was made</h2>"
    if meta["command"]:
        yield f"<pre>{_text(meta['command'])}</pre>"
    yield "<dl>"
    spent = f"{meta['seconds_of_all_runs']:g} s in {len(meta['runs'])} runs, {meta['machine']}"
    shown = ", ".join(f"{name} {number}" for name, number in meta["versions"].items())
    for name, value in (("Scale", meta["scale"]), ("Spent", spent), ("Versions", shown)):
        yield f"<dt>{name}</dt><dd>{_text(value)}</dd>"
    yield "</dl>"
    yield '<p class="note">Every number is in rows.csv beside this page, one a line.</p>'
