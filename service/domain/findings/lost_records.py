"""Findings about records of a committed transaction that an ABORT marker ended: read_committed consumers never get
them. Such a finding stays until it is acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from service.domain.findings.finding import Evidence, Facts, Observation, Occurrence, Subject, Words
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.rules import Rule
from service.domain.partitions.facts import LogPlace
from service.domain.transaction_log.causes import Confidence


class EndedBy(StrEnum):
    """The ABORT marker that ended the records."""

    OTHER_TRANSACTION = "other_transaction"
    """A marker of the coordinator for another transaction of the same producer id."""

    FOREIGN_ABORT = "foreign_abort"
    """A marker that no coordinator decided: written by hand, or by a tool."""

    NOT_KNOWN = "not_known"
    """A marker that was not compared with the coordinators' decisions."""


_HOW: Final = {
    EndedBy.OTHER_TRANSACTION: "the ABORT marker of another transaction of its producer id",
    EndedBy.FOREIGN_ABORT: "an ABORT marker that no coordinator decided",
    EndedBy.NOT_KNOWN: "an ABORT marker of another transaction of its producer id, or one written by hand",
}


class LostRecords(NamedTuple):
    """Records of one committed transaction on one partition, ended by an ABORT marker.

    - `first_offset`, `last_offset`: of what the marker ended, as far as it was read: the records are among these, and
      others of the same producer id may be, too; `last_offset` None if it is not known.
    - `name`: the transactional.id as text; None if it is not known.
    - `marker_offset`: of the ABORT marker, None if it was not read.
    - `ended_at_ms`: the time of the marker, else the time at which the records were seen to be ended.
    - `decision`: evidence that the transaction was committed.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int | None
    transactional_id: bytes | None
    name: str | None
    producer_id: int
    producer_epoch: int
    ended_by: EndedBy
    marker_offset: int | None
    ended_at_ms: int
    decision: tuple[Evidence, ...]
    confidence: Confidence = Confidence.CERTAIN


@dataclass(frozen=True, slots=True)
class LostRecordsFacts(Facts):
    """The facts about lost records. `last_offset`: the end of the range that begins with the subject's offset; None if
    it is not known."""

    name: str | None
    last_offset: int | None
    ended_by: EndedBy

    def words(self, about: Observation, /) -> Words:
        subject = about.subject
        first, last = subject.start_offset, self.last_offset
        who = f"producer id {subject.producer_id}" if self.name is None else self.name
        offsets = f"at offset {first}" if last == first else f"among offsets {first} to {last}"
        if last is None:
            offsets = f"among offsets from {first} on"
        comma = "," if self.ended_by is EndedBy.NOT_KNOWN else ""
        return Words(
            f"{subject.topic}-{subject.partition}: records of {who} {offsets} were committed, and are lost to consumers"
            " of committed records",
            "No marker brings them back. Until retention deletes them they are in the log: read these offsets with"
            " isolation.level=read_uncommitted, compare them with what the application sent, and have it send again"
            " what consumers need. Then acknowledge this finding.",
            f"{_HOW[self.ended_by]}{comma} ended them",
        )


def lost_records(one: LostRecords, rule: Rule) -> Observation:
    """Returns the observation. It needs to be made only once, because the finding is kept until somebody acknowledges
    it. A repetition within 24 h after the acknowledgement changes nothing."""
    place = f"{one.topic}-{one.partition}"
    marker = place if one.marker_offset is None else LogPlace(one.topic, one.partition, one.marker_offset)
    return Observation(
        kind=Kind.LOST_RECORDS,
        severity=Severity.CRITICAL,
        subject=Subject(
            topic=one.topic,
            partition=one.partition,
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            start_offset=one.first_offset,
        ),
        facts=LostRecordsFacts(one.name, one.last_offset, one.ended_by),
        evidence=(
            *one.decision,
            Evidence(
                one.ended_at_ms,
                marker,
                f"{_HOW[one.ended_by]} (producer id {one.producer_id}, epoch {one.producer_epoch})",
            ),
        ),
        confidence=one.confidence,
        occurrences=(Occurrence(one.first_offset, one.ended_at_ms),),
        owner=rule.owner,
        muted_until_ms=rule.mute_until_ms,
    )
