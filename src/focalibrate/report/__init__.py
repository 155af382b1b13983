"""The result of a comparison as one HTML page: self-contained, interactive, offline.

`focalibrate.calibrate_predictions(...).page_data()` is what the page of a job shows;
`write_report` writes it.

`reliability_diagram` and the like draw in notebooks.
"""

from focalibrate.report.criterion import CriterionGrid, criterion_grid
from focalibrate.report.page import (
    SCHEMA_VERSION,
    PageData,
    Provenance,
    Snippet,
    SourceFile,
    deployment_snippets,
    render_report,
    write_report,
)
from focalibrate.report.plot import (
    ReliabilityDisplay,
    binned_diagram,
    reliability_diagram,
    simplex_map,
    temperature_grid,
)

__all__ = [
    "SCHEMA_VERSION",
    "CriterionGrid",
    "PageData",
    "Provenance",
    "ReliabilityDisplay",
    "Snippet",
    "SourceFile",
    "binned_diagram",
    "criterion_grid",
    "deployment_snippets",
    "reliability_diagram",
    "render_report",
    "simplex_map",
    "temperature_grid",
    "write_report",
]
