"""The finding of a gate as Markdown and as JUnit XML."""

import math
from typing import TYPE_CHECKING

from focalibrate.io import printable

if TYPE_CHECKING:
    from focalibrate.pipeline.gate_result import GateResult, LimitCheck

SIGNS = {"pass": "✅ pass", "fail": "❌ fail", "undetermined": "❔ not enough data"}


def number(value: float) -> str:
    """Return a number with three significant digits.

    Example:
        >>> number(0.0200001), number(0.00012), number(float("inf"))
        ('0.02', '0.00012', '∞')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.3g}"


def markdown_text(found: "GateResult") -> str:
    """Return the finding, and a table of the limits."""
    confidence = f"{100 * (1 - found.alpha):g} %"
    lines = [
        f"### Calibration check: {SIGNS[found.status]}",
        "",
        f"`{_cell(found.name)}`: {found.n_rows:,} rows, {found.n_classes} classes"
        + (f"; baseline: `{_cell(found.baseline)}`" if found.baseline else ""),
        "",
        "| limit | allowed | measured | at least | at most | |",
        "|-|-|-|-|-|-|",
    ]
    for check in found.shown:
        cells = [
            _cell(check.label),
            *map(number, (check.limit, check.estimate, check.low, check.high)),
        ]
        lines.append(f"| {' | '.join(cells)} | {SIGNS[check.status]} |")
    lines += ["", *(f"- {_cell(check.label)}: {check.message}" for check in found.shown), ""]
    if found.note:
        lines += [_cell(found.note), ""]
    lines.append(
        f"At least, at most: bounds at {confidence} confidence. A model within the limits "
        f"fails in at most {100 * found.alpha:g} % of runs."
    )
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("`", "'")


def junit_text(found: "GateResult") -> str:
    """Return JUnit XML with a test case per limit."""
    from xml.sax.saxutils import quoteattr  # which imports all of urllib

    n_failed = sum(check.status == "fail" for check in found.checks)
    n_open = sum(check.status == "undetermined" for check in found.checks)
    counts = f'tests="{len(found.checks)}" failures="{n_failed}" errors="{n_open}"'
    name = quoteattr(f"focalibrate check {printable(found.name)}")
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {counts}>",
        f'<testsuite name={name} {counts} skipped="0" time="0">',
        *(line for check in found.checks for line in _case(check)),
        "</testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(check: "LimitCheck") -> list[str]:
    from xml.sax.saxutils import escape, quoteattr

    name = quoteattr(f"{printable(check.label)} at most {number(check.limit)}")
    opening = f'<testcase classname="focalibrate.check" name={name} time="0"'
    if check.status == "pass":
        return [f"{opening}/>"]
    tag = "failure" if check.status == "fail" else "error"
    kind = "limit exceeded" if check.status == "fail" else "not enough data to tell"
    return [
        f"{opening}>",
        f'<{tag} type="{kind}" message={quoteattr(check.message)}>{escape(check.message)}</{tag}>',
        "</testcase>",
    ]
