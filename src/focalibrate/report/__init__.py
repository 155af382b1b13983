"""The result of a comparison as one HTML page: self-contained, interactive, offline.

`page_data` gathers everything the page shows, `write_report` writes the file::

    data = page_data(
        comparison, choice, test_logits, test_labels,
        provenance=Provenance(command="focalibrate calibrate val.npz", version=__version__,
                              seed=0, made_at="2026-11-15", files=(SourceFile(...),)),
        class_names=("cat", "dog"),
    )
    write_report("report.html", data)

`reliability_diagram` and the like draw in notebooks.
"""

from focalibrate.report.criterion import CriterionGrid, criterion_grid
from focalibrate.report.page import (
    SCHEMA_VERSION,
    PageData,
    Provenance,
    SourceFile,
    page_data,
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
from focalibrate.report.snippets import Snippet, deployment_snippets

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
    "page_data",
    "reliability_diagram",
    "render_report",
    "simplex_map",
    "temperature_grid",
    "write_report",
]
