"""The missing marker of a hanging transaction, by hand and by the rules: everything is looked at again, right before.

Marker epochs: Kafka's own tool sends what DescribeProducers says (TransactionsCommand, KIP-664): the leader takes a
marker whose epoch is not below the last one it saw, and a coordinator epoch that is not below the last marker's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings import kinds
from service.domain.findings.finding import Finding
from service.domain.findings.hanging import can_still_write
from service.domain.look_back import COMMIT, DECISIONS, NOT_KNOWN
from service.domain.open_entries import Entry, owner_of, will_close
from service.domain.owners import Owner
from service.domain.states import NAMES, UNKNOWN
from service.domain.transaction_log import SOURCE, TOPIC
from service.kafka import errors
from service.kafka.bracket import Bracket, Seen
from service.kafka.client import KafkaClient
from service.kafka.markers import NEEDS, write_marker
from service.kafka.metadata import Leader
from service.store import read, read_partitions
from service.store.display import display_id

READS_WITHIN_S: Final = 5.0
"""How long the store may take to have what coordinators have written by now."""

Reading = Callable[[], AbstractContextManager[Connection]]


class Refused(Exception):
    """It must not be done now: why, one line for people, and what may be done first."""

    def __init__(self, why: str, steps: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.steps = steps


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
    steps: tuple[str, ...]
    checked_at_ms: int

    @property
    def marker(self) -> str:
        return "COMMIT" if self.commit else "ABORT"


def way_out(
    finding: Finding, cluster_id: int, client: KafkaClient, reading: Reading, now_ms: Callable[[], int]
) -> WayOut:
    """The judge's three looks, made once more. Raises Refused, KafkaFailure."""
    _is_decided(finding)
    bracket = Bracket(client, now_ms)
    entry = _entry(finding, _look(bracket, finding))
    owner = _nobody_owns(entry, cluster_id, bracket, reading)
    name = "" if owner is None else display_id(owner.transactional_id)
    if can_still_write(entry, owner):
        raise Refused(
            f"{name} can still write with producer id {entry.producer_id} and epoch {entry.producer_epoch}: what it"
            " writes after the marker would hang again",
            (
                f"fence it: stop its producer and start it again, or (Kafka 4.1) kafka-transactions.sh"
                f" forceTerminateTransaction --transactional-id {name}",
                "then ask for the marker again",
            ),
        )
    seen = _look(bracket, finding)
    _entry(finding, seen)
    active = seen.entry(entry.producer_id)
    assert active is not None
    commit = finding.decision == COMMIT
    marker = "COMMIT" if commit else "ABORT"
    return WayOut(
        commit,
        entry.topic,
        entry.partition,
        seen.leader,
        entry.producer_id,
        active.producer_epoch,
        max(active.coordinator_epoch, 0),
        entry.start_offset,
        f"no coordinator will end it, and its decision is {finding.decision}: {marker} loses nothing",
        (
            f"looked at {entry.topic}-{entry.partition}: open at {entry.start_offset}, as found",
            "read the coordinators' log to its present end: no transaction will end it",
            "looked at the partition again: still open there",
            f"write {marker} to broker {seen.leader.node}, its leader",
        ),
        seen.asked_at_ms,
    )


def write(client: KafkaClient, way: WayOut) -> str | None:
    """Why it was not written, one line; None: the marker is in the log. Raises KafkaFailure."""
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
    if code == errors.NONE:
        return None
    if code == errors.CLUSTER_AUTHORIZATION_FAILED:
        return f"no permission to write markers: grant {NEEDS}"
    return f"broker {way.leader.node} refuses the marker: error {code}"


def _is_decided(finding: Finding) -> None:
    if finding.kind != kinds.HANGING:
        raise Refused(f"it is no hanging transaction but {finding.kind}: nothing of it can be ended by a marker")
    if finding.status != kinds.CONFIRMED:
        raise Refused(f"it is {finding.status}: only a confirmed hanging transaction may be ended by hand")
    if finding.decision not in DECISIONS or finding.decision == NOT_KNOWN:
        raise Refused("whether its transaction was committed is not known: the wrong marker would lose data")


def _look(bracket: Bracket, finding: Finding) -> Seen:
    place = finding.subject.topic or "", -1 if finding.subject.partition is None else finding.subject.partition
    seen = bracket.look({place}).get(place)
    if seen is None:
        raise Refused(f"{place[0]}-{place[1]} cannot be looked at now: its leader does not answer, or just changed")
    if not seen.described:
        raise Refused(f"what is open on {place[0]}-{place[1]} cannot be asked: grant READ on the topic")
    return seen


def _entry(finding: Finding, seen: Seen) -> Entry:
    """What hangs, as its leader tells it now."""
    s = finding.subject
    active = None if s.producer_id is None else seen.entry(s.producer_id)
    if active is None:
        raise Refused(f"nothing of producer id {s.producer_id} is open on {s.topic}-{s.partition} any more")
    if (active.transaction_start_offset, active.producer_epoch) != (s.start_offset, s.producer_epoch):
        raise Refused(
            f"another transaction of producer id {s.producer_id} is open on {s.topic}-{s.partition} now: it began at"
            f" offset {active.transaction_start_offset} with epoch {active.producer_epoch}"
        )
    return Entry(
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


def _nobody_owns(entry: Entry, cluster_id: int, bracket: Bracket, reading: Reading) -> Owner | None:
    """The id that wrote it (None: there is none), once the store has all that is in the log by now."""
    with reading() as connection:
        owner = _owner(connection, cluster_id, entry)
        known = {row.partition for row in read.partitions(connection, cluster_id, SOURCE)}
    needed = known if owner is None else {owner.log_partition}
    if not needed:
        raise Refused(f"{TOPIC} is not read: who owns the transaction cannot be told")
    _, ends = bracket.ends(TOPIC, needed)
    if missing := needed - ends.keys():
        named = ", ".join(f"{TOPIC}-{p}" for p in sorted(missing)[:3])
        raise Refused(f"the coordinators' log is not seen whole: {named} cannot be looked at now")
    give_up = time.monotonic() + READS_WITHIN_S
    while True:
        with reading() as connection:
            read_to = {row.partition: row.next_offset for row in read.partitions(connection, cluster_id, SOURCE)}
            owner = _owner(connection, cluster_id, entry)
        if all(read_to.get(p, -1) >= end for p, end in ends.items()):
            break
        if time.monotonic() > give_up:
            raise Refused("the coordinators' log is not read to its end: who owns the transaction cannot be told now")
        time.sleep(0.1)
    if owner is not None and owner.state == UNKNOWN:
        raise Refused("the newest record of its transactional.id cannot be decoded: who owns it cannot be told")
    if owner is not None and will_close(entry, owner):
        name = display_id(owner.transactional_id)
        raise Refused(f"its coordinator owns it: {name} is {NAMES[owner.state]} and will have a marker written there")
    return owner


def _owner(connection: Connection, cluster_id: int, entry: Entry) -> Owner | None:
    found = read_partitions.owners(connection, cluster_id, [entry.producer_id])
    return owner_of(entry, found.get(entry.producer_id, []))
