"""Findings about torn transactions: a partition got another outcome than the coordinator decided, or records of the
transaction were deleted before the commit. Such a finding stays until it is acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from service.domain.findings.finding import Evidence, Facts, Observation, Occurrence, Subject, Words
from service.domain.findings.formatting import Names, partitions_of
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.rules import Rule
from service.domain.partitions.facts import LogPlace

TOLD: Final = 4
"""Maximum number of markers of each outcome, and of deleted parts, that the evidence names."""

_OF_COMMITTED: Final = (
    "No marker makes the transaction whole again. The aborted records stay in the log until retention or"
    " compaction removes them: read them with isolation.level=read_uncommitted, and have the application send again the"
    " records that consumers need. Find out what wrote the marker, such as kafka-transactions.sh abort, or a tool that"
    " sends WriteTxnMarkers. Then acknowledge this finding."
)
_OF_ABORTED: Final = (
    "No marker undoes this: read_committed consumers may have read records that were to be aborted. Tell the owners of"
    " these consumers, and find out what wrote the marker, such as a tool that sends WriteTxnMarkers. Then"
    " acknowledge this finding."
)


_OF_GONE: Final = (
    "Nothing brings these records back: they were deleted with the topic, even if a topic of that name exists"
    " again. Have the application send again the records that consumers need. Find out who deletes the topic while"
    " applications write to it: their transactions have to end first. Then acknowledge this finding."
)


class MarkerRead(NamedTuple):
    """A marker that was read on a partition. `at_ms`: when it was written, by the leader's clock."""

    topic: str
    partition: int
    offset: int
    is_commit: bool
    at_ms: int


class GonePart(NamedTuple):
    """Records from `from_offset` on that were deleted with their topic while their transaction was open. `seen_at_ms`:
    when the deletion was seen, by our clock."""

    topic: str
    partition: int
    from_offset: int
    seen_at_ms: int


class TornTransaction(NamedTuple):
    """A transaction that has partitions with another outcome than was decided, or records that were deleted before the
    commit: `otherwise` or `gone` is not empty.

    - `sequence`: number in the store, by which the transaction is counted once.
    - `name`: the transactional.id as text.
    - `is_commit`: the coordinator's decision; `decided_at`: place of its record, written at `decided_at_ms`.
    - `otherwise`: the markers with another outcome than was decided; `as_decided`: the markers with the decided
      outcome.
    - `unseen`: number of its other partitions, on which no marker was read.
    - `gone`: its records that were deleted with their topics before it was committed.
    """

    sequence: int
    transactional_id: bytes
    name: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    decided_at: LogPlace
    decided_at_ms: int
    otherwise: tuple[MarkerRead, ...]
    as_decided: tuple[MarkerRead, ...]
    unseen: int
    gone: tuple[GonePart, ...] = ()

    @property
    def topics(self) -> list[str]:
        """Returns the topics of the markers with another outcome than was decided, and of the deleted records."""
        return [*(marker.topic for marker in self.otherwise), *(part.topic for part in self.gone)]


@dataclass(frozen=True, slots=True)
class TornFacts(Facts):
    """The facts about a TornTransaction. A field about partitions is None if the transaction has no partition of that
    sort; `gone_topics`: the number of deleted topics in `gone`."""

    name: str
    is_commit: bool
    otherwise: Names | None
    gone: Names | None
    gone_topics: int
    as_decided: Names | None
    unseen: int

    def words(self, _: Observation, /) -> Words:
        decided = "committed" if self.is_commit else "aborted"
        parts, rest = [], []
        if self.otherwise is not None:
            part = f"part on {self.otherwise} is" if self.otherwise.count == 1 else f"parts on {self.otherwise} are"
            parts.append(f"its {part} {'aborted' if self.is_commit else 'committed'}")
        if self.gone is not None:
            topics = "topic was" if self.gone_topics == 1 else "topics were"
            parts.append(f"its records on {self.gone} are gone: the {topics} deleted during the transaction")
        if self.as_decided is not None:
            rest.append(f"{decided} on {self.as_decided}")
        if self.unseen:
            rest.append(f"no marker was read on {self.unseen} more of its partitions")
        advice = _OF_GONE if self.otherwise is None else _OF_COMMITTED if self.is_commit else _OF_ABORTED
        if self.otherwise is not None and self.gone is not None:
            advice = f"{advice} For the deleted records: {_OF_GONE}"
        return Words(f"a transaction of {self.name} was {decided}, and {'; '.join(parts)}", advice, "; ".join(rest))


def torn(transaction: TornTransaction, rule: Rule) -> Observation:
    """Returns the observation of the torn transaction. The observation's subject is the first marker with another
    outcome; without such a marker, the first deleted part."""
    if transaction.otherwise:
        marker = transaction.otherwise[0]
        topic, partition, offset, at_ms = marker.topic, marker.partition, marker.offset, marker.at_ms
    else:
        topic, partition, offset, at_ms = transaction.gone[0]
    return Observation(
        kind=Kind.TORN,
        severity=Severity.CRITICAL,
        subject=Subject(
            topic=topic,
            partition=partition,
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            start_offset=offset,
        ),
        facts=TornFacts(
            transaction.name,
            transaction.is_commit,
            partitions_of([(marker.topic, marker.partition) for marker in transaction.otherwise])
            if transaction.otherwise
            else None,
            partitions_of([(part.topic, part.partition) for part in transaction.gone]) if transaction.gone else None,
            len({part.topic for part in transaction.gone}),
            partitions_of([(marker.topic, marker.partition) for marker in transaction.as_decided])
            if transaction.as_decided
            else None,
            transaction.unseen,
        ),
        evidence=(
            Evidence(
                transaction.decided_at_ms,
                transaction.decided_at,
                f"the coordinator decided: {'commit' if transaction.is_commit else 'abort'}",
            ),
            *(_evidence(marker, "not what was decided") for marker in transaction.otherwise[:TOLD]),
            *(_evidence_of_gone(part) for part in transaction.gone[:TOLD]),
            *(_evidence(marker, "as decided") for marker in transaction.as_decided[:TOLD]),
        ),
        occurrences=(Occurrence(transaction.sequence, at_ms),),
        owner=rule.owner,
        muted_until_ms=rule.mute_until_ms,
    )


def _evidence(marker: MarkerRead, how: str) -> Evidence:
    place = LogPlace(marker.topic, marker.partition, marker.offset)
    return Evidence(marker.at_ms, place, f"{'COMMIT' if marker.is_commit else 'ABORT'} marker: {how}")


def _evidence_of_gone(part: GonePart) -> Evidence:
    place = LogPlace(part.topic, part.partition, part.from_offset)
    return Evidence(part.seen_at_ms, place, "records from here on had no marker when the topic was deleted")
