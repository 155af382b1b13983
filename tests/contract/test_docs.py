"""The site is true: its Python runs, its commands exist, its pages build."""

import importlib
import json
import os
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from focalibrate import calibrate_predictions
from focalibrate.cli import main
from focalibrate.engines.local import MAX_DEATHS
from focalibrate.io.formats.arrow import PIECE_BYTES
from focalibrate.metrics.sketch import MAX_CLASSWISE
from focalibrate.pipeline.sample import FIT_ENTRIES, FIT_ROWS
from focalibrate_papers.engine import find_experiment

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "reference" not in p.parts)
NAMES = [str(p.relative_to(DOCS)) for p in PAGES]
SLOW = {
    "demo",
    "reproduce",
    "theory",
}  # run whole by tests of their own; here only their options are read


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.M)


def commands(page):
    for block in blocks(page, "console"):
        yield from re.findall(r"^\$ (.+)$", block, flags=re.MULTILINE)


SHARED = Path(os.environ.get("FOCALIBRATE_SHARED", ROOT.parent / "shared")) / "data" / "worlds"
REAL = {
    "llm-answers": {
        "final_results_v2.csv": "llm/verbalised/final_results_v2.csv",
        "samples_winogrande.jsonl": "llm/lm_eval/samples_winogrande*",
        **{
            f"{folder}samples_toy_mc.jsonl": "llm/lm_eval/samples_toy_mc*"
            for folder in ("", "base/", "tuned/")
        },
    },
    "detections": {
        name: f"detection/efficientdet_birdview/{name}"
        for name in ("val_bbox_results.json", "instances_val.json")
    },
}
"""Real files that a page uses, and where they are."""


def with_real_files(page, folder):
    """Put the real files of a page into a folder; skip where there are none."""
    for name, pattern in REAL.get(page.stem, {}).items():
        source = next(SHARED.glob(pattern), None)
        if source is None:
            pytest.skip("the real files of this page are not here")
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(source, folder / name)
    if page.stem == "detections":  # a quarter of the images is enough to run its commands
        truth = json.loads((folder / "instances_val.json").read_text())
        truth["images"] = truth["images"][:60]
        kept = {image["id"] for image in truth["images"]}
        boxes = json.loads((folder / "val_bbox_results.json").read_text())
        for name, whole, part in (
            ("val_bbox_results.json", boxes, boxes),
            ("instances_val.json", truth, truth["annotations"]),
        ):
            part[:] = [box for box in part if box["image_id"] in kept]
            (folder / name).chmod(0o644)
            (folder / name).write_text(json.dumps(whole))
    tuned = folder / "tuned" / "samples_toy_mc.jsonl"
    if tuned.exists():  # the same questions in another order, answered with other scores
        rows = [json.loads(line) for line in tuned.read_text().splitlines()]
        for row in rows:
            del row["acc"], row["acc_norm"]
            row["filtered_resps"] = [[str(float(z) / 3), g] for z, g in row["filtered_resps"]]
        tuned.chmod(0o644)
        tuned.write_text("\n".join(json.dumps(row) for row in reversed(rows)))


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.stem)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    with_real_files(page, tmp_path)
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page, "python")))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


def command_of(name):
    return main.get_command(click.Context(main), name)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with the files that the pages use."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    for name in ("val", "test", "new", "model_a", "model_b"):
        truth = 2 * np.random.default_rng(1).normal(size=(300, 3))
        labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        if name.startswith("model"):
            labels = truth.argmax(axis=1)  # the same examples for both
        logits = truth * rng.uniform(1, 3)
        np.savez(tmp_path / f"{name}.npz", logits=logits, labels=labels)
    for day in (1, 2):
        rows = slice(0, 300 - day)  # the same table twice would be refused
        columns = {f"logit_{k}": logits[rows, k] for k in range(3)}
        table = pa.table(columns | {"label": labels[rows]})
        pq.write_table(table, tmp_path / f"day{day}.parquet")
    confidence = rng.uniform(0.5, 1.0, size=600)
    answers = zip(np.arange(600) // 10, confidence, rng.random(600) < confidence, strict=True)
    lines = ["question,confidence,is_correct", *(f"{q},{c:.4f},{r:d}" for q, c, r in answers)]
    (tmp_path / "answers.csv").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if any(commands(p))], ids=lambda p: p.stem)
