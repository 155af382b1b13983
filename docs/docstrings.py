"""Docstrings as griffe reads them: what our style names differently from its own."""

import re
from typing import Any

import griffe


class OurDocstrings(griffe.Extension):
    """Say ``Examples:`` where we say ``Example:``, and a plain colon before indented code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of anything that has one."""
        if obj.docstring is not None:
            text = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.M)
            obj.docstring.value = re.sub(r"::$", ":", text, flags=re.M)
