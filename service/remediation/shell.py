"""Arguments of commands that people paste into a shell."""

from __future__ import annotations

import shlex


def argument(raw: bytes) -> str | None:
    r"""Returns the bytes quoted for bash or zsh: `$'a\x09b'` if they are not printable. None if they contain NUL, at
    which an argument ends."""
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
