"""What one read of the coordinator's log tells: values that travel from the executors to the store.

Everything is frozen and plain. Times are milliseconds since the epoch as Kafka wrote them (they may be negative or
absurd: a record is a fact, also a wrong one). Ids are the bytes of the log, not text.
"""

from __future__ import annotations

from typing import NamedTuple

from service.domain.reasons.reason import Reason
from service.domain.transaction_log import states

NO_ID = -1
NO_LEADER = -1


class Participants(NamedTuple):
    """Partitions of one topic that take part in a transaction."""

    topic: str
    partitions: tuple[int, ...]


class LogRecord(NamedTuple):
    """One record of `__transaction_state`, as far as the store keeps it.

    `state` is a number of `transaction_log.states`; a tombstone is EXPIRED and an undecodable value UNKNOWN, both with
    producer id, epoch and times -1. `timestamp_ms` is the coordinator's append time (the record's own timestamp).
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int
    state: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    last_update_ms: int
    start_ms: int
    client_transaction_version: int
    previous_producer_id: int
    partition_count: int


UNSEEN = LogRecord(-1, -1, -1, states.NEVER_SEEN, NO_ID, -1, -1, -1, -1, 0, NO_ID, 0)
"""Stands where the predecessor of a record is not known (first record of an id, or compacted away)."""


class Run(NamedTuple):
    """Consecutive records of one id under one producer id, folded: the unit the store is fed with.

    `joined`: the record before `first` was seen in the same fold, and the pair (it, `first`) is among the steps unless
    it is plain; otherwise the store judges that pair with the last record it has. `participants` are those of `last`,
    filled only while it is open. `ended_value`: the newest PrepareX with partitions in the run, as Kafka wrote it at
    `ended_offset` with `ended_state`: it says what was decided, where and under which epoch (-1, -1, None: none).
    """

    partition: int
    transactional_id: bytes
    first: LogRecord
    last: LogRecord
    joined: bool
    records: int
    participants: tuple[Participants, ...]
    ended_offset: int
    ended_state: int
    ended_value: bytes | None


class Step(NamedTuple):
    """Two neighbouring records of an id that are more than a plain step of an ordinary commit; or its last step, where
    the record before them is not there to show that PrepareCommit was appended only once.
    """

    partition: int
    transactional_id: bytes
    before: LogRecord
    after: LogRecord


class Minute(NamedTuple):
    """Commits of an id that completed in one minute (of the records' timestamps), and the durations told then.

    `opened` transactions reached PrepareCommit in it, together `open_sum_ms` after their first partition was added;
    `marked` of the commits, those that left no step, took `marker_sum_ms` for their markers. First and last completion;
    0 without commits.
    """

    partition: int
    transactional_id: bytes
    minute_ms: int
    commits: int
    opened: int
    open_sum_ms: int
    open_max_ms: int
    marked: int
    marker_sum_ms: int
    marker_max_ms: int
    first_ms: int
    last_ms: int


class Durations(NamedTuple):
    """A histogram of commits of one log partition: how many fell into each bucket of `outcomes`."""

    partition: int
    kind: str  # "open" | "marker"
    buckets: tuple[int, ...]
    sum_ms: int


class Gap(NamedTuple):
    """Offsets [from_offset, to_offset) of a partition that can no longer be read as they were, and why.

    `retention`: deleted before they were read. `cleaned`: `missing` of them were removed by compaction before they were
    read. `recreated`, `diverged`: what was read is not what lies there now.
    `away` (an empty range): read too long ago, tombstones may be gone, so all is read again. After the last three the
    log is a new generation, and what lies below `from_offset` in it was counted already.
    """

    from_offset: int
    to_offset: int
    reason: str  # "retention" | "cleaned" | "recreated" | "diverged" | "away"
    missing: int | None = None


class RangeRead(NamedTuple):
    """Offsets [lo, hi) of one log partition were read; `lo == hi` is a heartbeat: nothing was written.

    `end_offset` is the log's end as ListOffsets told at `end_asked_at_ms`. A `generation` above the stored one means
    that the log is another one now (topic recreated, log diverged): what the store has of that partition is void.
    Under NO_LEADER the partition is no more: its topic was created again with fewer, and `gap` is all that was read.
    `missing`: offsets without a record, because cleaning has removed it; `hole_end`: behind the last offset of which no
    record was read, for whatever reason (0: there is none).
    """

    partition: int
    topic_id: str
    generation: int
    lo: int
    hi: int
    leader: int
    leader_epoch: int
    log_start: int
    end_offset: int
    end_asked_at_ms: int
    records: int
    bytes: int
    gap: Gap | None
    counts: bool = True
    missing: int = 0
    hole_end: int = 0

    @property
    def is_gone(self) -> bool:
        return self.leader == NO_LEADER


class Reject(NamedTuple):
    """A record or batch that could not be decoded, kept raw; `transactional_id` is None where the key is at fault."""

    partition: int
    generation: int
    offset: int
    reason: str
    transactional_id: bytes | None
    key: bytes | None
    value: bytes | None


class LogBatch(NamedTuple):
    """All that one micro-batch read from the coordinator's log. Runs are ordered by (partition, id, first offset).

    Steps of an id are in any order; a minute of it may come in several pieces.

    `trouble`: why not all of it could be read; None when every partition answered.
    """

    ranges: tuple[RangeRead, ...]
    runs: tuple[Run, ...]
    rejects: tuple[Reject, ...]
    trouble: Reason | None = None
    steps: tuple[Step, ...] = ()
    minutes: tuple[Minute, ...] = ()
    durations: tuple[Durations, ...] = ()
