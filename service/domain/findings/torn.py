"""Findings about transactions of which one part got another outcome than the coordinator decided. Such a finding stays
until it is acknowledged."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.findings import kinds
from service.domain.findings.finding import Evidence, Observation, Occurrence, Subject
from service.domain.findings.formatting import join_partitions
from service.domain.findings.rules import Rule

TOLD: Final = 4
"""Maximum number of markers of each outcome that the evidence names."""

_OF_COMMITTED: Final = (
    "No marker puts it together again. Until retention deletes them the aborted records are in the log: read them with"
    " isolation.level=read_uncommitted, and have the application send again what consumers need. Find out who wrote"
    " the marker: kafka-transactions.sh abort, or a tool that sends WriteTxnMarkers. Then acknowledge this finding."
)
_OF_ABORTED: Final = (
    "No marker takes it back: consumers of committed records have read records that the application aborted. Tell"
    " their owners, and find out who wrote the marker: a tool that sends WriteTxnMarkers. Then acknowledge this"
    " finding."
)


class MarkerRead(NamedTuple):
    """A marker that was read on a partition. `at_ms`: the leader's clock."""

    topic: str
    partition: int
    offset: int
    is_commit: bool
    at_ms: int

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class TornTransaction(NamedTuple):
    """A transaction whose markers contradict its decision.

    - `sequence`: number in the store, by which it is counted once.
    - `name`: the transactional.id as text.
    - `is_commit`: the coordinator's decision; `decided_at`: place of its record, written at `decided_at_ms`.
    - `otherwise`: the markers that say otherwise, not empty; `as_decided`: those that say the same.
    - `unseen`: number of its partitions without a marker that was read.
    """

    sequence: int
    transactional_id: bytes
    name: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    decided_at: str
    decided_at_ms: int
    otherwise: tuple[MarkerRead, ...]
    as_decided: tuple[MarkerRead, ...]
    unseen: int


def torn(one: TornTransaction, rule: Rule) -> Observation:
    """Returns the observation of the transaction."""
    first = one.otherwise[0]
    places = join_partitions([(marker.topic, marker.partition) for marker in one.otherwise])
    decided, otherwise = ("committed", "aborted") if one.is_commit else ("aborted", "committed")
    parts = "part" if len(one.otherwise) == 1 else "parts"
    return Observation(
        kind=kinds.TORN,
        severity=kinds.CRITICAL,
        subject=Subject(
            topic=first.topic,
            partition=first.partition,
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            start_offset=first.offset,
        ),
        title=f"a transaction of {one.name} was {decided}, and its {parts} on {places} {_verb(one)} {otherwise}",
        detail=_rest(one, decided),
        advice=_OF_COMMITTED if one.is_commit else _OF_ABORTED,
        evidence=(
            Evidence(
                one.decided_at_ms, one.decided_at, f"the coordinator decided: {'commit' if one.is_commit else 'abort'}"
            ),
            *(_evidence(marker, "not what was decided") for marker in one.otherwise[:TOLD]),
            *(_evidence(marker, "as decided") for marker in one.as_decided[:TOLD]),
        ),
        occurrences=(Occurrence(one.sequence, first.at_ms),),
        owner=rule.owner,
        muted_until_ms=rule.mute_until_ms,
    )


def _verb(one: TornTransaction) -> str:
    return "is" if len(one.otherwise) == 1 else "are"


def _rest(one: TornTransaction, decided: str) -> str:
    told = []
    if one.as_decided:
        places = join_partitions([(marker.topic, marker.partition) for marker in one.as_decided])
        told.append(f"{decided} on {places}")
    if one.unseen:
        told.append(f"on {one.unseen} more of its partitions no marker was read")
    return "; ".join(told)


def _evidence(marker: MarkerRead, how: str) -> Evidence:
    return Evidence(marker.at_ms, marker.place, f"{'COMMIT' if marker.is_commit else 'ABORT'} marker: {how}")
