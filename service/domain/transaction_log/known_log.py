"""The transaction log as it is known at one moment: how far it was read, and the time limits in its brokers'
configs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from service.domain.transaction_log.coordinator_partition import partition_count
from service.domain.transaction_log.states import CONFIG_DEFAULTS, EXPIRATION_CONFIG

SCAN_CONFIG: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
SWEEP_CONFIG: Final = "transaction.remove.expired.transaction.cleanup.interval.ms"

PROGRESS_FRESH_MS: Final = 10_000
"""Maximum time (ms) since an end offset was requested for which it counts as the present end of its log partition. If
the partition is read to that offset, everything written there is known."""

CLOCK_AHEAD_MS: Final = 1_000
"""Maximum time (ms) by which the request time of an end offset may lie in the future. If it lies further ahead, the
clock was set back, so the age of the end offset is unknown."""


class Limits(NamedTuple):
    """Limits from the brokers' configs, in ms. `assumed`: the names of configs for which Kafka's defaults are used,
    because no broker reported a value."""

    scan_ms: int
    expiration_ms: int
    sweep_ms: int
    assumed: frozenset[str]


def limits_of(configs: Mapping[str, Mapping[str, str]]) -> Limits:
    """Returns the limits from `{name: {"value", "source"}}`, the form in which a cluster's configs are stored."""
    reported = {name: config["value"] for name, config in configs.items() if config["source"] == "broker"}
    values = CONFIG_DEFAULTS | reported
    return Limits(
        int(values[SCAN_CONFIG]),
        int(values[EXPIRATION_CONFIG]),
        int(values[SWEEP_CONFIG]),
        frozenset(CONFIG_DEFAULTS) - reported.keys(),
    )


class LogProgress(NamedTuple):
    """A partition of the transaction log: read up to `next_offset`, with the end offset that ListOffsets returned at
    `end_asked_at_ms`. `topic_partitions`: the log's number of partitions in the topic's metadata; None: not known."""

    partition: int
    leader: int
    next_offset: int
    end_offset: int
    end_asked_at_ms: int
    topic_partitions: int | None = None


UNANSWERED_AFTER_MS: Final = 30_000
"""Time without an answer after which the coordinator of a partition counts as down, if other partitions have answered
since. Such a partition does not hold back `settled_ms`."""


class KnownLog(NamedTuple):
    """The known part of the transaction log.

    - `known_until_ms`: a mapping from log partition to the time up to which everything written there is known.
      Partitions that cannot be judged now (not read to their end, or asked too long ago) are absent.
    - `is_complete`: there is at least one partition, and all partitions can be judged.
    - `settled_ms`: the time up to which all partitions that answer have been read, however long ago that was; None
      while one of these partitions is not read to its end, if no partition answered, or if the clock was set back
      (CLOCK_AHEAD_MS).
    - `partition_count`: the number of partitions of the transaction log; 0 if none was read.
    """

    limits: Limits
    known_until_ms: Mapping[int, int]
    leaders: Mapping[int, int]
    is_complete: bool
    settled_ms: int | None = None
    partition_count: int = 0

    def is_known_until(self, partition: int, at_ms: int) -> bool:
        """Returns whether everything that was written to the log partition until `at_ms` is known."""
        known_ms = self.known_until_ms.get(partition)
        return known_ms is not None and known_ms >= at_ms

    def is_assumed(self, config: str) -> bool:
        """Returns whether Kafka's default is used for the config, because no broker reported it."""
        return config in self.limits.assumed


def known_log(limits: Limits, progress: Iterable[LogProgress], now_ms: int) -> KnownLog:
    """Returns the part of the transaction log that is known at `now_ms`, from the progress of reading its
    partitions."""
    progress = list(progress)
    fresh = {v.partition: v.end_asked_at_ms for v in progress if _is_fresh(v, now_ms)}
    leaders = {v.partition: v.leader for v in progress}
    is_complete = bool(progress) and len(fresh) == len(progress)
    count = partition_count(leaders, (log_progress.topic_partitions for log_progress in progress))
    return KnownLog(limits, fresh, leaders, is_complete, _settled_ms(progress, now_ms), count)


def _settled_ms(progress: Iterable[LogProgress], now_ms: int) -> int | None:
    newest_ms = max((v.end_asked_at_ms for v in progress), default=0)
    answering = [v for v in progress if newest_ms - v.end_asked_at_ms <= UNANSWERED_AFTER_MS]
    is_known = all(v.next_offset >= v.end_offset and v.end_asked_at_ms - now_ms <= CLOCK_AHEAD_MS for v in answering)
    return min(v.end_asked_at_ms for v in answering) if answering and is_known else None


def _is_fresh(progress: LogProgress, now_ms: int) -> bool:
    return (
        progress.next_offset >= progress.end_offset
        and -CLOCK_AHEAD_MS <= now_ms - progress.end_asked_at_ms <= PROGRESS_FRESH_MS
    )
