"""Reads and writes the rows of many ids at once: for each id, the row that represents the id (`rows.ids.divide`), the
partitions of its open transaction, and the records left behind in other partitions of the transaction log. Also counts
the ids in each state."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, select

from service.domain.transaction_log.facts import LogBatch, Minute, Participants, Run, Step
from service.domain.transaction_log.states import EXPIRED, OPEN
from service.store.escaped_text import KEY_ID_BYTES, display_id, id_key, printable
from service.store.many_rows import Upsert, batched, look_up
from service.store.rows.ids import Divided, IdRow, Places, Record, divide
from service.store.schema import (
    OF_APPLICATION,
    application_states,
    coordinator_states,
    left_behind_records,
    open_participants,
    transactional_ids,
)


class EndedTotals(NamedTuple):
    """Totals of runs, to be added to the cluster's counters. `durations`: (outcome, kind, ms) of transitions that the
    driver, not an executor, derived. `by_application`: a mapping from (application, column of `application_totals`) to
    the number to add."""

    commits: int
    aborts: int
    by_cause: Counter[str]
    expired: int
    producer_ids_assigned: int
    durations: list[tuple[str, str, int]]
    by_application: Counter[tuple[str, str]]


class FoldedFacts(NamedTuple):
    """The steps and minutes of ids that executors reported, in mappings from (key of the id, log partition)."""

    steps: Mapping[tuple[bytes, int], list[Step]]
    minutes: Mapping[tuple[bytes, int], list[Minute]]

    @classmethod
    def of(cls, batch: LogBatch) -> FoldedFacts:
        return cls(_by_key(batch.steps), _by_key(batch.minutes))


def by_id(runs: Iterable[Run]) -> list[Run]:
    """Returns the runs sorted by id, with the runs of one id in log order. Writing sorted ids touches neighbouring
    pages of the store."""
    return sorted(runs, key=attrgetter("transactional_id"))


def slices_by_id(runs: Sequence[Run], at_once: int) -> Iterator[Sequence[Run]]:
    """Yields slices of about `at_once` runs, in the order of `by_id`; the runs of one id are always in one slice."""
    start = 0
    while start < len(runs):
        end = min(start + at_once, len(runs))
        while end < len(runs) and runs[end].transactional_id == runs[end - 1].transactional_id:
            end += 1
        yield runs[start:end]
        start = end


def keyed(runs: Sequence[Run]) -> tuple[Sequence[Run], dict[bytes, str]]:
    """Returns the runs with keys in place of their ids, and a mapping from the key of each shortened id to its display
    text."""
    displays = {}
    keyed = list(runs)
    for number, run in enumerate(runs):
        if len(run.transactional_id) > KEY_ID_BYTES:
            key = id_key(run.transactional_id)
            displays[key] = display_id(run.transactional_id)
            keyed[number] = run._replace(transactional_id=key)
    return keyed, displays


def _by_key(facts: Iterable[Any]) -> dict[tuple[bytes, int], list[Any]]:
    found: dict[tuple[bytes, int], list[Any]] = {}
    for fact in facts:
        found.setdefault((id_key(fact.transactional_id), fact.partition), []).append(fact)
    return found


IDS_AT_ONCE: Final = 1_000

_L, _O = left_behind_records.c, open_participants.c
_COLUMNS = tuple(name for name in transactional_ids.c.keys() if name not in OF_APPLICATION)  # noqa: SIM118 - no dict
_READ = (*_COLUMNS, "application", "framework")
_OTHER = (*_COLUMNS, "participants")

_IDS = Upsert(transactional_ids, columns=_COLUMNS, replace=_COLUMNS[2:])
_OTHERS = Upsert(
    left_behind_records,
    columns=_OTHER,
    replace=[name for name in _OTHER if name not in left_behind_records.primary_key.columns],
)
PARTICIPANTS: Final = Upsert(open_participants)
STATES: Final = Upsert(coordinator_states, add=("ids",))
APPLICATION_STATES: Final = Upsert(application_states, add=("ids",))

_CLOSE = delete(open_participants).where(_O.cluster_id == bindparam("cluster"), _O.transactional_id == bindparam("key"))
_OTHERS_OF_CLUSTER = select(_L.partition).where(_L.cluster_id == bindparam("cluster")).limit(1)
_DROP = delete(left_behind_records).where(
    _L.cluster_id == bindparam("cluster"),
    _L.transactional_id == bindparam("key"),
    _L.partition == bindparam("of_partition"),
)
_LONGEST_TOPIC: Final = 249  # Kafka's limit; a longer name, from a broken record, might not fit into the index


@dataclass(slots=True)
class IdRows:
    """The stored rows of some ids, and the changes to write. `counting`: a mapping from id to the row that represents
    the id (`rows.ids.divide`). `partition_count`: number of partitions of the transaction log."""

    connection: Connection
    cluster_id: int
    partition_count: int
    counting: dict[bytes, IdRow]
    _others: dict[bytes, dict[int, Record]]
    _changed: dict[bytes, IdRow] = field(default_factory=dict)
    _divided: set[bytes] = field(default_factory=set)
    _closed: set[bytes] = field(default_factory=set)
    _opened: dict[bytes, Places] = field(default_factory=dict)
    _moved: Counter[tuple[int, int]] = field(default_factory=Counter)
    _moved_of_application: Counter[tuple[str, str, int]] = field(default_factory=Counter)

    @classmethod
    def read(cls, connection: Connection, cluster_id: int, ids: Sequence[bytes], partition_count: int) -> IdRows:
        found = map(IdRow.of, look_up(connection, transactional_ids, _READ, cluster_id, ids))
        counting = {row.transactional_id: row for row in found}
        others: dict[bytes, dict[int, Record]] = {}
        # most clusters never have left-behind records
        if connection.execute(_OTHERS_OF_CLUSTER, {"cluster": cluster_id}).first() is not None:
            for *columns, places in look_up(connection, left_behind_records, _OTHER, cluster_id, ids):
                row = IdRow.of(columns)
                record = Record(row, tuple((topic, partition) for topic, partition in json.loads(places)))
                others.setdefault(row.transactional_id, {})[row.partition] = record
        return cls(connection, cluster_id, partition_count, counting, others)

    def in_partition(self, key: bytes, partition: int) -> IdRow | None:
        """Returns the row of the id's newest record in this partition of the log. Returns None if the partition has no
        record of the id."""
        return next((row for row in self._all(key) if row.partition == partition), None)

    def application_of(self, key: bytes) -> str | None:
        """Returns the application of the id; None if the application is not known."""
        row = self.counting.get(key)
        return None if row is None else row.application

    def lives_elsewhere(self, key: bytes, partition: int) -> bool:
        """Returns whether another partition of the log has an unexpired record of the id."""
        return any(row.partition != partition and row.state != EXPIRED for row in self._all(key))

    def put(self, row: IdRow, places: Places) -> None:
        """Sets the row of the id's newest record in one log partition (`row.partition`). `places`: the partitions of
        the id's open transaction."""
        key = row.transactional_id
        old = self.counting.get(key)
        if (old is None or old.partition == row.partition) and not self._others.get(key):
            self._change(old, Record(row, places))
            return
        others = {**self._others.get(key, {}), row.partition: Record(row, places)}
        if old is not None and old.partition != row.partition:
            others[old.partition] = Record(old, self._places_of(old))
        self._divide(old, divide(others.values(), self.partition_count))

    def divide_again(self) -> None:
        """Chooses again the record that represents the id, for each id with records in several log partitions."""
        for key, others in list(self._others.items()):
            old = self.counting.get(key)
            records = [*others.values(), *([] if old is None else [Record(old, self._places_of(old))])]
            found = divide(records, self.partition_count)
            if old is None or found.counting.row.partition != old.partition:
                self._divide(old, found)

    def write(self) -> None:
        connection, cluster_id = self.connection, self.cluster_id
        _IDS.write(connection, [row.columns for row in self._changed.values()])
        if self._closed:
            connection.execute(_CLOSE, [{"cluster": cluster_id, "key": key} for key in self._closed])
        opened = ((cluster_id, *place, key) for key, places in self._opened.items() for place in places)
        PARTICIPANTS.write(connection, list(opened))
        moved = [(cluster_id, *place, change) for place, change in sorted(self._moved.items()) if change]
        STATES.write(connection, moved)
        changes = [(cluster_id, *of, change) for of, change in sorted(self._moved_of_application.items()) if change]
        APPLICATION_STATES.write(connection, changes)
        if self._divided:
            counting = [
                {"cluster": cluster_id, "key": key, "of_partition": self.counting[key].partition}
                for key in self._divided
            ]
            connection.execute(_DROP, counting)
            records = chain.from_iterable(self._others[key].values() for key in sorted(self._divided))
            _OTHERS.write(connection, [(*record.row.columns, json.dumps(record.places)) for record in records])

    def _all(self, key: bytes) -> Iterator[IdRow]:
        if (row := self.counting.get(key)) is not None:
            yield row
        yield from (record.row for record in self._others.get(key, {}).values())

    def _divide(self, old: IdRow | None, found: Divided) -> None:
        key = found.counting.row.transactional_id
        self._others[key] = found.others
        self._divided.add(key)
        self._change(old, found.counting)

    def _change(self, old: IdRow | None, new: Record) -> None:
        key, row = new.row.transactional_id, new.row
        self._moved[row.partition, row.state] += 1
        if old is not None:
            self._moved[old.partition, old.state] -= 1
            row = row._replace(application=old.application, framework=old.framework)
            if old.application is not None and old.framework is not None:
                self._moved_of_application[old.application, old.framework, row.state] += 1
                self._moved_of_application[old.application, old.framework, old.state] -= 1
            if old.state in OPEN:
                self._closed.add(key)
                self._opened.pop(key, None)
        if row.state in OPEN:
            self._opened[key] = new.places
        self.counting[key] = self._changed[key] = row

    def _places_of(self, row: IdRow) -> Places:
        """Returns the partitions of the open transaction in the row that represents the id; an empty tuple if no
        transaction is open."""
        key = row.transactional_id
        if row.state not in OPEN or key in self._changed:
            return self._opened.get(key, ())
        of_id = select(_O.topic, _O.partition).where(_O.cluster_id == self.cluster_id, _O.transactional_id == key)
        rows = self.connection.execute(of_id.order_by(_O.topic, _O.partition))
        return tuple((topic, partition) for topic, partition in rows)


def places_of(participants: Iterable[Participants]) -> Places:
    """Returns the partitions as they are stored: topic names are escaped, and cut to _LONGEST_TOPIC characters."""
    return tuple(
        (printable(topic)[:_LONGEST_TOPIC], partition) for topic, partitions in participants for partition in partitions
    )


def divide_all_again(connection: Connection, cluster_id: int, partition_count: int) -> None:
    """Chooses again the record that represents the id, for every id with records in several log partitions. Call this
    function after partitions were added to the transaction log, or after `expire_partition_ids`."""
    ids = select(_L.transactional_id).where(_L.cluster_id == cluster_id).distinct().order_by(_L.transactional_id)
    for some in batched(connection.scalars(ids).all(), IDS_AT_ONCE):
        rows = IdRows.read(connection, cluster_id, some, partition_count)
        rows.divide_again()
        rows.write()
