"""Labels of metrics: texts that are too long for Prometheus and its readers are cut, and still name one id.

Prometheus keeps every label in memory, once a series, and some of its stores refuse a sample whose labels are longer
than a few kilobytes. Kafka allows 32,767 bytes for an id or a group, and escapes make six of one.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

LABEL_BYTES: Final = 256
"""Bytes of UTF-8 that a label holds at most."""

DIGEST_DIGITS: Final = 8

_MARK: Final = "…"
_KEPT_BYTES: Final = LABEL_BYTES - len(_MARK.encode()) - DIGEST_DIGITS
_ALWAYS_FITS: Final = LABEL_BYTES // 4  # characters: none has more than four bytes
_CUT: Final = re.compile(rf"(?s)(.+){_MARK}[0-9a-f]{{{DIGEST_DIGITS}}}")
_UNFINISHED: Final = re.compile(r"\\(?:[ux](?:\{[0-9a-f]*)?)?\Z")
"""Matches the beginning of an escape of `service.store.escaped_text` that the cut has parted from its end."""


def label_text(text: str) -> str:
    """Returns the text as a label: itself, or if it is longer than LABEL_BYTES its first part, `…` and digits of the
    SHA-256 of the whole, so that two long texts stay two labels."""
    if len(text) <= _ALWAYS_FITS:
        return text
    whole = text.encode()
    if len(whole) <= LABEL_BYTES:
        return text
    return whole[:_KEPT_BYTES].decode(errors="ignore") + _MARK + sha256(whole).hexdigest()[:DIGEST_DIGITS]


def kept_part(label: str) -> str | None:
    """Returns the first part of a label that `label_text` has cut, up to the last whole escape; None if the text cannot
    be such a label."""
    found = _CUT.fullmatch(label)
    if found is None or not _KEPT_BYTES - 4 < len(found[1].encode()) <= _KEPT_BYTES:
        return None
    return _UNFINISHED.sub("", found[1])
