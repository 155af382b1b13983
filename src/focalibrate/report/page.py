"""One HTML file from what a page shows."""

import base64
import hashlib
import html
import json
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from focalibrate._atomic import atomic_path

SCHEMA_VERSION = 3
"""Version of the JSON inside the page."""


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file that was read."""

    name: str
    sha256: str
    role: str = ""
    """what it was used for, such as ``"fitted on"``"""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a page was made, as given: the same arguments give the same page."""

    command: str
    version: str
    """of focalibrate"""
    seed: int
    made_at: str = ""
    """date, as it is to be shown; empty: none is shown"""
    files: tuple[SourceFile, ...] = ()


@dataclass(frozen=True, eq=False)
class PageData:
    """The document that a page shows."""

    document: dict[str, Any]
    """JSON: finite numbers, text, lists"""

    def to_json(self) -> str:
        """Return the document as compact JSON."""
        return json.dumps(
            self.document, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )


_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="focalibrate {version}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="app"><noscript><p>{verdict}</p><p>This page draws its charts with JavaScript, which is \
switched off here.</p></noscript></div>
<script type="application/json" id="focalibrate-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def escape_json(text: str) -> str:
    r"""Return JSON that is safe inside a script element: no ``<``, no ``&``, no line breaks."""
    return text.translate(_ESCAPES)


def render_report(data: PageData) -> str:
    """Return the page as text: template, bundle and data, with a policy that allows no request."""
    static = files("focalibrate.report") / "static"
    script = (static / "report.js").read_text(encoding="utf-8")
    style = (static / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    document = data.document
    return _PAGE.format(
        policy=policy,
        version=html.escape(document["provenance"]["version"]),
        title=html.escape(document["title"]),
        verdict=html.escape(_words(document["verdict"])),
        style=style,
        script=script,
        data=escape_json(data.to_json()),
    )


def _words(verdict: str | dict[str, str]) -> str:
    """Return the verdict as text; that of a training run is a sentence."""
    return verdict if isinstance(verdict, str) else f"{verdict['headline']} {verdict['gain']}"


def write_report(path: str | os.PathLike[str], data: PageData) -> None:
    """Write the page to `path`, whole or not at all.

    Args:
        path: file to write; one that exists is replaced.
        data: what the page shows.
    """
    text = render_report(data)
    with atomic_path(Path(path), force=True) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
