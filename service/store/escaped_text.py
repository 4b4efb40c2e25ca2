r"""Readable text for transactional.ids and other bytes of the log, keys of long ids in the store, and labels of
metrics.

There are two notations. Transactional ids (`display_id`) have `\u{9}` for a character and `\x{ff}` for a byte that is
no UTF-8; no two ids have the same text, and a real id hardly ever contains this notation. Other names and whole lines
(`printable`) have Python's notation, `\t` and `\x85`.

`id_key` shortens long ids, because a B-tree of a database holds at most 2,704 bytes a row: an id may have 32,767 bytes,
and a topic name in the same index 249.

`group_name` shortens long names of groups for the same reason.

`label_text` shortens long labels: Prometheus keeps the labels of every series in memory, and some remote storages
refuse labels of more than a few kilobytes. Escapes make texts longer: `\x{ff}` has six characters for one byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

_NOTATION: Final = r"(?:x\{([0-9a-fA-F]{2})\}|u\{([0-9a-fA-F]{1,6})\})"
_ESCAPE: Final = re.compile(rf"\\{_NOTATION}")
_LOST: Final = re.compile(rf"\A | \Z|(?<= ) |\\(?={_NOTATION})")
"""Matches printable characters that a copied text may lose or change: a space at either end or after a space, and a
backslash that would be read as an escape."""
_SPACE: Final = "\\u{20}"

_PYTHON: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|([tnr]))")
_JSON: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}
_BYTE: Final = 0xDC00
"""Base of the surrogates that represent bytes which are no UTF-8 (PEP 383): byte 0x80 is `_BYTE + 0x80`."""


def display_id(raw: bytes) -> str:
    """Returns the id as text, different for each id. Whatever is not UTF-8, does not print, or would be lost in a copy
    is escaped.

    Databases refuse NUL or lone surrogates in texts, and a terminal would execute control characters.
    """
    text = raw.decode("utf-8", "surrogateescape")
    if text.isprintable() and " " not in text and "\\" not in text:
        return text
    text = _LOST.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", text)
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def shown_id(text: str | None, b64: str | None) -> str | None:
    """Returns the display text of an id in REST's JSON. `text`, `b64`: the fields `transactional_id` and
    `transactional_id_b64`. If `b64` is not None, `text` is the display text already. Returns None if `text` is None."""
    return text if text is None or b64 is not None else display_id(text.encode())


def part_displays(part: bytes) -> list[str]:
    """Returns every text by which `display_id` of a whole id may show this part of the id. The texts differ, because
    the characters beside the part decide whether a space at the beginning or end of the part is escaped."""
    shown = [display_id(part)]
    if part.startswith(b" "):
        shown += [" " + one.removeprefix(_SPACE) for one in shown]
    if part.endswith(b" "):
        shown += [one.removesuffix(_SPACE) + " " for one in shown if one.endswith(_SPACE)]
    return list(dict.fromkeys(shown))


def printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def possible_ids(text: str) -> list[bytes]:
    """Returns the ids that a text may name, each once, in this order: the id with this very text; the id that
    `display_id` shows as this text; the ids whose text may have been copied out of raw JSON, raw metrics or a terminal
    without UTF-8."""
    if "\\" not in text:
        return [text.encode()]
    spellings = [
        text,
        _unquoted(text),
        _PYTHON.sub(lambda match: _of_python(match, is_byte=False), text),
        _PYTHON.sub(lambda match: _of_python(match, is_byte=True), text),
    ]
    texts = [reading for spelling in spellings for reading in (spelling, _ESCAPE.sub(_of_escape, spelling))]
    return list(dict.fromkeys(_encoded(texts)))


def possible_ids_of(raw: bytes) -> list[bytes]:
    """Returns the `possible_ids` of a text given as bytes; for bytes that are not UTF-8, returns only these bytes."""
    try:
        return possible_ids(raw.decode())
    except UnicodeDecodeError:
        return [raw]


def _escaped(c: str) -> str:
    code = ord(c)
    return f"\\x{{{code - _BYTE:02x}}}" if 0xDC80 <= code <= 0xDCFF else f"\\u{{{code:x}}}"


def _of_escape(match: re.Match[str]) -> str:
    byte, character = match.groups()
    if byte:
        return _byte(int(byte, 16))
    code = int(character, 16)
    return chr(code) if code <= 0x10FFFF else match[0]


def _of_python(match: re.Match[str], *, is_byte: bool) -> str:
    r"""Returns the text that an escape in Python's notation represents. `is_byte`: True if `\x80` and above represent
    bytes, False if they represent characters."""
    byte, *longer, letter = match.groups()
    if letter:
        return _LETTERS[letter]
    code = int(byte or longer[0] or longer[1], 16)
    return _byte(code) if byte and is_byte else chr(code)


def _byte(code: int) -> str:
    return chr(code if code < 0x80 else code + _BYTE)


def _unquoted(text: str) -> str:
    """Returns the text with JSON's escapes decoded; metrics use a subset of these. A surrogate pair becomes one
    character. If the result would contain a lone surrogate, returns the text unchanged."""
    told = _JSON.sub(lambda match: chr(int(match[1], 16)) if match[1] else _LETTERS.get(match[2], match[2]), text)
    try:
        return told.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return text


def _encoded(texts: list[str]) -> Iterator[bytes]:
    for text in texts:
        try:
            yield text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            continue


KEY_ID_BYTES: Final = 1_024
"""Number of bytes that the key of a long id keeps of the id. An id (or a prefix of an id) of at most this length is its
own key."""

_MARK: Final = b"\xff"  # never part of UTF-8, so in no id that a coordinator writes
_CUT_LENGTH: Final = KEY_ID_BYTES + len(_MARK) + sha256().digest_size


def id_key(transactional_id: bytes) -> bytes:
    """Returns the key of an id: the id itself or, for a long id, its beginning, 0xff and the SHA-256 of the whole id.
    The key of a key is the key itself."""
    if len(transactional_id) <= KEY_ID_BYTES or is_cut(transactional_id):
        return transactional_id
    return transactional_id[:KEY_ID_BYTES] + _MARK + sha256(transactional_id).digest()


def is_cut(key: bytes) -> bool:
    """Returns whether the key is a shortened id."""
    return len(key) == _CUT_LENGTH and key.startswith(_MARK, KEY_ID_BYTES)


def prefix_end(prefix: bytes) -> bytes | None:
    """Returns the smallest byte string above all byte strings that begin with `prefix`; None if `prefix` is empty or
    all 0xff."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def full_id(key: bytes, display: str) -> bytes:
    """Returns the whole id of a key, read from the display text and verified by the key's digest. If no reading of the
    text has that digest, returns the key, which finds the same row."""
    if not is_cut(key):
        return key
    return next((reading for reading in possible_ids(display) if id_key(reading) == key), key)


