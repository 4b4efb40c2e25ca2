"""Bytes of the log as text people can read, search and copy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4})|([tnr]))")
_LETTERS: Final = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}


def display_id(raw: bytes) -> str:
    """UTF-8 where it is; what is not, and every character that does not print, as a backslash escape.

    PostgreSQL's text refuses NUL and lone surrogates, and a terminal should not obey an id.
    """
    return printable(raw.decode("utf-8", "backslashreplace"))


def printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def readings(display: str) -> Iterator[bytes]:
    """What `display_id` may have been given: no escape at all, escaped bytes, escaped characters."""
    text = display.encode()
    yield text
    if _ESCAPE.search(text):
        yield _ESCAPE.sub(lambda match: _unescaped(match, invalid=True), text)
        yield _ESCAPE.sub(lambda match: _unescaped(match, invalid=False), text)


def _unescaped(match: re.Match[bytes], *, invalid: bool) -> bytes:
    r"""`invalid`: `\x80` and above were bytes that are not UTF-8; else characters that do not print."""
    byte, *longer, letter = match.groups()
    if letter:
        return _LETTERS[letter]
    code = int(byte or longer[0] or longer[1], 16)
    return bytes([code]) if byte and (invalid or code < 0x80) else chr(code).encode("utf-8", "surrogatepass")
