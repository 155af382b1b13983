"""Pages that the package writes about itself: the papers' claims, and its commands."""

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
from click.testing import CliRunner

from focalibrate.cli import main
from focalibrate_papers.claims import VERDICTS

KINDS = {
    "false": "failure",
    "slip": "warning",
    "digit": "warning",
    "fair": "success",
    "holds where": "success",
    "holds": "success",
}
"""How a verdict is shown."""


def claims() -> list[dict[str, str | None]]:
    """Return what ``focalibrate theory --json`` prints, having checked every claim now."""
    done = CliRunner().invoke(main, ["theory", "--json"])
    if done.exit_code != 0:
        raise RuntimeError(f"focalibrate theory --json failed:\n{done.output}")
    found: list[dict[str, str | None]] = json.loads(done.stdout)
    return found


def papers_page(found: list[dict[str, str | None]]) -> str:
    """Return the page of claims: the gravest errata first, what holds last."""
    counts = ", ".join(f"{sum(c['verdict'] == v for c in found)} {v}" for v in VERDICTS)
    lines = [
        "# The papers' claims, checked",
        "",
        "This page is made by `focalibrate theory --json` each time the site is built; nothing "
        "on it is written by hand. Each claim is stated in our words, beside the paper's own "
        f"sentence, and checked numerically. Of {len(found)} claims: {counts}.",
        "",
        "| verdict | meaning |",
        "|-|-|",
        *(f"| {verdict} | {meaning} |" for verdict, meaning in VERDICTS.items()),
        "",
        "| | paper |",
        "|-|-|",
        *(f"| {number} | {name} |" for number, name in _papers(found).items()),
    ]
    for verdict in VERDICTS:
        lines += ["", f"## {verdict.capitalize()}", ""]
        for claim in found:
            if claim["verdict"] == verdict:
                lines += _claim(claim, KINDS[verdict])
    return "\n".join(lines) + "\n"


def _papers(found: list[dict[str, str | None]]) -> dict[str, str]:
    return {str(c["id"]).split("-")[0]: str(c["source"]) for c in found}


def _claim(claim: dict[str, str | None], kind: str) -> Iterator[str]:
    yield f"### {claim['id']}"
    yield ""
    yield f'!!! {kind} "{escaped(claim["statement"] or "").replace(chr(34), chr(39))}"'
    parts = (
        ("The paper", claim["sentence"]),
        ("Counterexample", claim["counterexample"]),
        ("True where", claim["where"]),
        ("Found", claim["evidence"]),
        ("Note", claim["scan"]),
    )
    for label, text in parts:
        if text:
            yield f"    **{label}:** {escaped(text)}"
            yield ""
    yield "    ```console"
    yield f"    $ focalibrate theory {claim['id']}"
    yield "    ```"
    yield ""


def escaped(text: str) -> str:
    """Return plain text as Markdown that shows it."""
    for mark in ("\\", "*", "_", "`", "|"):
        text = text.replace(mark, f"\\{mark}")
    return text.replace("<", "&lt;")


def commands_page() -> str:
    """Return the page of commands, from the commands themselves."""
    context = click.Context(main, info_name="focalibrate")
    lines = [
        "# Commands",
        "",
        "Generated from the commands: `focalibrate COMMAND --help` prints the same.",
        "",
        "Every command that reads a file of predictions takes the same options for it. Colours "
        "appear on a terminal only, and not if `NO_COLOR` is set. Exit status: 0 done; 1 a "
        "problem with a file, or a check that failed; 2 wrong options.",
    ]
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        if command is not None:
            lines += _command(command, click.Context(command, context, info_name=name))
    return "\n".join(lines) + "\n"


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield ""
    yield f"## focalibrate {context.info_name}"
    yield ""
    text, _, example = cleandoc(command.help or "").partition("\b")
    yield from ("```text", context.get_usage().removeprefix("Usage: "), "```", "")
    yield text.strip()
    yield ""
    if example:
        shown = [line.strip() for line in example.strip().splitlines()[1:]]
        yield from ("```console", *(f"$ {line}" for line in shown), "```", "")
    yield "| option | meaning |"
    yield "|-|-|"
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and isinstance(parameter, click.Option):
            names, meaning = (_cell(part) for part in record)
            yield f"| `{names}` | {meaning} |"


def _cell(text: str) -> str:
    """Return text for a cell of a table, where a bar would end it."""
    return text.replace("|", "&#124;" if "[" not in text else "/").replace("<", "&lt;")


def functions_first(markdown: str) -> str:
    """Return a page whose ``::: package`` lists functions, then classes, then constants.

    What people call stands before what they are given; mkdocstrings begins with constants.
    """

    def listed(found: re.Match[str]) -> str:
        package = importlib.import_module(found[1])
        folder = Path(str(package.__file__)).parent
        source = "\n".join(path.read_text("utf-8") for path in sorted(folder.glob("*.py")))
        kinds: dict[str, list[str]] = {"Functions": [], "Classes": [], "Constants": []}
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isfunction(value) or inspect.isclass(value):
                kinds["Functions" if inspect.isfunction(value) else "Classes"].append(name)
            elif re.search(rf"^{name}\b[^,\n]*=", source, re.MULTILINE):
                kinds["Constants"].append(
                    name
                )  # not one of several in a line, which mkdocstrings does not see
        parts = [f"::: {found[1]}\n    options:\n      members: false\n"]
        for title, names in kinds.items():
            parts += [f"## {title}\n"] if names else []
            parts += [
                f"::: {found[1]}.{name}\n    options:\n      show_root_heading: true\n"
                "      show_root_full_path: false\n      show_root_toc_entry: true\n"
                "      heading_level: 3\n"
                for name in names
            ]
        return "\n".join(parts)

    return re.sub(r"^::: (focalibrate\.\w+)$", listed, markdown, flags=re.MULTILINE)
