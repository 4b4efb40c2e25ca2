"""Findings about records that an ABORT marker ended although their transaction was committed: read_committed consumers
never get these records. Such a finding stays until it is acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.domain.findings.finding import Evidence, Facts, Observation, Occurrence, Subject, Words
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.rules import Rule
from service.domain.partitions.facts import LogPlace
from service.domain.worlds.markers import Marker


class EndedBy(StrEnum):
    """The origin of the ABORT marker that ended the records."""

    OTHER_TRANSACTION = "other_transaction"
    """A marker of the coordinator for another transaction of the same producer id."""

    FOREIGN_ABORT = "foreign_abort"
    """A marker that no coordinator decided: written by hand, or by a tool."""

    NOT_KNOWN = "not_known"
    """A marker for which it is not known whether a coordinator decided it."""


_HOW: Final = {
    EndedBy.OTHER_TRANSACTION: "the ABORT marker of another transaction of its producer id",
    EndedBy.FOREIGN_ABORT: "an ABORT marker that no coordinator decided",
    EndedBy.NOT_KNOWN: "an ABORT marker of another transaction of its producer id, or one written by hand",
}


@dataclass(frozen=True, slots=True)
class LostRecordsFacts(Facts):
    """The facts about lost records. `last_offset`: the last offset of the range that begins with the subject's offset;
    None if it is not known."""

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
            "No marker brings these records back. They stay in the log until retention or compaction removes them:"
            " read these offsets with isolation.level=read_uncommitted, compare the records with those that the"
            " application sent, and have the application send again the records that consumers need. Then acknowledge"
            " this finding.",
            f"{_HOW[self.ended_by]}{comma} ended them",
        )


def lost_records(
    subject: Subject,
    name: str | None,
    last_offset: int | None,
    ended_by: EndedBy,
    marker: Marker,
    decision: tuple[Evidence, ...],
    rule: Rule,
) -> Observation:
    """Returns the observation that the ABORT marker `marker` ended records of a committed transaction on one partition.
    One observation is enough, because the finding stays until somebody acknowledges it. Within 24 h after the
    acknowledgement, further observations change nothing.

    - `subject`: the entry; it begins at the first offset that the marker ended. The lost records lie between that
      offset and `last_offset` (None: not known). Other records of the same producer id may lie there, too.
    - `name`: the transactional.id as text; None if it is not known.
    - `decision`: evidence that the transaction was committed.
    """
    return Observation(
        kind=Kind.LOST_RECORDS,
        severity=Severity.CRITICAL,
        subject=subject,
        facts=LostRecordsFacts(name, last_offset, ended_by),
        evidence=(
            *decision,
            Evidence(
                marker.at_ms,
                LogPlace(subject.topic or "", subject.partition or 0, marker.offset),
                f"{_HOW[ended_by]} (producer id {subject.producer_id}, epoch {subject.producer_epoch})",
            ),
        ),
        occurrences=(Occurrence(subject.start_offset or 0, marker.at_ms),),
        owner=rule.owner,
        muted_until_ms=rule.mute_until_ms,
    )
