"""What mkdocs does besides rendering: formulas, pictures and the pages the package writes."""

from functools import cache
from pathlib import Path
from typing import Any

from errata import ERRATA
from evidence import evidence_files, filled
from focal_scores import focal_scores
from formulas import FormulaExtension
from generated import claims, commands_page, packages_listed, papers_page, reference_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pictures import PICTURES, svg_of

checked_claims = cache(claims)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let pages and docstrings write formulas."""
    config.markdown_extensions.append(FormulaExtension())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that are made anew by every build."""
    made = {"papers.md": papers_page(checked_claims()), "commands.md": commands_page()}
    drawn = PICTURES | ERRATA | {"focal_scores": focal_scores}
    made |= {f"pictures/{name}.svg": svg_of(draw) for name, draw in drawn.items()}
    arena = Path(__file__).parents[1] / "results" / "arena"
    made |= {f"pictures/arena-{p.stem}.svg": p.read_text("utf-8") for p in arena.glob("*.svg")}
    made |= evidence_files() | reference_pages(Path(__file__).parent / "reference")
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """Take the script that searches from disk from the site itself, not from the network."""
    root = "../" * page.url.count("/")
    return output.replace("https://unpkg.com/iframe-worker/shim", f"{root}search.js")


def on_post_template(output: str, **_: Any) -> str:
    """Do the same on the page of a missing address."""
    return output.replace("https://unpkg.com/iframe-worker/shim", "/search.js")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put evidence, errata and the names of packages where a page asks for them."""
    return packages_listed(filled(markdown, checked_claims()))
