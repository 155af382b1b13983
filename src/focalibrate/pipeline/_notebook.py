"""A result as a small table, for notebooks."""

from html import escape

from focalibrate.comparison import Choice, Comparison

COLUMNS = (
    ("log loss", "nll", "{:.4f}"),
    ("Brier score", "brier", "{:.4f}"),
    ("ECE", "ece", "{:.2%}"),
    ("error", "error", "{:.2%}"),
)


def result_html(verdict: str, choice: Choice, comparison: Comparison) -> str:
    """Return the verdict and one row per method, the chosen one in bold."""
    head = "".join(f"<th>{heading}</th>" for heading, _, _ in COLUMNS)
    rows = []
    for row in comparison.rows:
        cells = "".join(
            f"<td>{text.format(row.scores[name].estimate)}</td>"  # type: ignore[index]
            for _, name, text in COLUMNS
        )
        label = escape(row.label)
        is_chosen = row.method == choice.row.method
        rows.append(f"<tr><th>{f'<b>► {label}</b>' if is_chosen else label}</th>{cells}</tr>")
    return (
        f"<p><b>{escape(verdict)}</b></p><p>{escape(choice.reason)}</p>"
        f"<table><thead><tr><th>method</th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
