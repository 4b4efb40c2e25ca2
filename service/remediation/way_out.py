"""Determines the marker that ends a hanging transaction, by repeating the judge's three confirmation steps.

A leader accepts a marker under two conditions: the marker's producer epoch is not below the producer id's last epoch on
the partition, and the marker's coordinator epoch is not below that of the producer id's last marker there.
DescribeProducers reports both epochs.

Nothing that happens between the last step and the marker does harm, because by then no coordinator knows a
transactional.id that has the hanging transaction's producer id and epoch. If a producer writes to the partition
meanwhile, it has a newer epoch, and the leader refuses the marker. If somebody else writes the same marker first, our
marker ends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Status
from service.domain.partitions.facts import MarkerType
from service.domain.partitions.open_entries import Entry
from service.domain.transaction_log.states import TOPIC
from service.domain.worlds.verdict import Decided
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader
from service.kafka.leader_check import CheckedPartition, LeaderCheck
from service.remediation.checks import Reading, Refused, is_fenced, nobody_owns, prove_again

REASONS: Final = {
    Decided.COMMIT: "the coordinator committed the transaction, but the COMMIT marker is missing on this partition",
    Decided.ABORT: "no committed transaction can have written the records, and no marker ended them:"
    " ABORT discards no committed record",
    Decided.NONE: "the records belong to no transaction that this cluster committed: ABORT discards none of its"
    " committed records",
}
"""Maps a decision to the reason why its marker is right. For a decision that is missing here, no marker is written."""


class WayOut(NamedTuple):
    """The marker that ends a hanging transaction, as of `checked_at_ms`. `coordinator_epoch`: the coordinator epoch of
    the producer id's last marker on the partition; 0 if there is none. `log_partition`: the partition of the
    transaction log that has the owner's records; None if no owner is known, and all partitions were read.
    """

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
    log_partition: int | None

    @property
    def marker(self) -> MarkerType:
        return MarkerType.COMMIT if self.commit else MarkerType.ABORT

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}"


def way_out(
    finding: Finding, cluster_id: int, client: KafkaClient, reading: Reading, now_ms: Callable[[], int]
) -> WayOut:
    """Repeats the judge's three confirmation steps and its verdict, and returns the marker that ends the transaction.
    Raises Refused, KafkaFailure, StoreError."""
    reason = _reason(finding)
    bracket = LeaderCheck(client, now_ms)
    first = _look(bracket, finding)
    entry = _entry(finding, first)
    owner = nobody_owns(entry, cluster_id, client, bracket, reading)
    is_fenced(entry, owner, client)
    prove_again(finding, entry, owner, first, cluster_id, client, bracket, reading)
    seen = _look(bracket, finding)
    again = _entry(finding, seen)
    if again.producer_epoch != entry.producer_epoch:
        raise Refused(
            f"a producer has just written to the transaction under epoch {again.producer_epoch}: ask for the marker"
            " again"
        )
    return WayOut(
        finding.observation.decision == Decided.COMMIT,
        entry.topic,
        entry.partition,
        seen.leader,
        entry.producer_id,
        entry.producer_epoch,
        max(again.coordinator_epoch, 0),
        entry.start_offset,
        reason,
        seen.asked_at_ms,
        None if owner is None else owner.log_partition,
    )


def steps(way: WayOut, *, executed: bool) -> tuple[str, ...]:
    """Returns the steps in words, in order. The last step is writing the marker, which was done if `executed` is
    True."""
    log = TOPIC if way.log_partition is None else f"{TOPIC}-{way.log_partition}, which has the owner's records,"
    return (
        f"read {way.place}: the transaction is still open at offset {way.start_offset}",
        f"read {log} up to its end at that time: no transaction that is open there will end this one",
        f"derived the decision from both logs: {'COMMIT' if way.commit else 'no COMMIT'}, as in the finding",
        f"read {way.place} again: the transaction is still open",
        f"{'wrote' if executed else 'write'} {way.marker} to broker {way.leader.node}, the leader of {way.place}",
    )


def _reason(finding: Finding) -> str:
    """Returns the reason why the finding's marker is right. Raises Refused if no marker may be written for the
    finding."""
    if finding.kind != Kind.HANGING:
        raise Refused(f"no marker can end this finding: it is of kind {finding.kind}, not {Kind.HANGING}")
    if finding.status == Status.RESOLVED:
        raise Refused(f"the finding has ended already: {finding.life.resolution}")
    if finding.status != Status.CONFIRMED:
        raise Refused("the finding is not confirmed: only a confirmed hanging transaction may be ended by hand")
    if finding.observation.decision not in REASONS:
        raise Refused(
            "it is not known whether the transaction was committed, and the wrong marker would lose data: no marker is"
            " written while the decision is unknown"
        )
    return REASONS[finding.observation.decision]


def _look(bracket: LeaderCheck, finding: Finding) -> CheckedPartition:
    place = finding.subject.topic or "", -1 if finding.subject.partition is None else finding.subject.partition
    seen = bracket.observe({place}).get(place)
    if seen is None:
        raise Refused(
            f"{place[0]}-{place[1]} cannot be read now: it is gone, or its leader is away, does not answer or has just"
            " changed"
        )
    if not seen.described:
        raise Refused(
            f"the open transactions of {place[0]}-{place[1]} cannot be read: READ on the topic is missing, or its"
            " leader is older than Kafka 2.8"
        )
    return seen


def _entry(finding: Finding, seen: CheckedPartition) -> Entry:
    """Returns the hanging entry as its leader reported it in `seen`. The epoch of the returned entry is the newest one
    that wrote to it, and may be higher than the finding's. Raises Refused if the entry is not open any more."""
    s = finding.subject
    active = None if s.producer_id is None else seen.entry(s.producer_id)
    if active is None:
        raise Refused(f"producer id {s.producer_id} has no open transaction on {s.topic}-{s.partition} any more")
    if active.transaction_start_offset != s.start_offset:
        raise Refused(
            f"the open transaction of producer id {s.producer_id} on {s.topic}-{s.partition} is not that of the"
            f" finding: it began at offset {active.transaction_start_offset}"
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
        first_seen_ms=finding.life.opened_at_ms,
        seen_at_ms=seen.asked_at_ms,
    )
