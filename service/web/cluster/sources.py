"""The sources of the data on the pages: the age of each, its lag, its coverage, and what depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from service.domain.reasons.reason import text_of
from service.domain.source_state import SourceName, Stall
from service.store.queries.clusters import LogPartitionRow
from service.store.queries.pipeline import RequestTimes
from service.views import words
from service.views.cluster.frame import LATE, LIVE, NEVER, OLD, UNKNOWN, Freshness
from service.views.cluster.sources import Source

_NAMES: Final[Mapping[str, tuple[str, str, str]]] = {
    SourceName.TRANSACTION_LOG: (
        "Transaction log",
        "__transaction_state, every record",
        "state, cause, timeouts, expiry, names",
    ),
    SourceName.PARTITIONS: (
        "Data partitions",
        "ListOffsets on all; batch headers and DescribeProducers where the LSO is stalled",
        "hidden records, hanging, stuck, blockers",
    ),
    SourceName.LEDGER: ("Ledger", "headers of all batches of the chosen topics", "markers and volume"),
}
_STATES: Final = {
    LIVE: ("ok", "current", "ok"),
    LATE: ("warning", "late", "clock"),
    OLD: ("warning", "old: last known", "clock"),
    UNKNOWN: ("unknown", "stopped: unknown", "unknown"),
    NEVER: ("unknown", "never read", "unknown"),
}


class SourceRow(NamedTuple):
    """A source of data. `tone`, `state`, `icon`: of its pill; `as_of_ms`: None if it was never read. `lag`, `rate`,
    `rejects`: None if it has none. `note`: anything else to report. `stalls`: the source stalls, and the note gives the
    reason; `stalled_since_ms`: since when, None if it was never read."""

    source: str
    name: str
    what: str
    tone: str
    state: str
    icon: str
    as_of_ms: int | None
    lag: int | None
    rate: str | None
    coverage: str
    rejects: int | None
    needed_for: str
    note: str | None = None
    stalls: bool = False
    stalled_since_ms: int | None = None

    @property
    def is_well(self) -> bool:
        return self.tone in ("ok", "quiet")


def source_rows(
    sources: Iterable[Source],
    as_of_ms: Mapping[str, int | None],
    stalls: Mapping[str, Stall],
    logs: Iterable[LogPartitionRow],
    rejects: Mapping[tuple[str, int], int],
    now_ms: int,
) -> list[SourceRow]:
    """Returns the rows, the transaction log first. `as_of_ms`: the last success by
    source. `logs`: of the sources that are read in order. `rejects`: by source and partition."""
    rates: dict[str, float] = {}
    for row in logs:
        rates[row.source] = rates.get(row.source, 0) + row.transitions_per_s
    found = []
    for one in sorted(sources, key=lambda one: (one.source != SourceName.TRANSACTION_LOG, one.source)):
        is_read = one.lag is not None
        count = sum(number for (source, _), number in rejects.items() if source == one.source)
        found.append(
            _row(
                one,
                as_of_ms.get(one.source),
                stalls.get(one.source),
                words.rate(rates.get(one.source, 0)) if is_read else None,
                count if is_read else None,
                now_ms,
            )
        )
    if all(row.source != SourceName.PARTITIONS for row in found):
        found.append(
            SourceRow(
                SourceName.PARTITIONS,
                *_NAMES[SourceName.PARTITIONS][:2],
                *_STATES[NEVER],
                None,
                None,
                None,
                "unknown",
                None,
                _NAMES[SourceName.PARTITIONS][2],
            )
        )
    return found


def _row(
    one: Source,
    as_of_ms: int | None,
    stall: Stall | None,
    rate: str | None,
    rejects: int | None,
    now_ms: int,
) -> SourceRow:
    source, coverage = one.source, one.coverage
    name, what, needed_for = _NAMES.get(source, (source, "", "what it reports"))
    tone, state, icon = _STATES[Freshness(now_ms, as_of_ms).word]
    if one.error is not None and tone == "ok":
        tone, state, icon = "warning", "failing", "warning"
    elif tone == "ok" and one.lag and not one.caught_up:
        tone, state, icon = "warning", "behind", "clock"
    return SourceRow(
        source=source,
        name=name,
        what=what,
        tone=tone,
        state=state,
        icon=icon,
        as_of_ms=as_of_ms,
        lag=one.lag,
        rate=rate,
        coverage="unknown"
        if as_of_ms is None
        else f"{coverage.judged:,} of {words.plural(coverage.watched, 'partition')}",
        rejects=rejects,
        needed_for=needed_for,
        note=one.stalled_why or text_of(one.error) or coverage.why,
        stalls=stall is not None,
        stalled_since_ms=None if stall is None else stall.since_ms,
    )


def asked_rows(asked: RequestTimes, denied: int, assumed: int, configs: int, standing: int | None) -> list[SourceRow]:
    """Returns the rows of what is read from time to time: consumer groups, while a partition is stalled, and brokers'
    configs. `standing`: number of stalled partitions, None if unknown."""
    if standing is None or (standing and asked.groups_ms is None):
        groups_state = ("quiet", "not read yet", "clock")
    else:
        groups_state = ("ok", "read", "ok") if standing else ("quiet", "nothing to read", "ok")
    if denied:
        groups_state = ("warning", f"{denied:,} denied", "warning")
    if asked.configs_ms is None:
        configs_state = _STATES[NEVER]
    elif assumed:
        configs_state = ("warning", f"{assumed:,} assumed", "warning")
    else:
        configs_state = ("ok", "read", "ok")
    groups = SourceRow(
        "groups",
        "Consumer groups",
        "committed offsets on stalled partitions",
        *groups_state,
        asked.groups_ms,
        None,
        None,
        words.plural(asked.groups, "group") + (f", {denied:,} unknown" if denied else ""),
        None,
        "blocked groups",
    )
    limits = SourceRow(
        "configs",
        "Broker configs",
        "DescribeConfigs, every minute",
        *configs_state,
        asked.configs_ms,
        None,
        None,
        f"{configs - assumed:,} of {words.plural(configs, 'config')}",
        None,
        "timeouts and limits",
    )
    return [groups, limits]
