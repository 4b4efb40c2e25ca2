"""The sources of the data on the pages: the age, lag and coverage of each source, and the verdicts that need the
source."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from service.domain.reasons.reason import text_of
from service.domain.source_state import SourceName, Stall
from service.store.queries.clusters import LogPartitionRow
from service.store.queries.pipeline import RequestTimes
from service.views import words
from service.views.cluster.frame import LATE, LIVE, NEVER, OLD, UNKNOWN, Freshness
from service.views.cluster.sources import Source

GROUPS: Final = "groups"
CONFIGS: Final = "configs"


class About(NamedTuple):
    """A source in words: its `name`, the data that are read from it (`what`), and the verdicts that need the source."""

    name: str
    what: str
    needed_for: str


_ABOUT: Final[Mapping[str, About]] = {
    SourceName.TRANSACTION_LOG: About(
        "Transaction log", "__transaction_state, every record", "state, cause, timeouts, expiry, names"
    ),
    SourceName.PARTITIONS: About(
        "Data partitions",
        "ListOffsets on all; batch headers and DescribeProducers where the LSO is stalled",
        "hidden records, hanging, stuck, blockers",
    ),
    SourceName.LEDGER: About("Ledger", "headers of all batches of the chosen topics", "markers and volume"),
    GROUPS: About("Consumer groups", "committed offsets on stalled partitions", "blocked groups"),
    CONFIGS: About("Broker configs", "DescribeConfigs, every minute", "timeouts and limits"),
}


class State(NamedTuple):
    """The state of a source, as a page shows it: tone, text and icon."""

    tone: str
    text: str
    icon: str


_STATES: Final = {
    LIVE: State("ok", "current", "ok"),
    LATE: State("warning", "late", "clock"),
    OLD: State("warning", "old: last known", "clock"),
    UNKNOWN: State("unknown", "stopped: unknown", "unknown"),
    NEVER: State("unknown", "never read", "unknown"),
}


class SourceRow(NamedTuple):
    """A source of data. `as_of_ms`: None if the source was never read. `lag`, `rate`, `rejects`: None for a source that
    has no such number. `stall`: None if the source does not stall. `note`: the reason of the stall or, without a stall,
    anything else to report."""

    source: str
    state: State
    as_of_ms: int | None
    coverage: str
    lag: int | None = None
    rate: str | None = None
    rejects: int | None = None
    note: str | None = None
    stall: Stall | None = None

    @property
    def about(self) -> About:
        return _ABOUT.get(self.source) or About(self.source, "", "what it reports")

    @property
    def is_well(self) -> bool:
        return self.state.tone in ("ok", "quiet")


def source_rows(
    sources: Iterable[Source],
    stalls: Mapping[str, Stall],
    logs: Iterable[LogPartitionRow],
    rejects: Mapping[tuple[str, int], int],
    now_ms: int,
) -> list[SourceRow]:
    """Returns the rows, the transaction log first. The data partitions always have a row: if `sources` lacks them, the
    row shows that they were never read. `logs`: the partitions of all logs that are read. `rejects`: a mapping from
    (source, partition) to the number of rejected records."""
    rates: defaultdict[str, float] = defaultdict(float)
    for log in logs:
        rates[log.source] += log.transitions_per_s
    rejected: Counter[str] = Counter()
    for (source, _), number in rejects.items():
        rejected[source] += number
    found = [
        _row(one, stalls.get(one.source), rates[one.source], rejected[one.source], now_ms)
        for one in sorted(sources, key=lambda source: (source.source != SourceName.TRANSACTION_LOG, source.source))
    ]
    if all(row.source != SourceName.PARTITIONS for row in found):
        found.append(SourceRow(SourceName.PARTITIONS, _STATES[NEVER], None, "unknown"))
    return found


def _row(source: Source, stall: Stall | None, rate: float, rejects: int, now_ms: int) -> SourceRow:
    state, counts, is_read = _STATES[Freshness(now_ms, source.as_of_ms).word], source.coverage, source.lag is not None
    if source.error is not None and state.tone == "ok":
        state = State("warning", "failing", "warning")
    elif state.tone == "ok" and source.lag and not source.caught_up:
        state = State("warning", "behind", "clock")
    covered = f"{counts.judged:,} of {words.plural(counts.watched, 'partition')}"
    return SourceRow(
        source.source,
        state,
        source.as_of_ms,
        "unknown" if source.as_of_ms is None else covered,
        source.lag,
        words.rate(rate) if is_read else None,
        rejects if is_read else None,
        source.stalled_why or text_of(source.error) or counts.why,
        stall,
    )


def asked_rows(asked: RequestTimes, denied: int, assumed: int, configs: int, standing: int | None) -> list[SourceRow]:
    """Returns two rows: the consumer groups, which are read while a partition is stalled, and the brokers' configs.
    `standing`: number of stalled partitions; None if it is not known."""
    if denied:
        groups = State("warning", f"{denied:,} denied", "warning")
    elif standing is None or (standing and asked.groups_ms is None):
        groups = State("quiet", "not read yet", "clock")
    else:
        groups = State("ok", "read", "ok") if standing else State("quiet", "nothing to read", "ok")
    limits = State("warning", f"{assumed:,} assumed", "warning") if assumed else State("ok", "read", "ok")
    if asked.configs_ms is None:
        limits = _STATES[NEVER]
    read = words.plural(asked.groups, "group") + (f", {denied:,} unknown" if denied else "")
    known = f"{configs - assumed:,} of {words.plural(configs, 'config')}"
    return [SourceRow(GROUPS, groups, asked.groups_ms, read), SourceRow(CONFIGS, limits, asked.configs_ms, known)]
