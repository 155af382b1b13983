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


PACKAGE = re.compile(r"^::: (focalibrate\.\w+)$", flags=re.MULTILINE)
"""A line of the reference that stands for all public names of a package."""


def reference_pages(folder: Path) -> dict[str, str]:
    """Return a page for each function and class of the packages that `folder` names."""
    packages = {
        found for path in folder.glob("*.md") for found in PACKAGE.findall(path.read_text())
    }
    return {
        f"reference/{package.split('.')[1]}/{name}.md": (
            f"---\ntitle: {package}.{name}\n---\n\n::: {package}.{name}\n"
            "    options:\n      heading_level: 1\n      show_root_heading: true\n"
            "      show_root_toc_entry: true\n"
        )
        for package in sorted(packages)
        for kind, names in _public(package).items()
        for name in names
        if kind != "Constants"
    }


def _public(package: str) -> dict[str, list[str]]:
    """Return the public names of a package by kind, what people call first."""
    module = importlib.import_module(package)
    source = "\n".join(
        p.read_text("utf-8") for p in sorted(Path(str(module.__file__)).parent.glob("*.py"))
    )
    kinds: dict[str, list[str]] = {"Functions": [], "Classes": [], "Constants": []}
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            kinds["Functions" if inspect.isfunction(value) else "Classes"].append(name)
        elif re.search(rf"^{name}\b[^,\n]*=", source, re.MULTILINE):
            # not one of several in a line, which mkdocstrings does not see
            kinds["Constants"].append(name)
    return kinds


def packages_listed(markdown: str) -> str:
    """Return a page whose ``::: package`` lists the functions and classes, each with its page."""

    def row(package: str, name: str) -> str:
        shown = getattr(importlib.import_module(package), name)
        first = " ".join((inspect.getdoc(shown) or "").partition("\n\n")[0].split())
        return f"| [`{name}`]({package.split('.')[1]}/{name}.md) | {_cell(first)} |"

    def listed(found: re.Match[str]) -> str:
        package, kinds = found[1], _public(found[1])
        parts = [f"::: {package}\n    options:\n      members: false\n"]
        heads = {"Functions": "| function | what it does |", "Classes": "| class | what it is |"}
        for title, head in heads.items():
            if kinds[title]:
                rows = (row(package, name) for name in kinds[title])
                parts += [f"## {title}\n", head, "|-|-|", *rows, ""]
        if kinds["Constants"]:
            parts += ["## Constants\n"]
            parts += [
                f"::: {package}.{name}\n    options:\n      show_root_heading: true\n"
                "      show_root_full_path: false\n      heading_level: 3\n"
                for name in kinds["Constants"]
            ]
        return "\n".join(parts)

    return PACKAGE.sub(listed, markdown)
