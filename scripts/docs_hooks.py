"""What the site needs besides the pages in docs/ (mkdocs.yml, `hooks`).

The change log lies at the top of the repository and the notebooks are no Markdown: both become
pages. Links are written as the code host wants them (`../CHANGELOG.md`, `notebooks/NAME.ipynb`) and
changed for the site. A page that the nav names and nobody has written yet is left out.
"""

import logging
import re
from pathlib import Path, PurePosixPath
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[1]
# Outside of docs/ -> its page.
OUTSIDE = {"CHANGELOG.md": "changelog.md"}
_log = logging.getLogger("mkdocs.hooks.bertflow")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leave the pages out of the nav that are not there."""
    there = {path.relative_to(config.docs_dir).as_posix() for path in _sources(config.docs_dir)}
    config.nav = _existing(config.nav, there | set(OUTSIDE.values()))
    return config


def _sources(folder: str) -> list[Path]:
    return [path for path in Path(folder).rglob("*") if path.suffix in (".md", ".ipynb")]


def _existing(nav: Any, there: set[str]) -> Any:
    """Return the part of a nav whose pages are there, notebooks under the name of their page."""
    if isinstance(nav, str):
        if nav not in there:
            _log.info("%s is not written yet", nav)
            return None
        return re.sub(r"\.ipynb$", ".md", nav)
    if isinstance(nav, dict):
        kept = {title: _existing(part, there) for title, part in nav.items()}
        return {title: part for title, part in kept.items() if part} or None
    return [part for part in (_existing(part, there) for part in nav) if part]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose source is no Markdown file in docs/."""
    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text("utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        text, pictures = _converted(notebook)
        page = notebook.src_uri.removesuffix(".ipynb") + ".md"
        files.append(File.generated(config, page, content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, name, content=picture))
    return files


def _converted(notebook: File) -> tuple[str, dict[str, bytes]]:
    """Return a notebook with its outputs as Markdown, and its pictures by their place in docs/."""
    place = PurePosixPath(notebook.src_uri)
    content = nbformat.reads(notebook.content_string, as_version=4)
    # Beside the page: "own_text_files/1.png".
    names = {"unique_key": f"{place.stem}_files/out", "output_files_dir": "."}
    text, resources = MarkdownExporter().from_notebook_node(content, resources=names)
    pictures = {
        (place.parent / name).as_posix(): data for name, data in resources["outputs"].items()
    }
    return f"{text}\n[This page as a notebook]({place.name}){{ download }}\n", pictures


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to what is a page here at that page."""
    for source, target in OUTSIDE.items():
        markdown = markdown.replace(f"](../{source})", f"]({target})")
    # The notebook's own page offers the file itself.
    return re.sub(r"(\]\([\w./-]+)\.ipynb\)(?!\{ download \})", r"\1.md)", markdown)