def test_the_commands_of_a_page_work(page, files):
    with_real_files(page, files)
    n_shared = 0
    for line in commands(page):
        program, *arguments = shlex.split(line)
        if "--workers" in arguments:  # starting them takes longer than all the rest: once a page
            n_shared += 1
            at = arguments.index("--workers")
            command_of(arguments[0]).make_context(arguments[0], arguments[1:])
            arguments[at : at + 2] = arguments[at : at + 2] if n_shared == 1 else []
        if program == "python":
            assert arguments[0] == "-m"
            importlib.import_module(arguments[1])
        elif program == "focalibrate" and arguments[0] in SLOW:
            command_of(arguments[0]).make_context(arguments[0], arguments[1:])
        elif program == "focalibrate":
            if "--resamples" in {o for p in command_of(arguments[0]).params for o in p.opts}:
                arguments += ["--resamples", "10"]
            done = CliRunner().invoke(main, arguments)
            findings = (0, 1, 3) if arguments[0] == "check" else (0,)
            assert done.exit_code in findings, f"{line}\n{done.output}"
        else:
            assert program in ("pip", "make")


@pytest.mark.parametrize(
    "counted",
    [
        "TS_NLL | raw | NLL | 16 | 0 | 0",
        "TS_NLL | raw | AdaECE | 15 | 1 | 0",
        "FTS | raw | NLL | 14 | 0 | 2",
        "FTS | TS_NLL | AdaECE | 8 | 8 | 0",
        "FTS | TS_NLL | NLL | 1 | 6 | 9",
        "FTS_NLL | TS_NLL | NLL | 6 | 9 | 1",
        "FTS_NLL | TS_NLL | AdaECE | 6 | 7 | 3",
        "FTS | TS_ECE | AdaECE | 8 | 7 | 1",
        "FTS | TS_ECE_fine | AdaECE | 7 | 9 | 0",
    ],
)
def test_the_counts_that_the_page_on_real_logits_puts_in_words(counted):
    """A new table needs new words: change both."""
    assert f"| {counted} |" in (ROOT / "results/published-logits/README.md").read_text()


def test_the_limits_that_the_page_at_scale_names_are_those_of_the_code():
    pages = [(DOCS / page).read_text() for page in ("howto/at-scale.md", "reference/files.md")]
    text = " ".join(" ".join(pages).split())
    for words in (
        f"More than {FIT_ROWS:,} rows",
        f"fitted on up to {FIT_ROWS:,} rows (fewer with more than {FIT_ENTRIES // FIT_ROWS} cl",
        f"in pieces of about {PIECE_BYTES >> 20} MB",
        f"up to {MAX_CLASSWISE:,} classes",
        f"a part that has lost {['zero', 'one', 'two', 'three'][MAX_DEATHS]} workers",
    ):
        assert words in text, words


@pytest.fixture(scope="module")
def site():
    """The modules that mkdocs calls, which lie beside the pages."""
    pytest.importorskip("latex2mathml")
    pytest.importorskip("markdown")
    sys.path.insert(0, str(DOCS))
    try:
        names = ("generated", "formulas", "evidence")
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(DOCS))


def test_the_command_page_names_every_option(site):
    page = site["generated"].commands_page()
    context = click.Context(main)
    for name in main.list_commands(context):
        assert f"## focalibrate {name}\n" in page
        for parameter in command_of(name).params:
            for option in parameter.opts if isinstance(parameter, click.Option) else ():
                assert option in page


@pytest.mark.slow
def test_the_page_of_claims_leads_with_what_is_wrong(site):
    done = CliRunner().invoke(main, ["theory", "--json", "003-prop-5", "000-prop-6"])
    page = site["generated"].papers_page(json.loads(done.stdout))
    assert "Of 2 claims: 1 false, " in page
    assert page.index("003-prop-5") < page.index("000-prop-6")
    assert "$ focalibrate theory 003-prop-5" in page


