"""Retention of the data that the store can do without: `[keep]` in the settings."""

from __future__ import annotations

from typing import Final, NamedTuple

_DAY_MS: Final = 86_400_000


class Keep(NamedTuple):
    """Retention times in ms. `history`: the transitions of ids, their commits and aborts by minute, expired ids, and
    the volume and markers of tailed partitions. `minutes`: commits and aborts of the whole cluster by minute.
    `producer_ids`: producer ids that no transactional.id has any more. `rejects`: undecodable records. `gaps`: offsets
    that could not be read. `findings`: resolved findings."""

    history: int = 7 * _DAY_MS
    minutes: int = 31 * _DAY_MS
    producer_ids: int = 90 * _DAY_MS
    rejects: int = 31 * _DAY_MS
    gaps: int = 31 * _DAY_MS
    findings: int = 31 * _DAY_MS


DEFAULT: Final = Keep()
