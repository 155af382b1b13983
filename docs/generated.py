"""Pages that the package writes about itself: the papers' claims, and its commands."""

import json
from collections.abc import Iterator
from inspect import cleandoc

import click
from click.testing import CliRunner

from focalibrate.cli import main

VERDICTS = {
    "refuted": ("failure", "Refuted"),
    "holds where": ("warning", "True under a condition"),
    "holds": ("success", "Holds"),
}


def claims() -> list[dict[str, str | None]]:
    """Return what ``focalibrate theory --json`` prints, having checked every claim now."""
    done = CliRunner().invoke(main, ["theory", "--json"])
    if done.exit_code != 0:
        raise RuntimeError(f"focalibrate theory --json failed:\n{done.output}")
    found: list[dict[str, str | None]] = json.loads(done.stdout)
    return found


def papers_page(found: list[dict[str, str | None]]) -> str:
    """Return the page of claims: what is wrong, then what needs a condition, then the rest."""
    counts = {v: sum(c["verdict"] == v for c in found) for v in VERDICTS}
    lines = [
        "# Where the papers are wrong",
        "",
        "This page is made by `focalibrate theory --json` each time the site is built; nothing "
        "on it is written by hand. Each claim is put in our words, then checked by numbers: "
        f"**{counts['refuted']} of {len(found)} are refuted**, {counts['holds where']} hold "
        f"under a condition, {counts['holds']} hold. A claim that holds was tried on the cases "
        "named, which is evidence and no proof. To see one for yourself, run its command.",
        "",
        "| | paper |",
        "|-|-|",
        *(f"| {number} | {name} |" for number, name in _papers(found).items()),
    ]
    for verdict, (kind, title) in VERDICTS.items():
        lines += ["", f"## {title}", ""]
        for claim in found:
            if claim["verdict"] == verdict:
                lines += _claim(claim, kind)
    return "\n".join(lines) + "\n"


def _papers(found: list[dict[str, str | None]]) -> dict[str, str]:
    return {str(c["id"]).split("-")[0]: str(c["source"]) for c in found}


def _claim(claim: dict[str, str | None], kind: str) -> Iterator[str]:
    yield f"### {claim['id']}"
    yield ""
    yield f'!!! {kind} "{escaped(claim["statement"] or "").replace(chr(34), chr(39))}"'
    is_refuted = claim["verdict"] == "refuted"
    parts = (
        ("Refuted by", claim["counterexample"]),
        ("True where" if is_refuted else "Where", claim["where"]),
        ("Found", claim["evidence"]),
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
        "Made from the commands themselves: `focalibrate COMMAND --help` says the same.",
        "",
        "Every command that reads a file of predictions takes the same options for it. Colours "
        "appear on a terminal only, and never where `NO_COLOR` is set. Exit status: 0 done, 1 a "
        "file or a verdict was bad, 2 the command line was.",
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
