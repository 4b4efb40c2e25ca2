"""The missing marker of a hanging transaction, by hand and by the rules: everything is looked at again, right before.

Marker epochs: Kafka's own tool sends what DescribeProducers says (TransactionsCommand, KIP-664): the leader takes a
marker whose epoch is not below the last one it saw, and a coordinator epoch that is not below the last marker's.

Between the last look and the marker anything may happen. What makes that harmless is that nobody has the producer id
and epoch any more: whoever writes there meanwhile does it under a newer epoch, and then the leader refuses the marker;
a second marker, written at the same time by somebody else, ends nothing.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings import kinds
from service.domain.findings.finding import Finding
from service.domain.look_back import ABORT, COMMIT, NONE
from service.domain.open_entries import Entry, owner_of, will_close
from service.domain.owners import Owner
from service.domain.states import EXPIRED, NAMES, UNKNOWN
from service.domain.transaction_log import SOURCE, TOPIC
from service.kafka import errors
from service.kafka.bracket import Bracket, Seen
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from service.kafka.markers import NEEDS, write_marker
from service.kafka.metadata import Leader, topic_layout
from service.store import read, read_partitions
from service.store.display import display_id

READS_WITHIN_S: Final = 5.0
"""How long the store may take to have what coordinators have written by now."""

_PAUSE_S: Final = 0.1

REASONS: Final = {
    COMMIT: "its transaction was committed, and no marker says so here: COMMIT is what its coordinator decided",
    ABORT: "its transaction was aborted, and no marker says so here: ABORT is what its coordinator decided",
    NONE: "its records belong to no transaction that was committed: ABORT loses nothing",
}
"""By decision: why the marker is right. Without a reason there is no marker."""

_INVALID_PRODUCER_EPOCH, _COORDINATOR_FENCED = 47, 52

Reading = Callable[[], AbstractContextManager[Connection]]


class Refused(Exception):
    """It must not be done now: why, one line for people, and what may be done first."""

    def __init__(self, why: str, first: str | None = None) -> None:
        super().__init__(why if first is None else f"{why}. First {first}")


class Unanswered(KafkaUnavailable):
    """The marker was sent, and no answer came: it may be in the log, now or later, or not."""


class WayOut(NamedTuple):
    """The marker that ends it, as of `checked_at_ms`. `coordinator_epoch`: of the last marker, 0 where none was."""

    commit: bool
    topic: str
    partition: int
    leader: Leader
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    reason: str
    checked_at_ms: int

    @property
    def marker(self) -> str:
        return "COMMIT" if self.commit else "ABORT"

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}"


def way_out(
    finding: Finding, cluster_id: int, client: KafkaClient, reading: Reading, now_ms: Callable[[], int]
) -> WayOut:
    """The judge's three looks, made once more. Raises Refused, KafkaFailure, StoreError."""
    reason = _reason(finding)
    bracket = Bracket(client, now_ms)
    entry, _ = _entry(finding, _look(bracket, finding))
    owner = _nobody_owns(entry, cluster_id, client, bracket, reading)
    _is_fenced(entry, owner)
    seen = _look(bracket, finding)
    _, coordinator_epoch = _entry(finding, seen)
    return WayOut(
        finding.decision == COMMIT,
        entry.topic,
        entry.partition,
        seen.leader,
        entry.producer_id,
        entry.producer_epoch,
        max(coordinator_epoch, 0),
        entry.start_offset,
        reason,
        seen.asked_at_ms,
    )


def steps(way: WayOut, *, executed: bool) -> tuple[str, ...]:
    """What was done, in order, and what was or would be done then."""
    return (
        f"looked at {way.place}: open at {way.start_offset}, as found",
        "read the coordinators' log to its end of then: no transaction there will end it, nobody can write to it",
        f"looked at {way.place} again: still open there",
        f"{'wrote' if executed else 'write'} {way.marker} to broker {way.leader.node}, its leader",
    )


