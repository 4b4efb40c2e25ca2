"""Computes the rows of ids: of a stored id after new runs, of new ids in the first read, and of ids with records in
several partitions of the transaction log. Pure.

After partitions were added to the transaction log, an id's coordinator leads the partition to which the id hashes now
(`service.domain.transaction_log.coordinator_partition`), and older records of the id are left behind in its former
partition. `divide` chooses the record that represents the id: its row is in `transactional_ids`, with the counts of all
records of the id. The other records are in `left_behind_records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np

from service.domain.transaction_log import states
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence
from service.domain.transaction_log.coordinator_partition import coordinator_partition
from service.domain.transaction_log.facts import (
    NO_ID,
    NO_RECORD,
    VALUE_FROM,
    Array,
    LogRecord,
    LoneRuns,
    MinuteSums,
    Records,
    Run,
)
from service.domain.transaction_log.id_delta import Aborts, IdDelta, IdMinute
from service.domain.transaction_log.journal import NO_ABORT, LastAbort
from service.domain.transaction_log.states import EXPIRED
from service.store.escaped_text import display_id, full_id, is_cut


def minute_of_row(row: Iterable[Any]) -> IdMinute:
    """Returns the IdMinute in a row that has the columns MINUTE_COLUMNS."""
    minute_ms, *numbers = row
    sums = len(MinuteSums._fields)
    return IdMinute(minute_ms, MinuteSums(*numbers[:sums]), Aborts(*numbers[sums:]))


_FIELDS: Final = len(LogRecord._fields)
_CAUSES: Final = len(Aborts._fields)


class IdRow(NamedTuple):
    """A row of `transactional_ids` or of `left_behind_records`. A row of `left_behind_records` has no application: the
    id's row in `transactional_ids` has the application.

    `record`: place, time and state are those of the id's newest record; the other fields come from the newest record
    that names a producer. `last_abort`: the id's newest abort, which `service.domain.transaction_log.journal` needs to
    judge later records; None if the id has no abort.
    """

    cluster_id: int
    transactional_id: bytes
    display: str
    partition: int
    generation: int
    record: LogRecord
    state_since_ms: int
    started_at_ms: int | None
    last_outcome: int | None
    commits: int
    aborts: Aborts
    last_abort: LastAbort | None
    application: str | None = None
    framework: str | None = None

    @staticmethod
    def of(columns: Iterable[Any]) -> IdRow:
        """Returns the row with these values of all columns, in the order of the columns. The columns of the application
        may be left out."""
        cluster_id, key, display, partition, generation, *more = columns
        since_ms, started_at_ms, last_outcome, commits = more[_FIELDS : _FIELDS + 4]
        aborts = more[_FIELDS + 4 : _FIELDS + 4 + _CAUSES]
        offset, code, confidence, is_open, completed_at_ms, counts, _, *application = more[_FIELDS + 4 + _CAUSES :]
        abort = None
        if offset is not None:
            cause = Cause(CauseCode(code), Confidence(confidence), bool(is_open))
            abort = LastAbort(offset, cause, completed_at_ms, bool(counts))
        record = LogRecord(*more[:_FIELDS])
        place = (cluster_id, key, display, partition, generation)
        counted = (last_outcome, commits, Aborts(*aborts), abort)
        return IdRow(*place, record, since_ms, started_at_ms, *counted, *application[:2])

    @property
    def columns(self) -> tuple[Any, ...]:
        """The values of all columns but those of the application, in the order of the columns."""
        last, nothing = self.last_abort, (None,) * 7
        abort = nothing if last is None else (last.offset, *last.cause, *last[2:], last.settles_at_ms)
        return (*self[:5], *self.record, *self[6:10], *self.aborts, *abort)

    @property
    def state(self) -> int:
        return self.record.state

    @property
    def timeout_ms(self) -> int:
        return self.record.timeout_ms


def newest_record(row: IdRow) -> LogRecord:
    """Returns the record from which the row was made. The timestamp of a PrepareX is that of the first PrepareX of its
    transaction. If the record names no producer, the fields that an earlier record gave to the row are blank."""
    record = row.record
    if record.state >= states.EXPIRED:  # this record named no producer: the row has the values of an earlier one
        return LogRecord(*record[:VALUE_FROM], *NO_RECORD[VALUE_FROM:])
    return record._replace(timestamp_ms=row.state_since_ms) if record.state in states.PREPARED else record


def last_abort(row: IdRow) -> LastAbort:
    """Returns the last abort of the id, for `service.domain.transaction_log.journal`. Returns NO_ABORT if the id has no
    abort, or if the log that contained the id was replaced."""
    return NO_ABORT if row.last_abort is None or row.record.offset < 0 else row.last_abort


def new_row(cluster_id: int, stored: IdRow | None, generation: int, runs: Sequence[Run], delta: IdDelta) -> IdRow:
    """Returns the row of an id after its new runs, which are in log order."""
    newest, key = runs[-1].last, runs[0].transactional_id
    known = _newest_decodable(runs) or (newest if stored is None else stored.record)
    return IdRow(
        cluster_id,
        key,
        stored.display if stored is not None and is_cut(key) else display_id(key),
        runs[0].partition,
        generation,
        LogRecord(*newest[:VALUE_FROM], *known[VALUE_FROM:]),
        _state_since_ms(newest, delta),
        newest.start_ms if newest.state in states.OPEN else None,
        delta.last_outcome if delta.last_outcome is not None else stored and stored.last_outcome,
        (stored.commits if stored else 0) + delta.commits,
        (stored.aborts if stored else Aborts()).plus(delta.aborts),
        delta.last_abort if delta.last_abort != NO_ABORT else None,
    )


def _state_since_ms(newest: LogRecord, delta: IdDelta) -> int:
    if newest.state == states.ONGOING:
        return newest.start_ms
    is_newest_prepare = newest.offset == delta.newest_prepare.offset
    return delta.newest_prepare.timestamp_ms if is_newest_prepare else newest.timestamp_ms


def _newest_decodable(runs: Sequence[Run]) -> LogRecord | None:
    """Returns the newest record that is no tombstone and can be decoded, because only such a record has facts about the
    id. Returns None if no record qualifies."""
    for run in reversed(runs):
        for record in (run.last, run.first):
            if record.state < states.EXPIRED:
                return record
    return None


_NOTHING_COUNTED: Final = (0, 0, 0, 0, 0, 0, None, None, None, None, None, None, None, None, None, False)
"""The values of the last columns of `transactional_ids`, from `commits` on, for an id that is new in a first read."""


def id_rows(cluster_id: int, generation: int, runs: LoneRuns) -> list[tuple[Any, ...]]:
    """Returns the rows of `transactional_ids` for new ids. Each row equals the one that `new_row` makes of the same run
    without a stored row."""
    first, last = runs.first, runs.last
    # a tombstone, or a record that cannot be decoded, has no facts about the id
    has_facts = (last.state < states.EXPIRED) | (first.state >= states.EXPIRED)
    known = Records(*(np.where(has_facts, new, old) for new, old in zip(last, first, strict=True)))
    is_ended = np.array([value is not None for value in runs.ended_value], bool)
    outcome = np.where(is_ended, runs.ended_state, first.state)
    return list(
        zip(
            repeat(cluster_id),
            runs.transactional_id,
            map(display_id, runs.transactional_id),
            runs.partition.tolist(),
            repeat(generation),
            *(column.tolist() for column in (*last[:VALUE_FROM], *known[VALUE_FROM:])),
            np.where(last.state == states.ONGOING, last.start_ms, last.timestamp_ms).tolist(),
            _or_null(last.start_ms, np.isin(last.state, list(states.OPEN))),
            _or_null(outcome, is_ended | np.isin(first.state, list(states.COMPLETE))),
            *map(repeat, _NOTHING_COUNTED),
        )
    )


def producer_rows(cluster_id: int, runs: LoneRuns) -> list[tuple[Any, ...]]:
    """Returns the rows of `producer_ids`. Runs that name no producer give no row."""
    runs = runs.take(np.flatnonzero(runs.first.producer_id != NO_ID))
    is_ended = np.array([value is not None for value in runs.ended_value], bool)
    return list(
        zip(
            repeat(cluster_id),
            runs.first.producer_id.tolist(),
            runs.transactional_id,
            runs.first.timestamp_ms.tolist(),
            runs.last.timestamp_ms.tolist(),
            runs.first.producer_epoch.tolist(),
            runs.last.producer_epoch.tolist(),
            _or_null(runs.ended_offset, is_ended),
            _or_null(runs.ended_state, is_ended),
            runs.ended_value,
        )
    )


def state_rows(cluster_id: int, runs: LoneRuns) -> Iterator[tuple[int, int, int, int]]:
    """Yields the rows of `coordinator_states`."""
    places, ids = np.unique(np.stack((runs.partition, runs.last.state)), axis=1, return_counts=True)
    for partition, state, number in zip(*places.tolist(), ids.tolist(), strict=True):
        yield cluster_id, partition, state, number


def _or_null(column: Array, is_there: Array) -> list[int | None]:
    return [value if there else None for value, there in zip(column.tolist(), is_there.tolist(), strict=True)]


Places = tuple[tuple[str, int], ...]
"""The (topic, partition) pairs of an open transaction."""


class Record(NamedTuple):
    """The row made of an id's newest record in one partition of the log. `places`: the partitions of the id's open
    transaction."""

    row: IdRow
    places: Places


class Divided(NamedTuple):
    """The records of one id. `counting`: the record that represents the id, with the totals of all records; `others`: a
    mapping from log partition to each other record."""

    counting: Record
    others: dict[int, Record]


def divide(records: Iterable[Record], partition_count: int) -> Divided:
    """Chooses the record that represents an id. These criteria decide, in order: the record's log was not replaced (its
    offset is not below 0); its state is not expired; the id hashes to its partition; its timestamp is the latest. The
    chosen row gets the counts of all records. Other records of replaced logs are dropped."""
    known = list(records)
    chosen = max(known, key=lambda record: _rank(record.row, partition_count))
    commits = sum(record.row.commits for record in known)
    aborts = Aborts(*map(sum, zip(*(record.row.aborts for record in known), strict=True)))
    others = {
        record.row.partition: record._replace(row=record.row._replace(commits=0, aborts=Aborts()))
        for record in known
        if record is not chosen and record.row.record.offset >= 0
    }
    return Divided(chosen._replace(row=chosen.row._replace(commits=commits, aborts=aborts)), others)


def _rank(row: IdRow, partition_count: int) -> tuple[bool, bool, bool, int, int]:
    looked_for = coordinator_partition(full_id(row.transactional_id, row.display), partition_count)
    record = row.record
    return record.offset >= 0, row.state != EXPIRED, row.partition == looked_for, record.timestamp_ms, row.partition
