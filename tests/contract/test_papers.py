"""The pages about the papers are complete, and no two verdicts contradict each other."""

import json
import re
from pathlib import Path

import pytest

from focalibrate_papers.engine import EXPERIMENTS

ROOT = Path(__file__).parents[2]
INDEX = (ROOT / "docs/papers/index.md").read_text(encoding="utf-8")
VERDICTS = sorted((ROOT / "results").glob("*/verdicts.json"))
IN_PAPER = {
    ("000", "Fig."): range(1, 7),
    ("002", "Fig."): range(1, 9),
    ("002", "Table"): range(1, 14),
    ("003", "Fig."): range(1, 9),
    ("003", "Table"): range(1, 2),
    ("004", "Fig."): range(1, 5),
}
OPPOSITES = {
    "lower": "higher",
    "lowers": "raises",
    "falls": "rises",
    "at most": "more than",
    "closer to": "further from",
    "fewer": "more",
    "larger": "smaller",
}
AGREES = {"reproduced", "same direction", "supported"}
DISAGREES = {"opposite direction", "not reproduced", "not supported"}


def listed(paper: str, kind: str) -> set[int]:
    """Return the numbers of figures or tables that the page's table has a row for."""
    found = set()
    for line in INDEX.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 4 or cells[1] != paper:
            continue
        assert cells[3], line
        for what in re.findall(r"(?:Fig\.|Tables?) [\d, –-]+", cells[2]):
            if what.startswith(kind.rstrip("s")):
                for first, last in re.findall(r"(\d+)(?:[–-](\d+))?", what):
                    found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize(("paper", "kind"), IN_PAPER)
def test_every_figure_and_table_has_a_counterpart_or_a_reason(paper, kind):
    assert listed(paper, kind) == set(IN_PAPER[paper, kind])


def test_every_experiment_with_evidence_is_on_a_page_of_a_paper():
    pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs/papers").glob("0*.md"))
    shown = set(re.findall(r"\{\{ evidence ([\w-]+) \}\}", pages))
    assert shown == {path.parent.name for path in VERDICTS} <= set(EXPERIMENTS)


def claims() -> list[tuple[str, dict]]:
    return [
        (path.parent.name, claim)
        for path in VERDICTS
        for claim in json.loads(path.read_text(encoding="utf-8"))["claims"]
    ]


def mirrored(text: str) -> set[str]:
    """Return the possible wordings of the opposite of a claim."""
    both = OPPOSITES | {value: key for key, value in OPPOSITES.items()}
    return {
        re.sub(rf"\b{word}\b", other, text)
        for word, other in both.items()
        if re.search(rf"\b{word}\b", text)
    }


def test_a_claim_has_one_verdict_and_its_opposite_another():
    seen = {}
    for name, claim in claims():
        text, verdict = claim["claim"], claim["verdict"]
        assert seen.get(text, (name, verdict)) == (name, verdict), (name, text)
        seen[text] = name, verdict
    for text, (_, verdict) in seen.items():
        for other in mirrored(text) & seen.keys():
            for same in (AGREES, DISAGREES):
                assert not {verdict, seen[other][1]} <= same, (text, other)


def test_what_the_paper_says_is_not_judged_as_a_question_of_ours():
    for name, claim in claims():
        words = {"supported", "not supported"}
        assert (claim["verdict"] in words) <= (not claim["is_papers"]), (name, claim["claim"])
