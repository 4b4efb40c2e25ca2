"""Reads the list of the pages of docs/ from docs/index.md, for the guide and for the static site (`deploy.site`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

DOCS: Final = Path(__file__).parent / "docs"
"""The directory of the guide: a link to docs/ in a checkout, a copy of it in an installed package."""

START: Final = "index.md"
"""The page with the list. Its second-level headings are the sections. Each list item begins with a link to a page."""

FOLDER: Final = "README.md"
"""A listed page of this name stands for its folder: the other pages of the folder are below it."""


class Entry(NamedTuple):
    """A page in the list. `name`: the path of the page below docs/. `below`: the other pages of the folder, if the page
    is a README."""

    name: str
    title: str
    below: tuple[Entry, ...] = ()

    @property
    def names(self) -> list[str]:
        """The paths of the page, and of the pages below it."""
        return [self.name, *(entry.name for entry in self.below)]


class Section(NamedTuple):
    """Pages of one subject."""

    title: str
    entries: tuple[Entry, ...]


@cache
def sections() -> tuple[Section, ...]:
    """Returns the sections of docs/index.md with their pages. A README comes with the other pages of its folder."""
    found: list[Section] = []
    tokens = parse(START)
    for before, token in pairwise(tokens):
        if before.type == "heading_open" and before.tag == "h2":
            found.append(Section(token.content, ()))
        elif before.type == "paragraph_open" and before.level == 2 and found:
            entries = (*found[-1].entries, *_entries(token.children or []))
            found[-1] = found[-1]._replace(entries=entries)
    return tuple(found)


def parse(name: str) -> list[Token]:
    """Returns the tokens of a page of docs/."""
    return MarkdownIt("commonmark").enable("table").parse((DOCS / name).read_text("utf-8"))


def title_of(tokens: Sequence[Token]) -> str:
    """Returns the title of a page: its first heading."""
    return next(token.content for token in tokens if token.type == "inline")


def _entries(inline: Sequence[Token]) -> Iterator[Entry]:
    """Yields the page to which the first link of a list item leads."""
    for link, text in pairwise(inline):
        if link.type == "link_open":
            name = str(link.attrs["href"])
            yield Entry(name, text.content, tuple(_below(name)))
            return


def _below(name: str) -> Iterator[Entry]:
    folder, _, file = name.rpartition("/")
    if file == FOLDER:
        for page in sorted((DOCS / folder).glob("*.md")):
            if page.name != FOLDER:
                yield Entry(f"{folder}/{page.name}", title_of(parse(f"{folder}/{page.name}")))
