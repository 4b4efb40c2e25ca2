"""Writes the rows of ids: the newest record, open partitions, producer ids, and the number of ids in each state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update

from service.domain.transaction_log.facts import NO_ID, NO_RECORD, LoneRuns, Participants, Run
from service.domain.transaction_log.id_delta import IdDelta, judge_records
from service.domain.transaction_log.journal import NO_ABORT
from service.domain.transaction_log.states import EXPIRED, OPEN
from service.store.display import printable
from service.store.many_rows import Upsert, look_up
from service.store.rows import first_read
from service.store.rows.ids import IdRow, last_abort, new_row, newest_record
from service.store.schema import coordinator_states, open_participants, producer_ids, transactional_ids
from service.store.writers.history import HistoryRows
from service.store.writers.runs import EndedTotals, FoldedFacts, keyed

_IDS = Upsert(transactional_ids, replace=IdRow._fields[2:])
_NEW_IDS = Upsert(transactional_ids, only_new=True)
_PARTICIPANTS = Upsert(open_participants)
_PRODUCERS = Upsert(
    producer_ids, replace=("last_seen_ms", "last_epoch"), fill=("ended_offset", "ended_state", "ended_value")
)
_NEW_PRODUCERS = Upsert(producer_ids, only_new=True)
_STATES = Upsert(coordinator_states, add=("ids",))

_CLOSE = delete(open_participants).where(
    open_participants.c.cluster_id == bindparam("cluster"),
    open_participants.c.transactional_id == bindparam("key"),
)
_PAIR = ("transactional_id", "producer_id")
_LONGEST_TOPIC = 249  # Kafka's limit; a longer name, from a broken record, might not fit into the index
_NOWHERE = -1  # the offset of an id that has no record in the log as it is now


@dataclass(frozen=True, slots=True)
class IdWriter:
    """Writes what is read of ids. For ids that begin with one of `full_history_prefixes`, every step becomes a row of
    history.

    History older than `history_ms` is not written.
    """

    cluster_id: int
    history_ms: int
    full_history_prefixes: tuple[bytes, ...] = ()

    def write(
        self,
        connection: Connection,
        generations: Mapping[int, int],
        runs: Sequence[Run],
        facts: FoldedFacts,
        now_ms: int,
        *,
        counts: bool,
    ) -> EndedTotals:
        """Applies runs in the order of `by_id`; `generations` are by partition.

        Without `counts` the call may be repeated: runs that the store has already are left out.
        """
        runs, displays = keyed(runs)
        stored = _look_up(connection, self.cluster_id, list(dict.fromkeys(run.transactional_id for run in runs)))
        if stored and not counts:
            runs = [run for run in runs if not _is_stored(stored.get(run.transactional_id), run)]
        assigned = _count_new_pairs(connection, self.cluster_id, stored, runs) if counts else 0
        ended = EndedTotals(0, 0, Counter(), 0, assigned, [])
        changes = _Changes(self.cluster_id)
        history = HistoryRows(self.cluster_id, now_ms - self.history_ms, counts)
        for (key, partition), group in groupby(runs, attrgetter("transactional_id", "partition")):
            of_id = list(group)
            old = stored.get(key)
            if _is_left_behind(old, of_id):
                continue
            delta = self._judge(old, of_id, facts, counts)
            row = new_row(self.cluster_id, old, generations[partition], of_id, delta)
            history.add(row, delta)
            ended = _added(ended, delta)
            if key in displays:
                row = row._replace(display=displays[key])
            stored[key] = row
            changes.add(old, row, of_id[-1])
        changes.write(connection)
        history.write(connection)
        _PRODUCERS.write(connection, [_producer(self.cluster_id, run) for run in runs if _names_producer(run)])
        return ended

    def write_new(self, connection: Connection, generation: int, runs: LoneRuns) -> None:
        """Writes runs of ids that the store does not have; raises IntegrityError if it has one, or one of their
        producer ids."""
        _NEW_IDS.write(connection, first_read.id_rows(self.cluster_id, generation, runs))
        opened = zip(runs.transactional_id, runs.participants, strict=True)
        rows = (_participants(self.cluster_id, key, participants) for key, participants in opened if participants)
        _PARTICIPANTS.write(connection, list(chain.from_iterable(rows)))
        _NEW_PRODUCERS.write(connection, first_read.producer_rows(self.cluster_id, runs))
        _STATES.write(connection, list(first_read.state_rows(self.cluster_id, runs)))

    def _judge(self, old: IdRow | None, runs: Sequence[Run], facts: FoldedFacts, counts: bool) -> IdDelta:
        place = runs[0].transactional_id, runs[0].partition
        before, last = NO_RECORD, NO_ABORT
        if old is not None and old.partition == runs[0].partition:  # a row of another log is no predecessor
            before, last = newest_record(old), last_abort(old)
        return judge_records(
            before,
            last,
            runs,
            facts.steps.get(place, ()),
            facts.minutes.get(place, ()) if counts else (),
            counts=counts,
            full_history=place[0].startswith(self.full_history_prefixes),
        )


class _Changes:
    """The changed rows of ids, their open partitions, and the numbers of ids that moved from state to state."""

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        self._rows: list[IdRow] = []
        self._closed: list[dict[str, Any]] = []
        self._opened: dict[bytes, list[tuple[int, str, int, bytes]]] = {}
        self._moved: Counter[tuple[int, int]] = Counter()

    def add(self, old: IdRow | None, new: IdRow, newest: Run) -> None:
        key = new.transactional_id
        self._rows.append(new)
        self._moved[new.partition, new.state] += 1
        if old is not None:
            self._moved[old.partition, old.state] -= 1
            if old.state in OPEN:
                self._closed.append({"cluster": self._cluster_id, "key": key})
                self._opened.pop(key, None)
        if new.state in OPEN:
            self._opened[key] = _participants(self._cluster_id, newest.transactional_id, newest.participants)

    def write(self, connection: Connection) -> None:
        _IDS.write(connection, self._rows)
        if self._closed:
            connection.execute(_CLOSE, self._closed)
        _PARTICIPANTS.write(connection, list(chain.from_iterable(self._opened.values())))
        moved = [(self._cluster_id, *place, change) for place, change in sorted(self._moved.items()) if change]
        _STATES.write(connection, moved)


def _added(ended: EndedTotals, delta: IdDelta) -> EndedTotals:
    ended.by_cause.update(delta.aborts)
    ended.durations.extend(delta.durations)
    return ended._replace(
        commits=ended.commits + delta.commits,
        aborts=ended.aborts + delta.ended_aborts,
        expired=ended.expired + delta.expired,
    )


def expire_partition_ids(connection: Connection, cluster_id: int, partition: int) -> None:
    """Marks the partition's ids as expired, because another log took its place. An id comes back once it is read in
    that log.

    Counts and producer ids of the ids stay: the counts span all lives of an id, and the producer ids are dated history.
    """
    of_partition = (transactional_ids.c.cluster_id == cluster_id) & (transactional_ids.c.partition == partition)
    connection.execute(
        delete(open_participants).where(
            open_participants.c.cluster_id == cluster_id,
            open_participants.c.transactional_id.in_(select(transactional_ids.c.transactional_id).where(of_partition)),
        )
    )
    expired = connection.execute(
        update(transactional_ids).where(of_partition).values(state=EXPIRED, offset=_NOWHERE, started_at_ms=None)
    )
    connection.execute(
        delete(coordinator_states).where(
            coordinator_states.c.cluster_id == cluster_id, coordinator_states.c.partition == partition
        )
    )
    _STATES.write(connection, [(cluster_id, partition, EXPIRED, expired.rowcount)])


def _look_up(connection: Connection, cluster_id: int, ids: Sequence[bytes]) -> dict[bytes, IdRow]:
    found = look_up(connection, transactional_ids, IdRow._fields, cluster_id, ids)
    return {row.transactional_id: IdRow(*row) for row in found}


def _is_stored(row: IdRow | None, run: Run) -> bool:
    """Returns whether the row contains the run already. Rows of a partition that have an offset are all of its present
    generation: `expire_partition_ids` removed the offsets of the others."""
    return row is not None and row.partition == run.partition and row.offset >= run.last.offset


def _is_left_behind(row: IdRow | None, runs: Sequence[Run]) -> bool:
    """Returns whether the runs are only tombstones of an id that is in another log partition by now, because partitions
    were added and ids were hashed again."""
    if row is None or row.state == EXPIRED or row.partition == runs[0].partition:
        return False
    return all(record.state == EXPIRED for run in runs for record in (run.first, run.last))


def _count_new_pairs(
    connection: Connection, cluster_id: int, stored: Mapping[bytes, IdRow], runs: Iterable[Run]
) -> int:
    """Returns how many (id, producer id) pairs of the runs the store has never seen."""
    pairs = {(run.transactional_id, run.first.producer_id) for run in runs if _names_producer(run)}
    pairs -= {(key, row.producer_id) for key, row in stored.items()}
    known = look_up(connection, producer_ids, _PAIR, cluster_id, list({key for key, _ in pairs}))
    return len(pairs - {tuple(row) for row in known})


def _names_producer(run: Run) -> bool:
    return run.first.producer_id != NO_ID


def _producer(cluster_id: int, run: Run) -> tuple[Any, ...]:
    first, last = run.first, run.last
    return (
        cluster_id,
        first.producer_id,
        run.transactional_id,
        first.timestamp_ms,
        last.timestamp_ms,
        first.producer_epoch,
        last.producer_epoch,
        *((run.ended_offset, run.ended_state, run.ended_value) if run.ended_value is not None else (None, None, None)),
    )


def _participants(
    cluster_id: int, transactional_id: bytes, participants: Iterable[Participants]
) -> list[tuple[int, str, int, bytes]]:
    return [
        (cluster_id, printable(topic)[:_LONGEST_TOPIC], partition, transactional_id)
        for topic, partitions in participants
        for partition in partitions
    ]
