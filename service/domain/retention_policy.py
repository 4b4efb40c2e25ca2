"""Retention of the data that the store can do without: `[keep]` in the settings."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from service.domain.duration_text import span_ms

_DAY_MS: Final = 86_400_000
_SHORTEST_MS: Final = 3_600_000


class Keep(NamedTuple):
    """Retention times in ms. `history`: transitions and minutes of ids, expired ids, volume and markers of tailed
    partitions. `minutes`: commits and aborts of the whole cluster by minute. `producer_ids`: those that no id has now.
    `findings`: resolved ones.
    """

    history: int = 7 * _DAY_MS
    minutes: int = 31 * _DAY_MS
    producer_ids: int = 90 * _DAY_MS
    rejects: int = 31 * _DAY_MS
    gaps: int = 31 * _DAY_MS
    findings: int = 31 * _DAY_MS

    def dump(self) -> str:
        """Returns the times as JSON, for `load`."""
        return json.dumps(self._asdict())

    @classmethod
    def load(cls, text: str) -> Keep:
        return cls(**json.loads(text))


DEFAULT: Final = Keep()


def parse(table: Any) -> Keep:
    """Reads the `[keep]` table of a TOML file. Raises ValueError with one line that names the key."""
    if not isinstance(table, Mapping):
        raise ValueError("not a table: write [keep]")
    kept = {}
    for key, value in table.items():
        if key not in Keep._fields:
            near = difflib.get_close_matches(str(key), Keep._fields, 1)
            hint = f" (did you mean {near[0]}?)" if near else f"; there are: {', '.join(Keep._fields)}"
            raise ValueError(f"unknown key {key!r}{hint}")
        try:
            kept[key] = span_ms(value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
        if kept[key] < _SHORTEST_MS:
            raise ValueError(f"{key}: {value!r} is shorter than an hour")
    return Keep(**kept)
