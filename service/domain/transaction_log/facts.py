"""The results of one read of the transaction log: plain, immutable values that travel from the executors to the store.

Times are milliseconds since the epoch, exactly as Kafka wrote them, so they may be negative or absurd. Ids are the
bytes of the log, not text.
"""

from __future__ import annotations

from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from service.domain.reasons.reason import Reason
from service.domain.transaction_log import states

Array = np.ndarray[Any, Any]

NO_ID = -1
NO_LEADER = -1


class Participants(NamedTuple):
    """Partitions of one topic that take part in a transaction."""

    topic: str
    partitions: tuple[int, ...]


Value = TypeVar("Value", covariant=True)
"""A value (int), or a column of values (Array)."""


class RecordFields(NamedTuple, Generic[Value]):
    """The fields that a LogRecord and its columnar form, Records, share."""

    offset: Value
    timestamp_ms: Value
    leader_epoch: Value
    state: Value
    producer_id: Value
    producer_epoch: Value
    timeout_ms: Value
    last_update_ms: Value
    start_ms: Value
    client_transaction_version: Value
    previous_producer_id: Value
    partition_count: Value


class LogRecord(RecordFields[int]):
    """One record of `__transaction_state`, reduced to the fields that the store keeps.

    `state` is a number of `transaction_log.states`: EXPIRED for a tombstone, UNKNOWN for an undecodable value. In both
    cases the producer id, the epoch and the value's times are -1. `timestamp_ms` is the coordinator's append time (the
    record's own timestamp).
    """

    __slots__ = ()


VALUE_FROM: Final = LogRecord._fields.index("producer_id")
"""Index of the first field that comes from a record's value; all fields after it come from the value, too. Tombstones
and undecodable records have no such values."""

NO_RECORD = LogRecord(-1, -1, -1, states.NEVER_SEEN, NO_ID, -1, -1, -1, -1, 0, NO_ID, 0)
"""Stands for an id's previous record if there is no previous record, or if this record is not known (compacted
away)."""


Truth = TypeVar("Truth", bool, Array)
"""The answer of a rule about two neighbouring records (bool) or about columns of them (an array of bool). Such rules
use only operators, so that one function judges single records and columns."""

_Truth = TypeVar("_Truth", covariant=True)


class Number(Protocol[_Truth]):
    """An integer, or an array of integers."""

    def __eq__(self, other: object, /) -> _Truth: ...  # type: ignore[override]
    def __ne__(self, other: object, /) -> _Truth: ...  # type: ignore[override]
    def __lt__(self, other: int, /) -> _Truth: ...
    def __ge__(self, other: int, /) -> _Truth: ...
    def __sub__(self, other: Self, /) -> Self: ...


OneOrMany: TypeAlias = RecordFields[Number[Truth]]
"""The fields of one LogRecord, or columns with the fields of several."""


class Records(RecordFields[Array]):
    """Columns of LogRecord: each field is an array with one element per record."""

    __slots__ = ()

    def take(self, rows: Array) -> Records:
        return Records(*(column.take(rows) for column in self))

    def records(self) -> list[LogRecord]:
        return list(map(LogRecord._make, zip(*(column.tolist() for column in self), strict=True)))


