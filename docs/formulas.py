r"""Formulas as MathML, made while the site is built, so that pages need no script to show them.

Our docstrings write ``:math:`x``` in a line and ``.. math::`` with indented lines for a display;
the pages do the same.
"""

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

INLINE = re.compile(r":math:`([^`]+)`")
DISPLAY = re.compile(r"^( *)\.\. math::(.*(?:\n(?:\1 +\S.*| *(?=\n\1 +\S)))*)", re.MULTILINE)

RESPELLED = {r"\arg": r"\operatorname{arg}\,", r"\lVert": r"\|", r"\rVert": r"\|"}
"""Commands that latex2mathml does not know, by ones that it does."""


def mathml(latex: str, *, display: bool) -> str:
    """Return a formula as a ``<math>`` element; a command that is not known is an error."""
    for command, known in RESPELLED.items():
        latex = latex.replace(command, known)
    text = convert(" ".join(latex.split()), display="block" if display else "inline")
    text = text.replace(r"\|", "‖")  # what it leaves of a norm with \bigl
    unknown = re.search(r"\\[A-Za-z]+", text)
    if unknown:
        raise ValueError(f"{unknown[0]} must be LaTeX that latex2mathml knows, in: {latex}")
    return text


class Formulas(Preprocessor):
    """Put formulas away as finished HTML before Markdown sees their underscores."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with a placeholder for each formula."""
        text = DISPLAY.sub(self._display, "\n".join(lines))
        return INLINE.sub(self._inline, text).split("\n")

    def _display(self, found: re.Match[str]) -> str:
        block = f'<div class="formula">{mathml(found[2], display=True)}</div>'
        return f"\n{found[1]}{self._stored(block)}\n"

    def _inline(self, found: re.Match[str]) -> str:
        return self._stored(mathml(found[1], display=False))

    def _stored(self, html: str) -> str:
        placeholder: str = self.md.htmlStash.store(html)
        return placeholder


class FormulaExtension(Extension):
    """The Markdown extension of this file."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 the name Markdown calls
        """Take formulas out after fenced code (25) is put away and before raw HTML (20)."""
        md.preprocessors.register(Formulas(md), "formulas", 22)


def makeExtension(**settings: Any) -> FormulaExtension:  # noqa: N802 the name Markdown calls
    """Return the extension."""
    return FormulaExtension(**settings)
