"""`focalibrate theory`."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import click
from rich.console import Console
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from focalibrate.cli._open import progress_bar
from focalibrate_papers.claims import SCAN, VERDICTS, Claim, Outcome, check_claim, select_claims

INDENT = "    "
STYLES = {
    "holds": "green",
    "fair": "green",
    "holds where": "yellow",
    "digit": "yellow",
    "slip": "yellow",
    "false": "bold red",
}


@click.command("theory")
@click.argument("claim_ids", metavar="[CLAIM_ID]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def theory_command(claim_ids: tuple[str, ...], as_json: bool) -> None:
    """Check the claims of the papers numerically, now.

    Each claim is shown in our words and in the paper's own sentence, with a verdict: holds; holds
    where a condition is met; fair (right to the precision that the sentence intends); digit (a
    number whose last digit is wrong); slip (a wrong sign, symbol, caption or direction that is
    right elsewhere in the same paper); false. Without a CLAIM_ID all are checked, in about half a
    minute. Exit status: 1 if a verdict differs from the one recorded in the repository.

    \b
    Example:
        focalibrate theory
        focalibrate theory 003-prop-5 004-lemma-1
        focalibrate theory --json > claims.json
    """
    try:
        claims = select_claims(claim_ids)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    outcomes = list(_with_progress(claims))
    if as_json:
        click.echo(json.dumps([_record(o) for o in outcomes], ensure_ascii=False, indent=2))
    else:
        _print_report(outcomes)
    if not all(o.is_expected for o in outcomes):
        raise click.exceptions.Exit(1)


def _with_progress(claims: Iterable[Claim]) -> Iterator[Outcome]:
    """Check the claims; on a terminal, show on stderr which one is being checked."""
    claims = tuple(claims)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with progress_bar(*columns) as bar:
        task = bar.add_task("checking", total=len(claims))
        for i, claim in enumerate(claims, start=1):
            bar.update(task, description=f"checking {claim.id} ({i} of {len(claims)})")
            yield check_claim(claim)


def _record(outcome: Outcome) -> dict[str, object]:
    claim, finding = outcome.claim, outcome.finding
    found = asdict(finding) if finding else {}
    return {
        "id": claim.id,
        "source": claim.source,
        "statement": claim.statement,
        "sentence": claim.sentence,
        "scan": SCAN if claim.is_one_symbol else None,
        "expected": claim.expected,
        "verdict": found.get("verdict"),
        "is_expected": outcome.is_expected,
        "where": found.get("where"),
        "counterexample": found.get("counterexample"),
        "evidence": found.get("evidence"),
        "error": outcome.error,
        "seconds": round(outcome.seconds, 3),
    }


def _print_report(outcomes: list[Outcome]) -> None:
    console = Console(highlight=False)
    source = None
    for outcome in outcomes:
        if outcome.claim.source != source:
            source = outcome.claim.source
            console.print(Text(source, style="bold underline"), end="\n\n")
        _print_outcome(console, outcome)
    _print_indented(console, _summary(outcomes), indent="")


def _print_outcome(console: Console, outcome: Outcome) -> None:
    claim, finding = outcome.claim, outcome.finding
    verdict = finding.verdict if finding else "not checked"
    head = Text.assemble((claim.id, "bold"), "  ", (verdict, STYLES.get(verdict, "bold red")))
    if not outcome.is_expected:
        head.append(f"  UNEXPECTED: recorded as {claim.expected}", style="bold red")
    console.print(head)
    lines = [("claim", claim.statement), ("paper", claim.sentence), ("error", outcome.error)]
    if finding:
        lines += [
            ("counterexample", finding.counterexample),
            ("true where", finding.where),
            ("found", finding.evidence),
            ("note", SCAN if claim.is_one_symbol else None),
        ]
    for label, text in lines:
        if text:
            _print_indented(console, Text.assemble((f"{label}: ", "dim"), text))
    console.print()


def _print_indented(console: Console, text: Text, indent: str = INDENT) -> None:
    for line in text.wrap(console, console.width - len(indent)):
        line.rstrip()  # a copied line should not end in blanks
        console.print(Text(indent).append_text(line))


def _summary(outcomes: list[Outcome]) -> Text:
    verdicts = [o.finding.verdict for o in outcomes if o.finding]
    counts = ", ".join(f"{v} {verdicts.count(v)}" for v in VERDICTS if v in verdicts)
    unexpected = [o.claim.id for o in outcomes if not o.is_expected]
    seconds = sum(o.seconds for o in outcomes)
    text = Text(
        f"Claims checked: {len(outcomes)}, in {seconds:.1f} s ({counts or 'no verdict'}). "
    )
    if unexpected:
        return text.append(f"UNEXPECTED: {', '.join(unexpected)}.", style="bold red")
    return text.append("All verdicts match those recorded in the repository.", style="green")