class Run(NamedTuple):
    """Consecutive records of one id under one producer id, reduced to their first and last: the unit in which the store
    takes records.

    - `joined`: the record before `first` is in the same micro-batch, so the pair of these two records is among the
      steps, unless the pair is plain. If not `joined`, the store judges the pair of its own last record and `first`.
    - `participants`: the participants of `last`, present only while its transaction is open.
    - `ended_value`: the value of the run's newest PrepareX that has partitions, as Kafka wrote it: the decision, its
      partitions and its epoch. `ended_offset`, `ended_state`: offset and state of this PrepareX. Without such a
      PrepareX, `ended_value` is None and the other two are -1.
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


class LoneRuns(NamedTuple):
    """Columns of Run, ordered by id. Each run is the only run of its id in the micro-batch, has no Step, and lies in a
    part of the log that is not counted. In a first read nearly all ids have such a run."""

    partition: Array
    transactional_id: list[bytes]
    first: Records
    last: Records
    records: Array
    participants: list[tuple[Participants, ...]]
    ended_offset: Array
    ended_state: Array
    ended_value: list[bytes | None]

    def take(self, rows: Array) -> LoneRuns:
        """Returns the runs at these indexes."""
        chosen, columns = rows.tolist(), iter(self)
        return LoneRuns._make(
            [column[row] for row in chosen] if isinstance(column, list) else column.take(rows) for column in columns
        )

    def runs(self) -> list[Run]:
        """Returns the runs one by one."""
        rest: list[Any]
        partition, ids, first, last, *rest = self
        heads = zip(partition.tolist(), ids, first.records(), last.records(), strict=True)
        others = zip(*(column if isinstance(column, list) else column.tolist() for column in rest), strict=True)
        return [Run(*head, False, *more) for head, more in zip(heads, others, strict=True)]


class Step(NamedTuple):
    """Two neighbouring records of an id that are more than a plain step of an ordinary commit. If every transition of
    the id is kept (`full_history`), plain steps are included.

    The last step of an ordinary commit is included if the record before the pair is missing, because only that record
    shows that PrepareCommit was appended just once.
    """

    partition: int
    transactional_id: bytes
    before: LogRecord
    after: LogRecord


class MinuteSums(NamedTuple, Generic[Value]):
    """The commits that completed in one minute (by the records' timestamps), and the durations that became known in
    this minute; or columns of such sums.

    - `opened`: transactions that reached PrepareX in the minute. `open_sum_ms` adds up the times since their first
      partition was added.
    - `marked`: ends whose PrepareX and CompleteX are both in the log. `marker_sum_ms` adds up the times that their
      markers took.
    - `first_ms`, `last_ms`: the first and the last completion; 0 without commits.
    """

    commits: Value
    opened: Value
    open_sum_ms: Value
    open_max_ms: Value
    marked: Value
    marker_sum_ms: Value
    marker_max_ms: Value
    first_ms: Value
    last_ms: Value


class Minute(NamedTuple):
    """The sums of the ordinary commits of an id in one minute; `opened` counts only commits. The marker times of
    commits that have a Step are not included: `id_delta` adds them."""

    partition: int
    transactional_id: bytes
    minute_ms: int
    sums: MinuteSums[int]


class Durations(NamedTuple):
    """A histogram of durations of the commits of one log partition. `buckets`: the number of durations in each bucket
    of `outcomes.BOUNDS_MS`."""

    partition: int
    kind: str  # "open" | "marker"
    buckets: tuple[int, ...]
    sum_ms: int


class Decided(NamedTuple):
    """A PrepareX record with its partitions: the decision of a coordinator. Read only with `--partitions all`, where
    markers are compared with decisions."""

    partition: int
    offset: int
    transactional_id: bytes
    state: int
    producer_id: int
    producer_epoch: int
    start_ms: int
    at_ms: int
    participants: tuple[Participants, ...]


class Gap(NamedTuple):
    """Offsets [from_offset, to_offset) of a partition whose records can no longer be read as they were written, with
    the reason.

    - `retention`: the records were deleted before they were read.
    - `cleaned`: compaction removed `missing` of the records before they were read.
    - `recreated`, `diverged`: the log now contains other records than those that were read.
    - `away` (an empty range): the last read was so long ago that tombstones may be gone, or the store was made anew
      (`service.store.migrate.rebuild`), so the log is read again.

    After `recreated`, `diverged` and `away` the log is a new generation; its records below `from_offset` were counted
    already.
    """

    from_offset: int
    to_offset: int
    reason: str  # "retention" | "cleaned" | "recreated" | "diverged" | "away"
    missing: int | None = None


class RangeRead(NamedTuple):
    """The offsets [lo, hi) of one log partition that were read. `lo == hi` is a heartbeat: nothing new was in the log.

    - `end_offset`: the log's end that ListOffsets returned; it was requested at `end_asked_at_ms`.
    - `generation`: above the stored generation, if the log has other records now (topic recreated, log diverged). Then
      nothing that the store has about this partition is valid any more.
    - `leader`: NO_LEADER if the partition no longer exists, because its topic was created again with fewer partitions.
      `gap` then covers everything that was read of the partition.
    - `counts`: True if the records lie in the part of the log that is counted.
    - `missing`: the number of offsets without a record, because compaction removed the record.
    - `hole_end`: the offset after the last offset for which no record was read, for whatever reason (0: there is no
      such offset).
    - `topic_partitions`: the number of partitions of the topic, including those that do not answer (0: not known).
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
    topic_partitions: int = 0

    @property
    def is_gone(self) -> bool:
        return self.leader == NO_LEADER


class Reject(NamedTuple):
    """A record or batch that could not be decoded, kept as raw bytes. `transactional_id` is None if the key is bad."""

    partition: int
    generation: int
    offset: int
    reason: str
    transactional_id: bytes | None
    key: bytes | None
    value: bytes | None


class LogBatch(NamedTuple):
    """Everything that one micro-batch read from the transaction log, or a part of that if the micro-batch is large.

    Runs are ordered by (partition, id, first offset); `lone` are further runs, in columns. Steps of an id are in any
    order, and a minute of an id may be split into several values. `trouble`: the reason why some of the log could not
    be read; None if every partition answered.
    """

    ranges: tuple[RangeRead, ...]
    runs: tuple[Run, ...]
    rejects: tuple[Reject, ...]
    trouble: Reason | None = None
    steps: tuple[Step, ...] = ()
    minutes: tuple[Minute, ...] = ()
    durations: tuple[Durations, ...] = ()
    lone: LoneRuns | None = None
    decided: tuple[Decided, ...] = ()
