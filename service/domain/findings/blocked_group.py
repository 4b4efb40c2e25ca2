"""Findings about consumer groups that wait behind an open transaction. Each is as severe as the finding about that
transaction, and resolved with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Final, NamedTuple

from service.domain.findings.conditions import bounded
from service.domain.findings.context import Context, with_rule
from service.domain.findings.finding import Evidence, Finding, Key, Observation, Subject
from service.domain.findings.formatting import utc
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.open_too_long import LONG_AFTER_MS
from service.domain.findings.stall_causes import NOT_READ, Blocker, StallCause, StallCauses, worst_of
from service.domain.partitions.blocked_groups import OFFSETS_TOPIC, AffectedGroup, GroupOffset, GroupRelation
from service.domain.partitions.facts import LogPlace, TopicPartition
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import ShareLevelNotReported
from service.domain.transaction_log.causes import Confidence

COMMIT_EXPECTED_MS: Final = 6_000
"""Time by which a group that makes progress has committed: once in the default auto.commit.interval.ms of 5 s."""


def blocked_groups(
    affected_groups: Iterable[AffectedGroup],
    blockers: Mapping[TopicPartition, Sequence[Blocker]],
    known: Mapping[Key, Finding],
    context: Context,
    as_of_ms: int,
) -> list[Observation]:
    """Returns observations of blocked groups with an offset that has not moved for COMMIT_EXPECTED_MS since there was
    something to wait for; not of those that will stop, because they read on. `known`: findings; the open ones
    describe the transactions that block.

    A group is reported at once if the transaction that blocks it has a finding of its own. Otherwise (the transaction
    is within its timeout, or cannot be judged) it is reported once the partition has been stalled for LONG_AFTER_MS.
    """
    causes = StallCauses(known, context)
    found = []
    for affected in affected_groups:
        waits = affected.is_blocked and affected.relation != GroupRelation.WILL_STOP
        unchanged_ms = affected.offset.unchanged_ms if affected.is_pending else affected.waits_ms
        if waits and unchanged_ms >= COMMIT_EXPECTED_MS:
            behind = _blockers(affected, blockers.get(affected.stalled_partition, ()))
            cause = _cause(behind, causes)
            if cause.has_finding or as_of_ms - affected.stalled_since_ms >= LONG_AFTER_MS:
                found.append((affected, cause, _hold_evidence(affected, cause, behind)))
    found.sort(key=lambda one: (tuple(Severity).index(one[1].severity), one[0].key))
    return bounded(
        found,
        lambda one: _observe(*one, context),
        lambda rest: f"{len(rest):,} more consumer groups wait on partitions with open transactions",
    )


def unreadable_groups(
    denied: Iterable[str], not_judged: Mapping[str, Reason] = MappingProxyType({})
) -> list[Observation]:
    """Returns observations of groups that are listed, and of which it is not known whether they wait. `denied`: their
    offsets may not be read. `not_judged`: share groups, with the reason."""
    groups: list[tuple[str, Reason | None]] = [(group, None) for group in sorted(denied)]
    groups += sorted(not_judged.items(), key=lambda one: one[0])
    return bounded(
        groups,
        lambda one: _unreadable(*one),
        lambda rest: (
            f"{len(rest):,} more groups cannot be judged: grant DESCRIBE on them, and DESCRIBE_CONFIGS on share groups"
        ),
    )


def _unreadable(group: str, reason: Reason | None) -> Observation:
    why = "no permission to read the offsets of this consumer group" if reason is None else str(reason)
    return Observation(
        kind=Kind.COVERAGE_GAP,
        severity=Severity.WARNING,
        subject=Subject(group=group),
        title=f"{group}: {why}, so it may be blocked unseen",
        advice=_TO_GRANT.get(type(reason), _NOTHING_TO_GRANT),
        evidence=(),
        reason=reason,
    )


_SHARE_WAITS: Final = "A share group waits for open transactions only if its share.isolation.level is read_committed."
_TO_GRANT: Final = {
    NoneType: "Grant DESCRIBE on the group to txnscope's principal.",
    ShareLevelNotReported: f"Grant DESCRIBE_CONFIGS on the group to txnscope's principal. {_SHARE_WAITS}",
}
_NOTHING_TO_GRANT: Final = (
    f"{_SHARE_WAITS} Look at the group's configs, and compare its lag with the stalled partitions."
)


class UnreadCommits(NamedTuple):
    """An open transaction that may commit offsets of groups that are not known. `partition`: of `__consumer_offsets`.
    `reached`: the offset up to which its batches were read; None: all of them. `undecodable`: records, by reason;
    `damaged`: batches that may be its own."""

    partition: int
    producer_id: int
    start_offset: int
    reached: int | None
    undecodable: tuple[tuple[str, int], ...]
    damaged: int


def incompletely_read(unread: Iterable[UnreadCommits]) -> list[Observation]:
    """Returns observations of open transactions that may block more groups than are shown."""
    return bounded(
        list(unread),
        _incompletely_read,
        lambda rest: f"{len(rest):,} more open transactions may block groups that are not listed",
    )


def _incompletely_read(one: UnreadCommits) -> Observation:
    place = f"{OFFSETS_TOPIC}-{one.partition}"
    found = [] if one.reached is None else [f"its batches were read only up to offset {one.reached}"]
    found += [f"{count:,} of its records cannot be decoded ({reason})" for reason, count in one.undecodable]
    if one.damaged:
        batches = "1 damaged batch" if one.damaged == 1 else f"{one.damaged:,} damaged batches"
        found.append(f"{batches} may belong to it")
    return Observation(
        kind=Kind.COVERAGE_GAP,
        severity=Severity.WARNING,
        subject=Subject(
            topic=OFFSETS_TOPIC, partition=one.partition, producer_id=one.producer_id, start_offset=one.start_offset
        ),
        title=f"{place}: the open transaction of producer id {one.producer_id} may block groups that are not listed:"
        f" {'; '.join(found)}",
        advice="The listed groups wait; others may wait too. The application of the transaction knows for which groups"
        " it commits offsets.",
        evidence=(),
    )


def _blockers(affected: AffectedGroup, blockers: Iterable[Blocker]) -> list[Blocker]:
    """Returns the entries that the group may wait for. The first open transaction of a partition holds its LSO. If the
    batches that contain a pending offset could not be read, the offset may be in any transaction that is open there: no
    request of Kafka's returns which one."""
    in_order = sorted(blockers, key=lambda one: one.entry.start_offset)
    if affected.waits_for_producer_id is not None:
        return [one for one in in_order if one.entry.producer_id == affected.waits_for_producer_id]
    return in_order if affected.is_pending else in_order[:1]


