"""Takes the commands out of a page of docs/install."""

from __future__ import annotations

import shlex
from typing import Final

from markdown_it import MarkdownIt

from tests.helpers.paths import ROOT

PAGES: Final = {file.stem: file for file in sorted((ROOT / "docs" / "install").glob("*.md"))}


def blocks(page: str, language: str = "sh") -> list[str]:
    tokens = MarkdownIt("commonmark").parse(PAGES[page].read_text("utf-8"))
    return [token.content for token in tokens if token.type == "fence" and token.info == language]


def commands(page: str) -> list[list[str]]:
    return [shlex.split(line) for block in blocks(page) for line in block.splitlines()]