_ELLIPSIS: Final = "…"

LONGEST_GROUP: Final = 600
"""Maximum number of characters kept of a group's name: an index of a database server holds at most 2,704 bytes a row,
and Kafka allows longer names."""

_GROUP_DIGITS: Final = 16
_CUT_GROUP: Final = re.compile(rf"(?s).{{{LONGEST_GROUP}}}{_ELLIPSIS}[0-9a-f]{{{_GROUP_DIGITS}}}")


def group_name(group: str) -> str:
    """Returns the name of a group as it is stored and shown: characters that do not print are escaped, and a very long
    name is cut and gets a digest. A name in this form stays as it is."""
    shown = printable(group)
    if len(shown) <= LONGEST_GROUP or _CUT_GROUP.fullmatch(shown):
        return shown
    return f"{shown[:LONGEST_GROUP]}{_ELLIPSIS}{sha256(shown.encode()).hexdigest()[:_GROUP_DIGITS]}"


LABEL_BYTES: Final = 256
"""Maximum length of a label, in bytes of UTF-8."""

DIGEST_DIGITS: Final = 8

_KEPT_BYTES: Final = LABEL_BYTES - len(_ELLIPSIS.encode()) - DIGEST_DIGITS
_ALWAYS_FITS: Final = LABEL_BYTES // 4  # characters: none has more than four bytes
_CUT: Final = re.compile(rf"(?s)(.+){_ELLIPSIS}[0-9a-f]{{{DIGEST_DIGITS}}}")
_UNFINISHED: Final = re.compile(r"\\(?:[ux](?:\{[0-9a-f]*)?)?\Z")
"""Matches an incomplete escape at the place where a text was cut."""


def label_text(text: str) -> str:
    """Returns the text as a label. A text longer than LABEL_BYTES becomes its first part, `…` and digits of the SHA-256
    of the whole, so that different texts keep different labels."""
    if len(text) <= _ALWAYS_FITS:
        return text
    whole = text.encode()
    if len(whole) <= LABEL_BYTES:
        return text
    return whole[:_KEPT_BYTES].decode(errors="ignore") + _ELLIPSIS + sha256(whole).hexdigest()[:DIGEST_DIGITS]


def kept_part(label: str) -> str | None:
    """Returns the first part of a label that `label_text` has cut, up to the last whole escape; None if the text cannot
    be such a label."""
    found = _CUT.fullmatch(label)
    if found is None or not _KEPT_BYTES - 4 < len(found[1].encode()) <= _KEPT_BYTES:
        return None
    return _UNFINISHED.sub("", found[1])
