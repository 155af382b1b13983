"""What mkdocs does besides rendering: formulas, pictures and the pages the package writes."""

from formulas import FormulaExtension
from generated import claims, commands_page, papers_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pictures import PICTURES, svg_of


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let pages and docstrings write formulas."""
    config.markdown_extensions.append(FormulaExtension())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that are made anew by every build."""
    made = {"papers.md": papers_page(claims()), "commands.md": commands_page()}
    made |= {f"pictures/{name}.svg": svg_of(draw) for name, draw in PICTURES.items()}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files