def _cause(blockers: Sequence[Blocker], causes: StallCauses) -> StallCause:
    if not blockers:
        return NOT_READ
    return worst_of([causes.of(one) for one in blockers]) if len(blockers) > 1 else causes.of(blockers[0])


def _hold_evidence(affected: AffectedGroup, cause: StallCause, blockers: Sequence[Blocker]) -> Evidence:
    if affected.waits_for_producer_id is not None and blockers:
        entry = blockers[0].entry
        text = f"{cause.text} has been open there since then; its records commit the offset"
        return Evidence(entry.first_seen_ms, LogPlace(*affected.stalled_partition, entry.start_offset), text)
    text = f"the LSO has been stalled there since then, below the high watermark; {cause.text} holds it"
    return Evidence(affected.stalled_since_ms, LogPlace(*affected.stalled_partition, affected.stalled_lso), text)


def _observe(affected: AffectedGroup, cause: StallCause, hold: Evidence, context: Context) -> Observation:
    group, topic, partition = affected.key
    problem, advice = (_unstable if affected.relation == GroupRelation.UNSTABLE_OFFSETS else _behind)(affected, cause)
    observation = Observation(
        kind=Kind.BLOCKED_GROUP,
        severity=cause.severity,
        subject=Subject(group=group, topic=topic, partition=partition),
        title=f"{group} {problem}",
        advice=f"{advice} {_outlook(cause)}",
        evidence=(hold, Evidence(affected.offset.unchanged_since_ms, _source(affected.offset), _committed(affected))),
        confidence=affected.confidence,
        self_heals_at_ms=cause.heals_at_ms,
    )
    return with_rule(observation, context.rules.of(cause.owner_name, (topic,)))


def _behind(affected: AffectedGroup, cause: StallCause) -> tuple[str, str]:
    _, topic, partition = affected.key
    waits = "is blocked" if affected.confidence == Confidence.CERTAIN else "is probably blocked"
    return (
        f"{waits} on {topic}-{partition}: at offset {affected.stalled_lso} {cause.text} stops"
        f" read_committed consumers{_doubt(affected)}",
        "Restarting the group does not help. Resetting its offsets beyond the LSO skips records that may yet be"
        " committed. Its lag as clients measure it, up to the LSO, may be 0.",
    )


def _doubt(affected: AffectedGroup) -> str:
    """Returns the text on what the relation of a group rests on, if that is not certain."""
    offset = affected.offset.committed_offset
    if offset < 0:
        return "; the group has members on the partition and has committed no offset"
    if offset > affected.stalled_lso and affected.offset.isolation is None:
        return "; the group is above that offset and does not move, although there are records that it could read"
    if affected.confidence != Confidence.CERTAIN and affected.offset.isolation is None:
        return "; the group does not move, and Kafka does not report its isolation level"
    return ""


def _unstable(affected: AffectedGroup, cause: StallCause) -> tuple[str, str]:
    _, topic, partition = affected.key
    return (
        f"cannot fetch its offset of {topic}-{partition}: the offset is part of {cause.text}"
        f" on {affected.stalled_partition[0]}-{affected.stalled_partition[1]} (UNSTABLE_OFFSET_COMMIT)",
        "Running consumers go on; a consumer that starts, or gets the partition in a rebalance, waits. Do not delete"
        " the group: its offsets would be lost.",
    )


def _outlook(cause: StallCause) -> str:
    if cause.heals_at_ms is not None:
        return f"It goes on when the transaction ends, at {utc(cause.heals_at_ms)} at the latest."
    if cause.is_legal:
        return "It goes on when the application of the transaction ends it."
    if cause.has_finding:
        return "It goes on when the transaction ends: see the finding about that transaction."
    return "It goes on when the transaction ends; what will end the transaction is not known yet."


def _source(offset: GroupOffset) -> str:
    return "OffsetFetch" if offset.isolation is None else "DescribeShareGroupOffsets"


def _committed(affected: AffectedGroup) -> str:
    one = affected.offset
    name = "committed offset" if one.isolation is None else "start offset"
    what = f"no {name}" if one.committed_offset < 0 else f"{name} {one.committed_offset}"
    reads = "" if one.isolation is None else f", share.isolation.level {one.isolation}"
    return what + (", another one pending" if one.is_unstable else "") + ", the same since then" + reads
