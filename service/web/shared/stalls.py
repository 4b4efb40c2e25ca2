"""Lines of the pages about the sources that stall, with the time since when and the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from service.domain.findings.formatting import join_names
from service.domain.source_state import Cause, SourceName, Stall
from service.views.cluster.sources import why_stalled

_NAMES: Final[Mapping[str, str]] = {
    SourceName.TRANSACTION_LOG: "the transaction log",
    SourceName.PARTITIONS: "the data partitions",
    SourceName.LEDGER: "the ledger of markers",
}
_TOGETHER_MS: Final = 5_000
"""Sources that stall for the same reason within this time stall together: each succeeds at a moment of its own."""


class StallLine(NamedTuple):
    """Sources that stall together, as the line "`lead` since `since_ms`: `why`." `names`: of the sources, as in a
    sentence.

    `since_ms`: None if they were never read. `is_starting`: they are about to be read for the first time.
    """

    sources: tuple[str, ...]
    names: str
    lead: str
    since_ms: int | None
    why: str
    is_starting: bool


def stall_lines(stalls: Mapping[str, Stall], now_ms: int) -> tuple[StallLine, ...]:
    """Returns a line for each group of sources that stall together, in the order of `stalls`."""
    groups: list[dict[str, Stall]] = []
    for source, stall in stalls.items():
        for group in groups:
            if _are_together(stall, next(iter(group.values()))):
                group[source] = stall
                break
        else:
            groups.append({source: stall})
    return tuple(_line(group, now_ms) for group in groups)


def _are_together(one: Stall, other: Stall) -> bool:
    if (one.cause, one.error) != (other.cause, other.error):
        return False
    return one.since_ms == other.since_ms or _is_near(one.since_ms, other.since_ms)


def _is_near(one_ms: int | None, other_ms: int | None) -> bool:
    return one_ms is not None and other_ms is not None and abs(one_ms - other_ms) <= _TOGETHER_MS


def _line(group: Mapping[str, Stall], now_ms: int) -> StallLine:
    stall = next(iter(group.values()))
    since_ms = min((one.since_ms for one in group.values() if one.since_ms is not None), default=None)
    names = join_names([_NAMES.get(source, source) for source in group])
    # despite an error, a part of the source may still be read: a log with one partition that has no leader
    lead = f"No complete read of {names}" if stall.cause is Cause.FAILING else f"Nothing new of {names}"
    return StallLine(
        sources=tuple(group),
        names=names,
        lead=lead,
        since_ms=since_ms,
        why=why_stalled(stall, now_ms, is_dated=not _is_near(since_ms, stall.unread_since_ms)),
        is_starting=stall.cause is Cause.NOT_YET,
    )
