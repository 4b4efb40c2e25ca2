"""Serves docs/ as pages under `/guide/…`, so that whoever reaches the service can also open an alert's runbook.

The addresses are those of the files (`/guide/runbooks/KafkaTransactionHanging.md`), so links between the files work
here, too.
"""

from __future__ import annotations

import posixpath
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from mdit_py_plugins.anchors import anchors_plugin
from starlette.exceptions import HTTPException

from service.web.guide_navigation import DOCS, START, sections, title_of
from service.web.shared.render import render_bare

GUIDE: Final = "/guide"
RUNBOOKS: Final = f"{GUIDE}/runbooks"
INDEX: Final = "runbooks/README.md"

router = APIRouter(include_in_schema=False)


class GuidePage(NamedTuple):
    """A page of the guide. `title`: its first heading."""

    title: str
    body: Markup


@router.get(GUIDE)
@router.get(f"{GUIDE}/")
def get_guide() -> Response:
    """Redirects (303) to the list of all pages."""
    return RedirectResponse(f"{GUIDE}/{START}", 303)


@router.get(GUIDE + "/{name:path}")
def get_guide_page(name: str) -> Response:
    """Returns a page of the guide; 404 if docs/ does not have it."""
    if name not in guide_names():
        raise HTTPException(404, f"The guide has no page {name!r}. {GUIDE} lists them.")
    return render_bare(
        "guide.html", guide=guide_page(name), name=name, start=START, runbooks=INDEX, sections=sections()
    )


@cache
def guide_names() -> frozenset[str]:
    """Returns the paths of the pages below docs/. The guide never opens any other file."""
    return frozenset(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


@cache
def guide_page(name: str) -> GuidePage:
    """Returns the rendered page. `name`: one of `guide_names()`."""
    markdown = MarkdownIt("commonmark").enable("table").use(anchors_plugin, max_level=3)
    tokens = markdown.parse((DOCS / name).read_text("utf-8"))
    for token in tokens:
        _unlink(token.children or [], name)
    # our own text, not a user's
    return GuidePage(title_of(tokens), Markup(markdown.renderer.render(tokens, markdown.options, {})))  # noqa: S704


def _unlink(inline: list[Token], name: str) -> None:
    """Turns links that leave docs/ into plain text, because their files are in the repository and not in the guide.
    Links in Markdown do not nest."""
    kept = True
    for token in inline:
        if token.type == "link_open":
            kept = _leads_somewhere(str(token.attrs["href"]), name)
        if token.type in ("link_open", "link_close") and not kept:
            token.tag, token.attrs = "span", {}


def _leads_somewhere(address: str, name: str) -> bool:
    target = urlsplit(address)
    if target.scheme or not target.path:
        return True
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target.path)) in guide_names()