def write(client: KafkaClient, way: WayOut) -> None:
    """The marker is in the log when this returns. Raises Unanswered; else it was not written: Refused, KafkaRefused,
    KafkaUnavailable."""
    try:
        code = write_marker(
            client,
            way.leader.node,
            topic=way.topic,
            partition=way.partition,
            producer_id=way.producer_id,
            producer_epoch=way.producer_epoch,
            coordinator_epoch=way.coordinator_epoch,
            commit=way.commit,
        )
    except KafkaUnavailable as e:
        raise Unanswered(
            f"whether {way.marker} was written to {way.place} is not known ({e}): if it was, the finding resolves within"
            " seconds; ask again if it does not, everything is looked at again first"
        ) from e
    if code == errors.NONE:
        return
    if code == errors.CLUSTER_AUTHORIZATION_FAILED:
        raise KafkaRefused(f"nothing was written: no permission to write markers, grant {NEEDS}")
    if code in (_INVALID_PRODUCER_EPOCH, _COORDINATOR_FENCED):
        raise Refused(
            f"nothing was written: broker {way.leader.node} refuses the marker, producer id {way.producer_id} went on"
            f" on {way.place} meanwhile (error {code})"
        )
    if code in errors.TRANSIENT:
        raise KafkaUnavailable(f"nothing was written: broker {way.leader.node} cannot take the marker now, error {code}")
    raise KafkaRefused(f"nothing was written: broker {way.leader.node} refuses the marker, error {code}")


def _reason(finding: Finding) -> str:
    """Why the marker that the finding calls for is right."""
    if finding.kind != kinds.HANGING:
        raise Refused(f"it is no hanging transaction but {finding.kind}: nothing of it can be ended by a marker")
    if finding.status == kinds.RESOLVED:
        raise Refused(f"it has ended already: {finding.resolution}")
    if finding.status != kinds.CONFIRMED:
        raise Refused("it is not confirmed: only a confirmed hanging transaction may be ended by hand")
    if finding.decision not in REASONS:
        raise Refused(
            "whether its transaction was committed is not known, and the wrong marker would lose data",
            "find out from the application",
        )
    return REASONS[finding.decision]


def _look(bracket: Bracket, finding: Finding) -> Seen:
    place = finding.subject.topic or "", -1 if finding.subject.partition is None else finding.subject.partition
    seen = bracket.look({place}).get(place)
    if seen is None:
        raise Refused(f"{place[0]}-{place[1]} cannot be looked at now: its leader does not answer, or just changed")
    if not seen.described:
        raise Refused(f"what is open on {place[0]}-{place[1]} cannot be asked: grant READ on the topic")
    return seen


def _entry(finding: Finding, seen: Seen) -> tuple[Entry, int]:
    """What hangs, as its leader tells it now, and the coordinator epoch of its producer id's last marker there."""
    s = finding.subject
    active = None if s.producer_id is None else seen.entry(s.producer_id)
    if active is None:
        raise Refused(f"nothing of producer id {s.producer_id} is open on {s.topic}-{s.partition} any more")
    if (active.transaction_start_offset, active.producer_epoch) != (s.start_offset, s.producer_epoch):
        raise Refused(
            f"another transaction of producer id {s.producer_id} is open on {s.topic}-{s.partition} now: it began at"
            f" offset {active.transaction_start_offset} with epoch {active.producer_epoch}"
        )
    entry = Entry(
        topic=seen.topic,
        partition=seen.partition,
        producer_id=active.producer_id,
        producer_epoch=active.producer_epoch,
        start_offset=active.transaction_start_offset,
        coordinator_epoch=active.coordinator_epoch,
        last_timestamp_ms=active.last_timestamp_ms,
        records=None,
        bytes=None,
        first_seen_ms=finding.opened_at_ms,
        seen_at_ms=seen.asked_at_ms,
    )
    return entry, active.coordinator_epoch


