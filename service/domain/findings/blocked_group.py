"""The facts and words of findings about consumer groups: groups that wait behind an open transaction, and groups for
which it is not known whether they wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import NoneType
from typing import Final, NamedTuple

from service.domain.findings.conditions import bounded
from service.domain.findings.finding import Observation, SharedFacts, Subject, Words
from service.domain.findings.formatting import utc
from service.domain.findings.kinds import Kind, Severity
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.group_offsets import OFFSETS_TOPIC
from service.domain.partitions.open_entries import RelationKind
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import ShareLevelNotReported
from service.domain.transaction_log.causes import Confidence

_WHAT: Final = {
    RelationKind.OPEN: "the open transaction of {}",
    RelationKind.OVERDUE: "the overdue transaction of {}",
    RelationKind.COMPLETING: "the transaction of {}, which is decided but not complete,",
    RelationKind.ADOPTED: "a block of stale records of {}",
    RelationKind.UNREPLICATED_MARKER: "the transaction of {}, whose marker is not replicated yet,",
    RelationKind.HANGING: "the hanging transaction of {}",
    RelationKind.UNKNOWN: "a transaction of {}",
}


@dataclass(frozen=True, slots=True)
class StallCause:
    """The cause of a stall: an open transaction. `name`: its id, or else its producer id, as text for people.
    `relation`: the relation of its entry; None if the entry was not read yet. `has_finding`: a confirmed finding
    reports the transaction. `among`: the number of transactions for which the group may wait; this cause is the worst
    of them."""

    relation: RelationKind | None
    name: str
    heals_at_ms: int | None
    has_finding: bool
    among: int = 1

    @property
    def text(self) -> str:
        if self.relation is None:
            return "a transaction that has not been read yet"
        text = _WHAT[self.relation].format(self.name)
        if self.among == 1:
            return text
        return f"one of {self.among} open transactions (the worst of them: {text.removesuffix(',')})"

    @property
    def outlook(self) -> str:
        if self.heals_at_ms is not None:
            return f"Consumption can continue when the transaction ends: its abort is due by {utc(self.heals_at_ms)}."
        if self.relation == RelationKind.OPEN:
            return "Consumption can continue when the application commits or aborts the transaction."
        if self.has_finding:
            return "Consumption can continue when the transaction ends: see the finding about that transaction."
        return "Consumption can continue when the transaction ends; what will end the transaction is not known yet."


NOT_READ: Final = StallCause(None, "", None, has_finding=False)


class Doubt(StrEnum):
    """The reason why it is not certain that a group waits."""

    NO_OFFSET = "no_offset"
    ABOVE_THE_LSO = "above_the_lso"
    LEVEL_NOT_REPORTED = "level_not_reported"


_DOUBTS: Final = {
    None: "",
    Doubt.NO_OFFSET: "; the group has members on the partition and has committed no offset",
    Doubt.ABOVE_THE_LSO: "; the group is above that offset and does not move, although there are records that it could"
    " read",
    Doubt.LEVEL_NOT_REPORTED: "; the group does not move, and Kafka does not report its isolation level",
}


@dataclass(frozen=True, slots=True)
class BlockedGroupFacts(SharedFacts):
    """A group that waits for an open transaction on the partition `stalled`, whose LSO is `lso`. `is_unstable`: that
    transaction contains an offset of the group (UNSTABLE_OFFSET_COMMIT); `stalled` is then a partition of
    `__consumer_offsets`."""

    is_unstable: bool
    stalled: TopicPartition
    lso: int
    cause: StallCause
    doubt: Doubt | None

    def words(self, about: Observation, /) -> Words:
        title, advice = self._unstable(about.subject) if self.is_unstable else self._behind(about)
        if self.more:
            title = self.rest(
                "consumer group probably waits on partitions with open transactions",
                "consumer groups probably wait on partitions with open transactions",
            )
        return Words(title, f"{advice} {self.cause.outlook}")

    def _behind(self, about: Observation) -> tuple[str, str]:
        topic, partition, group = about.subject.topic, about.subject.partition, about.subject.group
        waits = "is blocked" if about.confidence == Confidence.CERTAIN else "is probably blocked"
        return (
            f"{group} {waits} on {topic}-{partition}: at offset {self.lso} {self.cause.text} stops read_committed"
            f" consumers{_DOUBTS[self.doubt]}",
            "Restarting the group helps only if the group's own application opened the transaction. Resetting the"
            " group's offsets beyond the LSO skips records that may yet be committed. The group's lag, which clients"
            " measure up to the LSO, may be 0.",
        )

    def _unstable(self, subject: Subject) -> tuple[str, str]:
        return (
            f"an offset of {subject.group} for {subject.topic}-{subject.partition} is part of {self.cause.text} on"
            f" {self.stalled[0]}-{self.stalled[1]} (UNSTABLE_OFFSET_COMMIT)",
            "A consumer that starts, or gets the partition in a rebalance, waits if it asks for stable offsets, as Java"
            " clients since 2.5 do. Do not delete the group: its offsets would be lost.",
        )


@dataclass(frozen=True, slots=True)
class GroupUnreadFacts(SharedFacts):
    """A group that cannot be judged. Its only facts are the subject and the `reason` of the observation. If the reason
    is None, txnscope has no permission to read the group's offsets."""

    def words(self, about: Observation, /) -> Words:
        reason = about.reason
        why = "no permission to read the offsets of this consumer group" if reason is None else str(reason)
        return Words(
            f"{self.rest('group', 'groups')} cannot be judged; txnscope may need DESCRIBE on groups, and"
            " DESCRIBE_CONFIGS on share groups"
            if self.more
            else f"{about.subject.group}: {why}, so it is not known whether the group is blocked",
            _TO_GRANT.get(type(reason), _NOTHING_TO_GRANT),
        )


