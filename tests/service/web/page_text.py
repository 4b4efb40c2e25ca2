"""Parses a page: the text of every element that has an id, the targets of hyperlinks, and the headline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from html.parser import HTMLParser
from typing import Any, Final

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from tests.helpers.stores import NOW_MS

_VOID: Final = frozenset({"wbr", "input", "br", "meta", "link", "img", "hr"})
_INLINE: Final = frozenset({"a", "b", "time", "wbr", "code", "svg", "path", "circle"})


class PageText(HTMLParser):
    """A parsed page.

    - `texts`: the text of each element, keyed by the element's id; under "", the text of the whole page.
    - `links`: the address of each hyperlink, keyed by the hyperlink's text. Of several hyperlinks with one text, the
      last one counts.
    - `title`: the headline.
    - `html`: the source.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self._open: list[tuple[str, str | None]] = []
        self._pieces: dict[str, list[str]] = {"": []}
        self._links: list[tuple[str, list[str]]] = []
        self.feed(html)
        self.close()
        self.texts = {id_: " ".join("".join(parts).split()) for id_, parts in self._pieces.items()}
        self.links = {" ".join("".join(parts).split()): address for address, parts in self._links}

    @property
    def title(self) -> str:
        (found,) = re.findall(r"<h1[^>]*>(.*?)</h1>", self.html, re.DOTALL)
        return " ".join(unescape(re.sub(r"<[^>]+>", "", found)).split())

    def rows(self, prefix: str) -> list[str]:
        """Returns the texts of all elements whose id begins with `prefix`, in the order of the page."""
        return [self.texts[id_] for id_ in self.ids(prefix)]

    def ids(self, prefix: str) -> list[str]:
        return [id_ for id_ in self.texts if id_.startswith(prefix)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in _INLINE:
            self._add(" ")
        if tag in _VOID:
            return
        self._open.append((tag, given.get("id")))
        if (id_ := given.get("id")) is not None:
            assert id_ not in self._pieces, f"the id {id_!r} occurs twice on the page"
            self._pieces[id_] = []
        if tag == "a":
            self._links.append((given.get("href") or "", []))

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        """Ignores self-closing elements, which are drawings without text."""

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass
        if tag not in _INLINE:
            self._add(" ")

    def handle_data(self, data: str) -> None:
        self._add(data)
        if any(tag == "a" for tag, _ in self._open):
            self._links[-1][1].append(data)

    def _add(self, data: str) -> None:
        for id_ in ["", *(id_ for _, id_ in self._open if id_ is not None)]:
            self._pieces[id_].append(data)


def page_of(
    url: str, path: str, status: int = 200, now_ms: int = NOW_MS, headers: Mapping[str, str] | None = None
) -> PageText:
    """Returns a page that the application renders from the store at the time `now_ms`. Fails the test if the answer's
    status is not `status`."""
    with TestClient(create_app(url, "1.2.3", now_ms=lambda: now_ms)) as client:
        answer = client.get(path, headers=dict(headers or {}))
    if answer.status_code != status:
        pytest.fail(f"{path} answers {answer.status_code}: {answer.text[:500]}")
    return PageText(answer.text)


def shows(text: str, *facts: str) -> bool:
    """Returns whether the facts occur in the text in this order, with any words between them."""
    return re.search(".*".join(map(re.escape, facts)), text) is not None
