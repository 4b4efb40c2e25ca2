"""An offset as people type or paste it: `48211900`, `48,211,900`; out of a form, where what is empty is not there."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LAST: Final = 2**63 - 1

_NUMBER: Final = re.compile(r"[0-9]{1,3}(?:[, _][0-9]{3})+|[0-9]{1,19}", re.ASCII)


class Asked(NamedTuple):
    """Offsets [offset, to). `mistake`: what is wrong with them, one sentence."""

    offset: int | None = None
    to: int | None = None
    mistake: str | None = None


def asked(offset: str, to: str) -> Asked:
    """Nothing is asked where `offset` is empty; without `to` it is one record."""
    offset, to = offset.strip(), to.strip()
    if not offset:
        return Asked(mistake="Type the offset to begin at.") if to else Asked()
    first = _number(offset)
    if first is None or first >= LAST:
        return Asked(mistake=f"{offset[:40]!r} is no offset: a number from 0 on.")
    if not to:
        return Asked(first, first + 1)
    end = _number(to)
    if end is None or not first < end <= LAST:
        return Asked(first, None, f"{to[:40]!r} is no end: a number above the offset.")
    return Asked(first, end)


def _number(text: str) -> int | None:
    return int(re.sub("[, _]", "", text)) if _NUMBER.fullmatch(text) else None