def _nobody_owns(
    entry: Entry, cluster_id: int, client: KafkaClient, bracket: Bracket, reading: Reading
) -> Owner | None:
    """The id that wrote it (None: there is none), once the store has all that is in the log by now."""
    with reading() as connection:
        owner = _owner(connection, cluster_id, entry)
        known = {row.partition for row in read.partitions(connection, cluster_id, SOURCE)}
    owner = _read_to_the_end(entry, cluster_id, bracket, reading, _needed(client, owner, known))
    if owner is not None and owner.state == UNKNOWN:
        raise Refused("the newest record of its transactional.id cannot be decoded: who owns it cannot be told")
    if owner is not None and will_close(entry, owner):
        name = display_id(owner.transactional_id)
        raise Refused(f"its coordinator owns it: {name} is {NAMES[owner.state]} and will have a marker written there")
    return owner


def _needed(client: KafkaClient, owner: Owner | None, known: set[int]) -> set[int]:
    """The partitions of the log that could say who owns it: a producer id belongs to one id for ever."""
    if owner is not None:
        return {owner.log_partition}
    layout = topic_layout(client, TOPIC)
    if layout is None or not layout.leaders or not layout.leaders.keys() <= known:
        raise Refused(f"{TOPIC} is not read whole: who owns the transaction cannot be told")
    return set(layout.leaders)


def _read_to_the_end(
    entry: Entry, cluster_id: int, bracket: Bracket, reading: Reading, needed: set[int]
) -> Owner | None:
    """The owner, as of what those partitions of the log hold by now, under the leaders that they have by now."""
    seen = bracket.look({(TOPIC, p) for p in needed})
    if missing := needed - {p for _, p in seen}:
        named = ", ".join(f"{TOPIC}-{p}" for p in sorted(missing)[:3])
        raise Refused(f"the coordinators' log is not seen whole: {named} cannot be looked at now")
    give_up = time.monotonic() + READS_WITHIN_S
    while True:
        with reading() as connection:
            rows = {row.partition: row for row in read.partitions(connection, cluster_id, SOURCE)}
            owner = _owner(connection, cluster_id, entry)
            undecodable = any(one.state == UNKNOWN for one in read.state_counts(connection, cluster_id))
        if all(_is_read(rows.get(p), one) for (_, p), one in seen.items()):
            break
        if time.monotonic() > give_up:
            raise Refused("the coordinators' log is not read to its end: who owns the transaction cannot be told now")
        time.sleep(_PAUSE_S)
    if owner is None and undecodable:
        raise Refused("some transactional.id's newest record cannot be decoded: it may be the one that owns it")
    return owner


def _is_read(row: read.PartitionRow | None, seen: Seen) -> bool:
    """A row of another leader epoch may be of a log that is no more."""
    return row is not None and row.leader_epoch == seen.leader.epoch and row.next_offset >= seen.ends.high_watermark


def _is_fenced(entry: Entry, owner: Owner | None) -> None:
    """Nobody has the producer id and epoch any more, as far as a coordinator can see to that."""
    if owner is None or owner.state == EXPIRED or owner.producer_id != entry.producer_id:
        return
    if owner.producer_epoch > entry.producer_epoch:
        return
    name = display_id(owner.transactional_id)
    raise Refused(
        f"{name} can still write with producer id {entry.producer_id} and epoch {entry.producer_epoch}: what it writes"
        " after the marker would hang again",
        "fence it: stop its producer and start it again, or (Kafka 4.1 and newer) kafka-transactions.sh"
        f" forceTerminateTransaction --transactional-id {shlex.quote(name)}; then ask for the marker again",
    )


def _owner(connection: Connection, cluster_id: int, entry: Entry) -> Owner | None:
    found = read_partitions.owners(connection, cluster_id, [entry.producer_id])
    return owner_of(entry, found.get(entry.producer_id, []))
