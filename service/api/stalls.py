"""Which sources of a cluster stall, and the one line that says why: the only place where that becomes English."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection

from service.domain.findings.words import moment
from service.domain.partitions.facts import SOURCE as PARTITIONS
from service.domain.source_state import Cause, Stall, stall_of
from service.domain.transaction_log.topic import SOURCE as LOG
from service.store.queries import clusters
from service.store.queries.clusters import StatusRow
from service.store.queries.judged_partitions import Coverage

_ALWAYS_READ: Final = (LOG, PARTITIONS)
_ENDED: Final = {
    Cause.STOPPED: "the last one was stopped",
    Cause.LOST: "the last one died or makes no progress",
}
_OTHERS: Final = {
    Cause.NO_APPLICATION: "no streaming application has read this cluster yet",
    Cause.NOT_YET: "the streaming application is starting and has not read it yet",
    Cause.NO_PROGRESS: "the streaming application runs but makes no progress here; it is starting, busy or short of"
    " CPU",
}


def read_stalls(
    connection: Connection, cluster_id: int, statuses: Mapping[str, StatusRow], coverage: Coverage, now_ms: int
) -> dict[str, Stall]:
    """Returns the sources that stall, by name, also those of which nothing was ever stored. `coverage`: of data
    partitions."""
    lease = clusters.lease_state(connection, cluster_id)
    found: dict[str, Stall] = {}
    for source in dict.fromkeys((*_ALWAYS_READ, *statuses)):
        status = statuses.get(source, StatusRow(source, None, None))
        # one partition without an answer keeps the sampler's last success back, and not the look at all others
        as_of_ms = coverage.looked_at_ms if source == PARTITIONS else status.as_of_ms
        stall = stall_of(as_of_ms, status.error, lease, now_ms)
        if stall is not None:
            found[source] = stall
    return found


def why_stalled(stall: Stall, now_ms: int, *, is_dated: bool = True) -> str:
    """Returns the reason in one line, without a full stop.

    `is_dated`: with the time since which no application reads the cluster; not needed beside `since_ms` where the
    two are the same.
    """
    if stall.error is not None:
        gone = "" if stall.unread_since_ms is None else f"; {_unread(stall, now_ms, is_dated)}"
        return f"{stall.error}{gone}"
    if stall.cause is Cause.CLOCK_SET_BACK and stall.until_ms is not None:
        return f"the clock was set back: until {_time(stall.until_ms, now_ms)} all that is read passes for old"
    if (ended := _ENDED.get(stall.cause)) is not None:
        return f"{_unread(stall, now_ms, is_dated)}; {ended}"
    return _OTHERS[stall.cause]


def _unread(stall: Stall, now_ms: int, is_dated: bool) -> str:
    if stall.unread_since_ms is None or not is_dated:
        return "no streaming application reads this cluster"
    return f"no streaming application has read this cluster since {_time(stall.unread_since_ms, now_ms)}"


def _time(ms: int, now_ms: int) -> str:
    """ "10:34:12 UTC", with the date where that is another day than now."""
    return moment(ms).removeprefix(moment(now_ms)[: len("2026-03-14 ")])
