"""Arguments of commands that people paste into a shell."""

from __future__ import annotations

import shlex


def argument(raw: bytes) -> str | None:
    r"""The bytes for bash or zsh to take as they are: `$'a\x09b'` where they do not print. None: no argument can hold
    them, since it ends at NUL."""
    if b"\0" in raw:
        return None
    text = raw.decode("utf-8", "surrogateescape")
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(c: str) -> str:
    if c in "\\'":
        return f"\\{c}"
    return c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in c.encode("utf-8", "surrogateescape"))
