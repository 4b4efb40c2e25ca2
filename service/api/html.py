"""HTML by format strings that escape: what is not marked as HTML already is text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from string import Formatter
from typing import Any


class Html(str):
    """Text that is HTML; only this module's functions make it from other text."""

    __slots__ = ()


class _Escaping(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        text = str(super().format_field(value, format_spec))
        return text if isinstance(value, Html) else escape(text)


def html(template: str, /, **values: object) -> Html:
    """The template, written by us, with the values escaped."""
    return Html(_Escaping().vformat(template, (), values))


def join(parts: Iterable[Html]) -> Html:
    return Html("".join(parts))
