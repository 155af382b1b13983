"""A result as a small table, for notebooks."""

import math
from html import escape
from typing import TYPE_CHECKING

from focalibrate.metrics.registry import MetricName

if TYPE_CHECKING:
    from focalibrate.pipeline.result import CalibrationResult

COLUMNS: tuple[tuple[str, MetricName, str], ...] = (
    ("log loss", "nll", "{:.4f}"),
    ("Brier score", "brier", "{:.4f}"),
    ("ECE", "ece", "{:.2%}"),
    ("error", "error", "{:.2%}"),
)


def result_html(result: "CalibrationResult") -> str:
    """Return the verdict and one row per method, the chosen one in bold."""
    head = "".join(f"<th>{heading}</th>" for heading, _, _ in COLUMNS)
    rows = []
    for row in result.comparison.rows:
        values = ((row.scores[name].estimate, text) for _, name, text in COLUMNS)
        cells = "".join(
            f"<td>{text.format(v) if math.isfinite(v) else '∞'}</td>" for v, text in values
        )
        label = escape(row.label)
        is_chosen = row.method == result.choice.row.method
        rows.append(f"<tr><th>{f'<b>► {label}</b>' if is_chosen else label}</th>{cells}</tr>")
    reason = result.verdict.reason and f"<p>{escape(result.verdict.reason)}</p>"
    return (
        f"<p><b>{escape(str(result.verdict))}</b></p>{reason}"
        f"<table><thead><tr><th>method</th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
