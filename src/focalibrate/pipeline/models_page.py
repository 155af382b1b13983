"""A page that compares models: tables and pictures, without a script."""

from html import escape

import numpy as np

from focalibrate.metrics import ReliabilityTable
from focalibrate.pipeline.evaluation import Evaluation, ModelComparison

N_BINS = 15
SIZE = 220
"""Width and height of a diagram in pixels."""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #8884; }}
th:first-child {{ text-align: left; }}
.models {{ display: flex; flex-wrap: wrap; gap: 2rem; }}
figure {{ margin: 0; width: 16rem; }}
figcaption {{ font-size: .9rem; }}
svg {{ background: #8881; }}
.best {{ font-weight: bold; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p><b>{verdict}</b></p>
<table>
<thead><tr><th>model</th><th>log loss</th><th>difference to the best [95 % interval]</th>
<th>p-value</th><th>Brier score</th><th>RMS calibration error [95 % interval]</th><th>ECE</th>
<th>error</th></tr></thead>
<tbody>{rows}</tbody>
</table>
<p>Differences in log loss are paired by example, positive where a model is worse than the best;
p-values are corrected for the number of models (Holm). The Brier score is summed over classes.
An ECE is only meaningful beside what a calibrated model would show, so it is not compared between
models.</p>
<h2>Reliability</h2>
<p>Bars: accuracy of the predictions in each bin of confidence. Dots: their mean confidence. In a
calibrated model they agree up to noise.</p>
<div class="models">{figures}</div>
<p><small>{command}</small></p>
</body>
</html>
"""


def models_page(found: ModelComparison, *, command: str = "") -> str:
    """Return the comparison as one HTML page, complete in itself.

    Args:
        found: what `compare_models` returned.
        command: how it was made, shown at the end.
    """
    names = ", ".join(model.name for model in found.models)
    return _PAGE.format(
        title=escape(f"Models compared: {names}"),
        verdict=escape(found.verdict),
        rows="".join(_row(found, model) for model in found.models),
        figures="".join(_figure(model) for model in found.models),
        command=escape(command),
    )


def _row(found: ModelComparison, model: Evaluation) -> str:
    difference = next((d for d in found.differences if d.name == model.name), None)
    gap, p_value = "best", ""
    if difference is not None:
        score = difference.scores["nll"]
        gap = f"{score.estimate:+.4f} [{score.low:+.4f}, {score.high:+.4f}]"
        p_value = f"{difference.p_value:.3f}" if difference.p_value >= 0.001 else "&lt; .001"
    rms, scores = model.assessment.rms, model.scores
    cells = (
        f"{scores['nll'].estimate:.4f}",
        gap,
        p_value,
        f"{scores['brier'].estimate:.4f}",
        f"{rms.estimate:.2%} [{rms.low:.2%}, {rms.high:.2%}]",
        f"{scores['ece'].estimate:.2%}",
        f"{scores['error'].estimate:.2%}",
    )
    kind = ' class="best"' if difference is None else ""
    text = "".join(f"<td>{cell}</td>" for cell in cells)
    return f"<tr{kind}><th>{escape(model.name)}</th>{text}</tr>"


def _figure(model: Evaluation) -> str:
    rows = model.row_scores
    table = ReliabilityTable.of_confidence(rows.confidence, rows.correct, n_bins=N_BINS)
    width = SIZE / N_BINS
    bars, dots = [], []
    for b in np.flatnonzero(table.count):
        height = SIZE * table.accuracy[b]
        bars.append(
            f'<rect x="{b * width + 1:.1f}" y="{SIZE - height:.1f}" width="{width - 2:.1f}" '
            f'height="{height:.1f}" fill="#4477aa" opacity="0.7"/>'
        )
        at = SIZE * table.confidence[b]
        dots.append(f'<circle cx="{at:.1f}" cy="{SIZE - at:.1f}" r="3" fill="#ee6677"/>')
    line = f'<line x1="0" y1="{SIZE}" x2="{SIZE}" y2="0" stroke="#888" stroke-dasharray="4"/>'
    name = escape(model.name)
    return (
        f'<figure><svg viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" height="{SIZE}" role="img" '
        f'aria-label="Reliability diagram of {name}">{"".join(bars)}{line}{"".join(dots)}</svg>'
        f"<figcaption><b>{name}</b><br>{escape(model.assessment.summary)}</figcaption></figure>"
    )
