"""One self-contained page of the arena: win rates, and a scatter of any two methods."""

import json
from html import escape
from typing import Any

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Calibration arena</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
svg{width:100%;height:auto}text{font:11px system-ui}select{font:inherit}h2{margin-top:2rem}
.ours{fill:#c2410c;stroke:#c2410c}.peer{fill:#475569;stroke:#475569}</style>
<h1>Calibration arena</h1>
<p>Share of the other methods that a method beats by test log loss, with 95 % intervals from
resampling tables: methods whose intervals overlap may be equals.</p>
FIGURES
<h2>Any two methods</h2>
<p>Test log loss of <select id="x"></select> (across) and <select id="y"></select> (up), one point
per experiment; below the line the second is better. <span id="count"></span></p>
<svg id="scatter" viewBox="0 0 640 480" role="img" aria-label="scatter of two methods"></svg>
<script>
const data = DATA;
const [x, y] = ["x", "y"].map(id => document.getElementById(id));
const names = [...new Set(data.flatMap(e => Object.keys(e.logloss)))].sort();
for (const select of [x, y]) for (const name of names) select.add(new Option(name));
x.value = names.includes("SMS") ? "SMS" : names[0];
y.value = names.includes("focalibrate auto") ? "focalibrate auto" : names[names.length - 1];
function draw() {
  const points = data.filter(e => e.logloss[x.value] > 0 && e.logloss[y.value] > 0);
  const all = points.flatMap(e => [e.logloss[x.value], e.logloss[y.value]]).map(Math.log10);
  const low = Math.min(...all), high = Math.max(...all), span = high - low || 1;
  const at = (v, size, flip) => flip ? size - 40 - (Math.log10(v) - low) / span * (size - 60)
    : 50 + (Math.log10(v) - low) / span * (size - 70);
  const ends = [10 ** low, 10 ** high];
  let svg = `<line x1="${at(ends[0], 640)}" y1="${at(ends[0], 480, 1)}" x2="${at(ends[1], 640)}"
    y2="${at(ends[1], 480, 1)}" stroke="#94a3b8"/>`;
  for (const v of ends) svg += `<text x="${at(v, 640)}" y="470">${v.toPrecision(2)}</text>
    <text x="4" y="${at(v, 480, 1)}">${v.toPrecision(2)}</text>`;
  for (const e of points) svg += `<circle class="ours" fill-opacity=".5" r="4"
    cx="${at(e.logloss[x.value], 640)}" cy="${at(e.logloss[y.value], 480, 1)}"
    ><title>${e.name}</title></circle>`;
  document.getElementById("scatter").innerHTML = svg;
  const wins = points.filter(e => e.logloss[y.value] < e.logloss[x.value]).length;
  document.getElementById("count").textContent =
    `${y.value} is better in ${wins} of ${points.length}.`;
}
x.onchange = y.onchange = draw;
draw();
</script></html>
"""


def page(
    summary: dict[str, dict[str, dict[str, Any]]],
    listed: dict[tuple[str, str], dict[str, Any]],
    ours: dict[tuple[str, str], dict[str, dict[str, float]]],
    peers: dict[tuple[str, str], dict[str, dict[str, float]]],
) -> str:
    """Return the page as HTML."""
    data = []
    for key in listed:
        if key not in ours:
            continue
        losses = {f"focalibrate {n}": v["logloss"] for n, v in ours[key].items()}
        losses |= {n: v["logloss"] for n, v in peers.get(key, {}).items()}
        finite = {n: float(f"{v:.6g}") for n, v in losses.items() if v < float("inf")}
        data.append({"name": " ".join(key), "logloss": finite})
    figures = "".join(_figure(group, rows) for group, rows in summary.items())
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return PAGE.replace("FIGURES", figures).replace("DATA", text)


def _figure(group: str, rows: dict[str, dict[str, Any]]) -> str:
    """Return win rates with their intervals, best first."""
    height = 18 * len(rows) + 30
    parts = []
    for i, (name, row) in enumerate(rows.items()):
        mean, low, high = (220 + 400 * v for v in row["win_logloss"])
        y, kind = 14 + 18 * i, "ours" if name.startswith("focalibrate") else "peer"
        parts.append(
            f'<text x="210" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
            f'<line class="{kind}" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>'
            f'<circle class="{kind}" cx="{mean:.1f}" cy="{y}" r="4"/>'
        )
    for v in (0.0, 0.5, 1.0):
        parts.append(f'<text x="{220 + 400 * v:.0f}" y="{height - 4}">{v:g}</text>')
    n = next(iter(rows.values()))["n"]
    return (
        f"<h2>{escape(group)}: {n} experiments</h2>"
        f'<svg viewBox="0 0 640 {height}" role="img" aria-label="win rates">{"".join(parts)}</svg>'
    )
