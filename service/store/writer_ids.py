"""Writes the rows of ids: the newest record, open partitions, producer ids, and how many ids are in which state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, select, update

from service.domain.facts import NO_ID, Run
from service.domain.states import EXPIRED, OPEN
from service.store.display import display_id, printable
from service.store.id_key import KEPT, id_key
from service.store.look_up import look_up
from service.store.schema import coordinator_states, open_participants, producer_ids, transactional_ids
from service.store.upsert import Upsert
from service.store.writer_rows import IdRow, advance

_IDS = Upsert(transactional_ids, replace=IdRow._fields[2:])
_PARTICIPANTS = Upsert(open_participants)
_PRODUCERS = Upsert(producer_ids, replace=("last_seen_ms", "last_epoch"))
_STATES = Upsert(coordinator_states, add=("ids",))

_CLOSE = delete(open_participants).where(
    open_participants.c.cluster_id == bindparam("cluster"),
    open_participants.c.transactional_id == bindparam("key"),
)
_PAIR = ("transactional_id", "producer_id")
_LONGEST_TOPIC = 249  # Kafka's limit; a longer name, from a broken record, might not fit into the index
_NOWHERE = -1  # the offset of an id that has no record in the log as it is now


class Ended(NamedTuple):
    """What the runs add to the cluster's counters."""

    commits: int
    aborts: int
    expired: int
    producer_ids_assigned: int


def by_id(runs: Iterable[Run]) -> list[Run]:
    """Runs ordered by id, those of one id in log order: neighbours go to the same pages of the store."""
    return sorted(runs, key=attrgetter("transactional_id"))


def write_ids(
    connection: Connection, cluster_id: int, generations: Mapping[int, int], runs: Sequence[Run], *, counts: bool
) -> Ended:
    """Apply runs in the order of `by_id`; `generations` by partition.

    Without `counts` the call may repeat: what the store has already is left alone.
    """
    runs, displays = _keyed(runs)
    stored = _look_up(connection, cluster_id, list(dict.fromkeys(run.transactional_id for run in runs)))
    if stored and not counts:
        runs = [run for run in runs if not _is_stored(stored.get(run.transactional_id), run)]
    assigned = _count_new_pairs(connection, cluster_id, stored, runs) if counts else 0
    rows: list[IdRow] = []
    moved: Counter[tuple[int, int]] = Counter()
    closed: list[dict[str, Any]] = []
    opened: dict[bytes, list[tuple[int, str, int, bytes]]] = {}
    commits = aborts = expired = 0
    for (key, partition), group in groupby(runs, attrgetter("transactional_id", "partition")):
        of_id = list(group)
        old = stored.get(key)
        row, committed, aborted, gone = advance(cluster_id, old, generations[partition], of_id, counts=counts)
        if key in displays:
            row = row._replace(display=displays[key])
        stored[key] = row
        rows.append(row)
        commits += committed
        aborts += aborted
        expired += gone
        moved[row.partition, row.state] += 1
        if old is not None:
            moved[old.partition, old.state] -= 1
            if old.state in OPEN:
                closed.append({"cluster": cluster_id, "key": key})
                opened.pop(key, None)
        if row.state in OPEN:
            opened[key] = _participants(cluster_id, of_id[-1])
    _IDS.write(connection, rows)
    if closed:
        connection.execute(_CLOSE, closed)
    _PARTICIPANTS.write(connection, list(chain.from_iterable(opened.values())))
    _PRODUCERS.write(connection, [_producer(cluster_id, run) for run in runs if _names_producer(run)])
    _STATES.write(connection, [(cluster_id, *place, change) for place, change in sorted(moved.items()) if change])
    return Ended(commits, aborts, expired, assigned)


def void_ids(connection: Connection, cluster_id: int, partition: int) -> None:
    """The partition's log is another one now: its ids are gone, like expired ones, until they are read there again.

    What is known of them stays: their counts span all lives of an id, their producer ids are dated history.
    """
    of_partition = (transactional_ids.c.cluster_id == cluster_id) & (transactional_ids.c.partition == partition)
    connection.execute(
        delete(open_participants).where(
            open_participants.c.cluster_id == cluster_id,
            open_participants.c.transactional_id.in_(select(transactional_ids.c.transactional_id).where(of_partition)),
        )
    )
    voided = connection.execute(
        update(transactional_ids).where(of_partition).values(state=EXPIRED, offset=_NOWHERE, started_at_ms=None)
    )
    connection.execute(
        delete(coordinator_states).where(
            coordinator_states.c.cluster_id == cluster_id, coordinator_states.c.partition == partition
        )
    )
    _STATES.write(connection, [(cluster_id, partition, EXPIRED, voided.rowcount)])


def _look_up(connection: Connection, cluster_id: int, ids: Sequence[bytes]) -> dict[bytes, IdRow]:
    found = look_up(connection, transactional_ids, IdRow._fields, cluster_id, ids)
    return {row.transactional_id: IdRow(*row) for row in found}


def _keyed(runs: Sequence[Run]) -> tuple[Sequence[Run], dict[bytes, str]]:
    """The runs under the keys of their ids; what people see of those that are not whole, by key."""
    displays = {}
    keyed = list(runs)
    for number, run in enumerate(runs):
        if len(run.transactional_id) > KEPT:
            key = id_key(run.transactional_id)
            displays[key] = display_id(run.transactional_id)
            keyed[number] = run._replace(transactional_id=key)
    return keyed, displays


def _is_stored(row: IdRow | None, run: Run) -> bool:
    """Rows of a partition with an offset are all of its generation: `void_ids` took the others' offsets."""
    return row is not None and row.partition == run.partition and row.offset >= run.last.offset


def _count_new_pairs(
    connection: Connection, cluster_id: int, stored: Mapping[bytes, IdRow], runs: Iterable[Run]
) -> int:
    """How many (id, producer id) of the runs the store has never seen."""
    pairs = {(run.transactional_id, run.first.producer_id) for run in runs if _names_producer(run)}
    pairs -= {(key, row.producer_id) for key, row in stored.items()}
    known = look_up(connection, producer_ids, _PAIR, cluster_id, list({key for key, _ in pairs}))
    return len(pairs - {tuple(row) for row in known})


def _names_producer(run: Run) -> bool:
    return run.first.producer_id != NO_ID


def _producer(cluster_id: int, run: Run) -> tuple[int, int, bytes, int, int, int, int]:
    first, last = run.first, run.last
    return (
        cluster_id,
        first.producer_id,
        run.transactional_id,
        first.timestamp_ms,
        last.timestamp_ms,
        first.producer_epoch,
        last.producer_epoch,
    )


def _participants(cluster_id: int, run: Run) -> list[tuple[int, str, int, bytes]]:
    return [
        (cluster_id, printable(topic)[:_LONGEST_TOPIC], partition, run.transactional_id)
        for topic, partitions in run.participants
        for partition in partitions
    ]
