"""Durations as people write them: `90s`, `15m`, `24h`, `7d`."""

from __future__ import annotations

import re
from typing import Any, Final

PATTERN: Final = "[0-9]{1,9}[smhd]"
LIKE: Final = "90s, 15m, 24h or 7d"

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def span_ms(text: Any) -> int:
    """Returns the duration in ms. Raises ValueError if the text does not have one of the forms in LIKE. The error's
    message is one line, and quotes the text."""
    if not isinstance(text, str) or re.fullmatch(PATTERN, text, re.ASCII) is None:
        raise ValueError(f"{text!r} is no duration like {LIKE}")
    return int(text[:-1]) * _UNIT_MS[text[-1]]
