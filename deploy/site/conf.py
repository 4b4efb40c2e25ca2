"""The configuration of Sphinx for the site that `python -m deploy.site` makes. Variables with names in small letters
are settings of Sphinx and its extensions."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

from deploy.site.man import ROOT, declared_version
from service.web.guide_navigation import FOLDER, START, Entry, sections

project = "txnscope"
release = declared_version()
extensions = ["myst_parser"]
root_doc = Path(START).stem

html_theme = "furo"
html_title = f"txnscope {release}"
html_favicon = str(ROOT / "service" / "web" / "static" / "icon.svg")
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
html_use_index = False
html_show_search_summary = False  # a page opened from a file may not read others

smartquotes = False  # `--flag` has two hyphens
myst_heading_anchors = 3
myst_disable_syntax = ["myst_block_break", "myst_line_comment", "myst_role", "myst_target"]
"""Syntax of MyST that is switched off: CommonMark and GitHub show it as plain text, and so does the site."""


def unlink_files_of_the_repository(_app: Sphinx, page: nodes.document) -> None:
    """Replaces each link to a page of the repository outside docs/ by the link's text, as the guide of the service
    does. A link to a page that does not exist is not replaced, and makes the build fail."""
    for link in list(page.findall(pending_xref)):
        file = Path(f"{link['reftarget']}.md")  # absolute, if it is outside
        if link.get("refdomain") == "doc" and file.is_absolute() and file.is_relative_to(ROOT) and file.is_file():
            link.replace_self(nodes.inline("", "", *link.children))


def toctree(caption: str, entries: tuple[Entry, ...]) -> str:
    """Returns a directive that puts pages into the navigation."""
    lines = [f"{entry.title} </{entry.name.removesuffix('.md')}>" for entry in entries]
    return "\n".join(["", "", "```{toctree}", ":hidden:", f":caption: {caption}", "", *lines, "```", ""])


def add_navigation(_app: Sphinx, document: str, source: list[str]) -> None:
    """Adds to the page of a folder (README.md) a toctree of the other pages in the folder. The start page gets a
    toctree for each section of docs/index.md."""
    if document == root_doc:
        source[0] += "".join(toctree(section.title, section.entries) for section in sections())
    elif document.endswith(FOLDER.removesuffix(".md")):
        for section in sections():
            for entry in section.entries:
                if entry.name == f"{document}.md":
                    source[0] += toctree(entry.title, entry.below)


def setup(app: Sphinx) -> None:
    app.add_lexer("log", TextLexer)  # the language that docs/causes.md gives its lines of the transaction log
    app.connect("source-read", add_navigation)
    app.connect("doctree-read", unlink_files_of_the_repository)