def test_the_page_of_a_paper_tells_which_rules_came_after_the_results(site):
    evidence, n = site["evidence"], 0
    for name in evidence.experiments():
        page = evidence.filled(f"{{{{ evidence {name} }}}}", [])
        changed = find_experiment(name).changed_rules
        assert site["generated"].escaped(changed) in page
        n += bool(changed)
    assert n > 5


def test_an_erratum_has_the_papers_sentence_and_what_speaks_for_it(site):
    done = CliRunner().invoke(main, ["theory", "--json", "003-error-k4", "004-fig-1"])
    evidence, claims = site["evidence"], json.loads(done.stdout)
    page = evidence.filled("{{ errata 003 }}", claims) + evidence.filled(
        "{{ errata 004 }}", claims
    )
    assert "a coarse grid misses the worst case" in page
    assert "| p=0.5: focal loss at γ=1" in page  # a name stays in small letters
    assert "Our copy of the paper is a scan" in page


def test_every_formula_of_the_docstrings_and_pages_is_understood(site):
    formulas, n = site["formulas"], 0
    for path in [*(ROOT / "src").rglob("*.py"), *PAGES]:
        text = path.read_text()
        for pattern, group in ((formulas.DISPLAY, 2), (formulas.INLINE, 1)):
            for found in pattern.finditer(text):
                assert "<math" in formulas.mathml(found[group], display=group == 2)
                n += 1
    assert n > 200


def test_formulas_survive_markdown(site):
    markdown = importlib.import_module("markdown")
    text = "A :math:`a_i*b_i*c`.\n\n.. math:: x_1\n          + y\n\nEnd `x`.\n"
    html = markdown.markdown(text, extensions=[site["formulas"].FormulaExtension()])
    assert "<em>" not in html
    assert '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">' in html
    assert "<p>End <code>x</code>.</p>" in html


def test_every_page_stands_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    for name in [*NAMES, *(f"reference/{p.name}" for p in (DOCS / "reference").iterdir())]:
        assert f": {name}\n" in navigation


NEVER = "## What we never do silently\n"


def test_every_line_of_what_is_never_silent_names_a_test_that_exists():
    lines = [
        line
        for line in (DOCS / "which-file.md").read_text().split(NEVER)[1].splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| What could"))
    ]
    assert len(lines) > 30
    for line in lines:
        path, name = re.fullmatch(r"\|.+\| `(unit/\S+\.py)::(test_\w+)` \|", line).groups()
        assert f"\ndef {name}(" in (ROOT / "tests" / path).read_text(), line


def test_every_field_of_the_two_files_is_in_the_schema():
    rng = np.random.default_rng(0)
    logits = 4 * rng.normal(size=(300, 3))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    found = calibrate_predictions(
        logits=logits, labels=labels, class_names=["a", "b", "c"], methods=["temperature"]
    ).to_dict()
    page = (DOCS / "reference/files.md").read_text()
    calibrator, results = page.split("## results.json")
    assert sorted(re.findall(r"^\| `(\w+)`", results, re.MULTILINE)) == sorted(found)
    for name in found["calibrator"]:
        assert f"| `{name}` |" in calibrator
    for name in (*found["verdict"], *found["comparison"], *found["made_with"]):
        assert f"`{name}`" in results


def test_the_reference_lists_functions_first_and_each_name_has_a_page(site):
    text = site["generated"].packages_listed("# x\n\n::: focalibrate.theory\n")
    kinds = re.findall(r"^## (\w+)$", text, re.MULTILINE)
    assert kinds == [k for k in ("Functions", "Classes", "Constants") if k in kinds]
    assert text.index("[`recover_posterior`]") < text.index("## Classes")
    pages = site["generated"].reference_pages(DOCS / "reference")
    linked = re.findall(r"\]\((\S+\.md)\)", text)
    assert len(linked) > 10
    for name in linked:
        assert f"::: focalibrate.theory.{Path(name).stem}\n" in pages[f"reference/{name}"]
