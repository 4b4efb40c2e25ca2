"""Bytes of the log as text people can read, search and copy."""

from __future__ import annotations


def display_id(raw: bytes) -> str:
    """UTF-8 where it is; what is not, and every character that does not print, as a backslash escape.

    PostgreSQL's text refuses NUL and lone surrogates, and a terminal should not obey an id.
    """
    return printable(raw.decode("utf-8", "backslashreplace"))


def printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