_SHARE_WAITS: Final = "A share group waits for open transactions only if its share.isolation.level is read_committed."
_TO_GRANT: Final = {
    NoneType: "Grant DESCRIBE on the group to txnscope's principal.",
    ShareLevelNotReported: f"Grant DESCRIBE_CONFIGS on the group to txnscope's principal. {_SHARE_WAITS}",
}
_NOTHING_TO_GRANT: Final = (
    f"{_SHARE_WAITS} Look up this config of the group, and look at the group's lag on the stalled partitions."
)


def unreadable_groups(denied: Iterable[str], not_judged: Mapping[str, Reason]) -> list[Observation]:
    """Returns observations of listed groups for which it is not known whether they wait. `denied`: groups whose offsets
    txnscope has no permission to read. `not_judged`: a mapping from share group to the reason why it cannot be
    judged."""
    groups: list[tuple[str, Reason | None]] = [(group, None) for group in sorted(denied)]
    groups += sorted(not_judged.items(), key=lambda one: one[0])
    return bounded(groups, lambda one: _unreadable(*one))


def _unreadable(group: str, reason: Reason | None) -> Observation:
    return Observation(
        kind=Kind.COVERAGE_GAP,
        severity=Severity.WARNING,
        subject=Subject(group=group),
        facts=GroupUnreadFacts(),
        evidence=(),
        reason=reason,
    )


class UnreadCommits(NamedTuple):
    """An open transaction on a `partition` of `__consumer_offsets` that may block unknown groups, because some of its
    batches or records could not be read. `reached`: the offset up to which its batches were read; None if all were
    read. `undecodable`: pairs of a reason and the number of its records that cannot be decoded for that reason.
    `damaged`: the number of damaged batches that may belong to the transaction."""

    partition: int
    producer_id: int
    start_offset: int
    reached: int | None
    undecodable: tuple[tuple[str, int], ...]
    damaged: int


@dataclass(frozen=True, slots=True)
class CommitsUnreadFacts(SharedFacts):
    """The facts of a finding about an open transaction that may block unknown groups. The fields are those of
    UnreadCommits."""

    reached: int | None
    undecodable: tuple[tuple[str, int], ...]
    damaged: int

    def shared(self, more: int) -> CommitsUnreadFacts:
        """Returns the facts without `reached`, `undecodable` and `damaged`, which the words of a finding about several
        transactions do not contain."""
        return replace(self, more=more, reached=None, undecodable=(), damaged=0)

    def words(self, about: Observation, /) -> Words:
        subject = about.subject
        found = [] if self.reached is None else [f"its batches were read only up to offset {self.reached}"]
        found += [f"{count:,} of its records cannot be decoded ({reason})" for reason, count in self.undecodable]
        if self.damaged:
            batches = "1 damaged batch" if self.damaged == 1 else f"{self.damaged:,} damaged batches"
            found.append(f"{batches} may belong to it")
        return Words(
            f"{self.rest('open transaction', 'open transactions')} may block groups that are not listed"
            if self.more
            else f"{OFFSETS_TOPIC}-{subject.partition}: the open transaction of producer id {subject.producer_id} may"
            f" block groups that are not listed: {'; '.join(found)}",
            "Groups that are not listed may wait, too. The application of the transaction knows for which groups"
            " it commits offsets.",
        )


def incompletely_read(unread: Iterable[UnreadCommits]) -> list[Observation]:
    """Returns observations of open transactions that may block more groups than are shown."""
    return bounded(list(unread), _incompletely_read)


def _incompletely_read(commits: UnreadCommits) -> Observation:
    return Observation(
        kind=Kind.COVERAGE_GAP,
        severity=Severity.WARNING,
        subject=Subject(
            topic=OFFSETS_TOPIC,
            partition=commits.partition,
            producer_id=commits.producer_id,
            start_offset=commits.start_offset,
        ),
        facts=CommitsUnreadFacts(commits.reached, commits.undecodable, commits.damaged),
        evidence=(),
    )
