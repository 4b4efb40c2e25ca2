"""Idle ids that their coordinators will remove, and ids that their coordinators have removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings.events import SINGLE_IDS, prefix_of
from service.domain.findings.ids_running_out import soon_ms
from service.domain.transaction_log.known_log import Limits
from service.domain.transaction_log.states import LAST_TIME_MS
from service.store.queries.expiring import count_expiring
from service.store.rows.ids import IdRow

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000


class ExpiringId(NamedTuple):
    """An id that can expire. `swept_ms`: the latest time at which the coordinator removes the id. `used`: how much of
    the time between the id's last use and its expiry has passed, in percent."""

    row: IdRow
    expires_ms: int
    swept_ms: int
    used: int
    is_soon: bool

    @staticmethod
    def of(row: IdRow, limits: Limits, now_ms: int) -> ExpiringId:
        used_ms = row.record.last_update_ms
        expires_ms = used_ms + limits.expiration_ms
        used = 100 * (now_ms - used_ms) // max(limits.expiration_ms, 1)
        is_soon = expires_ms - now_ms <= soon_ms(limits.expiration_ms)
        return ExpiringId(row, expires_ms, expires_ms + limits.sweep_ms, min(max(used, 0), 100), is_soon)


class Counted(NamedTuple):
    """Numbers of ids that expire within an hour, within a day, within three days, and at any time. `parts`: the
    remaining time is divided into parts (see `count_ids`); for each part, the number of ids that expire in it."""

    hour: int
    day: int
    three_days: int
    all: int
    parts: tuple[int, ...]


def count_ids(
    connection: Connection, cluster_id: int, limits: Limits, as_of_ms: int, bounds_ms: Sequence[int]
) -> Counted:
    """Counts the ids by the time left until they expire, in one read of the index. `bounds_ms`: the upper bounds of the
    parts, in ms after `as_of_ms`; the last part has no upper bound. Ids whose expiry time has passed count in the first
    part."""
    left_ms = sorted({_HOUR_MS, _DAY_MS, 3 * _DAY_MS, *bounds_ms, LAST_TIME_MS})
    until_ms = [min(as_of_ms + left, LAST_TIME_MS) - limits.expiration_ms for left in left_ms]
    found = dict(zip(left_ms, count_expiring(connection, cluster_id, until_ms), strict=True))
    ends = [found[bound] for bound in bounds_ms[:-1]] + [found[LAST_TIME_MS]]
    parts = tuple(end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True))
    return Counted(found[_HOUR_MS], found[_DAY_MS], found[3 * _DAY_MS], found[LAST_TIME_MS], parts)


class Gone(NamedTuple):
    """One expired id, or several expired ids with one `prefix`. `last`: the id that expired last."""

    last: IdRow
    prefix: str | None
    ids: int


def gone_ids(expired: Iterable[IdRow]) -> list[Gone]:
    """Returns the expired ids, the last expired first. More than SINGLE_IDS ids with one prefix become one row.
    `expired`: the last expired first."""
    by_prefix: dict[str, list[IdRow]] = {}
    for id_row in expired:
        by_prefix.setdefault(prefix_of(id_row.display), []).append(id_row)
    found: list[Gone] = []
    for prefix, some in by_prefix.items():
        found += [Gone(some[0], prefix, len(some))] if len(some) > SINGLE_IDS else [Gone(one, None, 1) for one in some]
    return sorted(found, key=lambda gone: -gone.last.record.timestamp_ms)
