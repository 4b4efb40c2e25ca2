"""Tests of findings about blocked groups, and about groups that cannot be judged. A finding about a blocked group has
the severity of the group's blocker. There is no such finding for a group that is not blocked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from service.domain.findings.blocked_group import (
    UnreadCommits,
    incompletely_read,
    unreadable_groups,
)
from service.domain.findings.conditions import MOST_IDS
from service.domain.findings.finding import Finding, Key, Observation, RoundResult, Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.lifecycle import reconcile
from service.domain.findings.rules import Rule
from service.domain.findings.stall_causes import COMMIT_EXPECTED_MS, Blocker, blocked_groups
from service.domain.partitions.blocked_groups import AffectedGroup, GroupRelation
from service.domain.partitions.facts import LogPlace, TopicPartition
from service.domain.partitions.group_offsets import OFFSETS_TOPIC, GroupOffset, IsolationLevel, LsoSample
from service.domain.partitions.open_entries import Entry, Owner, Relation, RelationKind
from service.domain.reasons.unread import ShareLevelNotReported, ShareOffsetsNotReported
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.deadlines import ABORT_SLACK_MS
from service.domain.transaction_log.facts import NO_RECORD
from service.domain.transaction_log.states import TWO_PHASE_TIMEOUT_MS
from tests.helpers.findings import finding_facts
from tests.service.domain.findings.builders import NOW_MS, M, S, context

ORDERS = "orders", 0
HOME = OFFSETS_TOPIC, 9
LSO = 100


def victim(
    relation: GroupRelation = GroupRelation.STOPPED, group: str = "billing", stood_ms: int = M, stalled_ms: int = 10 * S
) -> AffectedGroup:
    offset = GroupOffset(
        group,
        *ORDERS,
        LSO,
        2,
        relation == GroupRelation.UNSTABLE_OFFSETS,
        observed_at_ms=NOW_MS,
        unchanged_since_ms=NOW_MS - stood_ms,
    )
    behind = HOME if relation == GroupRelation.UNSTABLE_OFFSETS else ORDERS
    since_ms = NOW_MS - stalled_ms
    return AffectedGroup(offset, LsoSample(LSO, 150, since_ms), relation, Confidence.CERTAIN, behind, LSO, since_ms)


def blocker(
    kind: RelationKind,
    place: TopicPartition = ORDERS,
    start: int = LSO,
    name: str | None = "pay-1",
    timeout_ms: int = 60 * S,
) -> Blocker:
    entry = Entry(*place, 7, 2, start, 1, NOW_MS, None, None, NOW_MS - 10 * S, NOW_MS)
    owns = Owner(
        transactional_id=b"pay-1",
        log_partition=0,
        generation=1,
        record=NO_RECORD._replace(
            offset=40,
            timestamp_ms=NOW_MS,
            leader_epoch=1,
            state=states.ONGOING,
            producer_id=7,
            producer_epoch=2,
            timeout_ms=timeout_ms,
            start_ms=NOW_MS - 10 * S,
            last_update_ms=NOW_MS,
            client_transaction_version=0,
        ),
        partitions=(ORDERS,),
        first_seen_ms=0,
        last_seen_ms=NOW_MS,
        first_epoch=0,
        last_epoch=2,
        ended_offset=None,
        ended_state=None,
        ended_value=None,
    )
    return Blocker(entry, Relation(kind, owns if name else None), name)


def known(kind: Kind, severity: Severity, subject: Subject, confirmed: bool = True) -> dict[Key, Finding]:
    """Returns the stored findings of a judge that has one finding, as a mapping from key to finding."""
    observation = Observation(kind, severity, subject, finding_facts(kind), (), confirmed=confirmed)
    (change,) = reconcile({}, RoundResult((observation,), frozenset({kind})), NOW_MS, "kafka")
    return {(kind, subject): change.finding}


def found(
    victims: Sequence[AffectedGroup],
    *blockers: Blocker,
    reported: Mapping[Key, Finding] | None = None,
    rules: Sequence[Rule] = (),
) -> list[Observation]:
    by_place: dict[TopicPartition, list[Blocker]] = {}
    for one in blockers:
        by_place.setdefault(one.entry.topic_partition, []).append(one)
    return blocked_groups(victims, by_place, reported or {}, context(*rules), NOW_MS)


def test_a_group_blocked_by_a_hanging_transaction_is_critical() -> None:
    (observation,) = found([victim()], blocker(RelationKind.HANGING))
    assert (observation.kind, observation.severity, observation.confidence) == (
        Kind.BLOCKED_GROUP,
        Severity.CRITICAL,
        Confidence.CERTAIN,
    )
    assert observation.subject == Subject(group="billing", topic="orders", partition=0)
    assert observation.self_heals_at_ms is None
    assert observation.summary.startswith("billing is blocked on orders-0: at offset 100 the hanging transaction of")
    assert "Restarting the group helps only if the group's own application" in observation.advice
    assert [e.source for e in observation.evidence] == [LogPlace("orders", 0, 100), "OffsetFetch"]
    (nameless,) = found([victim()], blocker(RelationKind.HANGING, name=None))
    assert "the hanging transaction of producer id 7" in nameless.summary


@pytest.mark.parametrize(
    "relation",
    [GroupRelation.INACTIVE, GroupRelation.READS_UNCOMMITTED, GroupRelation.WILL_STOP, GroupRelation.UNKNOWN],
)
def test_a_group_that_does_not_wait_has_no_finding(relation: GroupRelation) -> None:
    assert found([victim(relation)], blocker(RelationKind.HANGING)) == []


@pytest.mark.parametrize("relation", [GroupRelation.STOPPED, GroupRelation.UNSTABLE_OFFSETS])
def test_a_group_that_may_still_commit_has_no_finding_yet(relation: GroupRelation) -> None:
    """Even a group that reads uncommitted records may have its committed offset at the LSO, until its next commit. So a
    group gets its finding only after COMMIT_EXPECTED_MS."""
    place = HOME if relation == GroupRelation.UNSTABLE_OFFSETS else ORDERS
    assert found([victim(relation, stood_ms=COMMIT_EXPECTED_MS - 1)], blocker(RelationKind.HANGING, place)) == []
    assert len(found([victim(relation, stood_ms=COMMIT_EXPECTED_MS)], blocker(RelationKind.HANGING, place))) == 1


def test_idle_time_before_the_stall_does_not_count() -> None:
    """An idle group that reads uncommitted records reads new records at once, but commits some seconds later. So only
    the length of the stall counts, and not the idle time before it."""
    idle = 100 * M
    assert found([victim(stood_ms=idle, stalled_ms=COMMIT_EXPECTED_MS - 1)], blocker(RelationKind.HANGING)) == []
    assert len(found([victim(stood_ms=idle, stalled_ms=COMMIT_EXPECTED_MS)], blocker(RelationKind.HANGING))) == 1


def test_the_title_says_that_the_isolation_level_is_not_known() -> None:
    (observation,) = found([victim()._replace(confidence=Confidence.LIKELY)], blocker(RelationKind.HANGING))
    assert observation.summary.startswith(
        "billing is probably blocked on orders-0: at offset 100 the hanging transaction of"
    )
    assert "Kafka does not report its isolation level" in observation.summary


def test_a_long_legal_transaction_is_reported_with_the_time_it_heals() -> None:
    one = blocker(RelationKind.OPEN, timeout_ms=5 * M)
    assert found([victim(stalled_ms=M - 1)], one) == []
    (long,) = found([victim(stalled_ms=M)], one)
    assert (long.severity, long.self_heals_at_ms) == (
        Severity.INFO,
        NOW_MS - 10 * S + 5 * M + 10 * S + ABORT_SLACK_MS,
    )
    assert "its abort is due by 2026" in long.advice
    (endless,) = found([victim(stalled_ms=M)], blocker(RelationKind.OPEN, timeout_ms=TWO_PHASE_TIMEOUT_MS))
    assert endless.self_heals_at_ms is None
    assert "when the application commits or aborts the transaction" in endless.advice
    ruled = known(Kind.LONG_RUNNING, Severity.WARNING, Subject(transactional_id=b"pay-1"))
    (past_its_rule,) = found([victim()], one, reported=ruled)
    assert past_its_rule.severity == Severity.WARNING


@pytest.mark.parametrize(
    ("relation", "kind"), [(RelationKind.OVERDUE, Kind.OVERDUE), (RelationKind.COMPLETING, Kind.STUCK_COMPLETION)]
)
def test_severity_equals_that_of_the_finding_about_the_id(relation: RelationKind, kind: Kind) -> None:
    about = Subject(transactional_id=b"pay-1")
    assert found([victim()], blocker(relation)) == []  # writing a marker takes a moment
    (warned,) = found([victim()], blocker(relation), reported=known(kind, Severity.WARNING, about))
    (critical,) = found([victim()], blocker(relation), reported=known(kind, Severity.CRITICAL, about))
    assert (warned.severity, critical.severity) == (Severity.WARNING, Severity.CRITICAL)
    (untold,) = found([victim(stalled_ms=M)], blocker(relation))
    assert untold.severity == Severity.WARNING


def test_severity_equals_that_of_the_finding_about_the_entry() -> None:
    here = Subject(topic="orders", partition=0, producer_id=7, producer_epoch=2, start_offset=LSO)
    (observation,) = found(
        [victim()], blocker(RelationKind.ADOPTED), reported=known(Kind.ADOPTED, Severity.WARNING, here)
    )
    assert observation.severity == Severity.WARNING
    elsewhere = here._replace(start_offset=LSO + 1)
    assert (
        found([victim()], blocker(RelationKind.ADOPTED), reported=known(Kind.ADOPTED, Severity.WARNING, elsewhere))
        == []
    )


def test_a_candidate_is_no_cause_and_an_unknown_cause_is_reported() -> None:
    here = Subject(topic="orders", partition=0, producer_id=7, producer_epoch=2, start_offset=LSO)
    suspected = known(Kind.HANGING, Severity.CRITICAL, here, confirmed=False)
    assert found([victim()], blocker(RelationKind.UNKNOWN), reported=suspected) == []
    (observation,) = found([victim(stalled_ms=M)], blocker(RelationKind.UNKNOWN), reported=suspected)
    assert observation.severity == Severity.WARNING
    assert "what will end the transaction is not known yet" in observation.advice
    (unread,) = found([victim(stalled_ms=M)])
    assert "a transaction that has not been read yet" in unread.summary


def test_the_first_open_transaction_is_the_cause() -> None:
    (observation,) = found(
        [victim(stalled_ms=M)], blocker(RelationKind.HANGING, start=LSO + 5, name="late"), blocker(RelationKind.OPEN)
    )
    assert (observation.severity, "pay-1" in observation.summary) == (Severity.INFO, True)


def test_a_group_with_pending_offsets_waits_on_its_offsets_partition() -> None:
    (observation,) = found([victim(GroupRelation.UNSTABLE_OFFSETS)], blocker(RelationKind.HANGING, HOME))
    assert observation.subject == Subject(group="billing", topic="orders", partition=0)
    assert observation.severity == Severity.CRITICAL
    assert "on __consumer_offsets-9 (UNSTABLE_OFFSET_COMMIT)" in observation.summary
    assert "Do not delete the group" in observation.advice
    assert observation.evidence[0].source == LogPlace("__consumer_offsets", 9, 100)
    (several,) = found(
        [victim(GroupRelation.UNSTABLE_OFFSETS)],
        blocker(RelationKind.OPEN, HOME),
        blocker(RelationKind.HANGING, HOME, start=LSO + 5),
    )
    assert (several.severity, several.self_heals_at_ms) == (Severity.CRITICAL, None)
    assert "one of 2 open transactions (the worst of them: the hanging transaction of pay-1)" in several.summary


def test_rules_of_the_id_or_topic_give_owner_and_mute() -> None:
    (observation,) = found(
        [victim()],
        blocker(RelationKind.HANGING),
        rules=[Rule(prefix="pay-", owner="team-pay", mute_until_ms=NOW_MS + 5)],
    )
    assert (observation.owner, observation.muted_until_ms) == ("team-pay", NOW_MS + 5)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (1, "1 more consumer group probably waits on partitions with open transactions"),
        (20, "20 more consumer groups probably wait on partitions with open transactions"),
    ],
)
def test_groups_beyond_the_bound_share_one_finding(more: int, says: str) -> None:
    many = [victim(group=f"group-{number:03d}") for number in range(MOST_IDS + more)]
    reported = found(many, blocker(RelationKind.HANGING))
    assert len(reported) == MOST_IDS + 1
    assert (reported[-1].subject, reported[-1].ids) == (Subject(), more)
    assert reported[-1].summary == says


def test_the_same_facts_give_the_same_words() -> None:
    """The text of a finding does not change with the high watermark or with the time of the sample."""
    before = victim()
    ends = LsoSample(LSO, 9_999, before.stalled_since_ms)
    later = before._replace(ends=ends, offset=before.offset._replace(observed_at_ms=NOW_MS + M))
    assert found([before], blocker(RelationKind.HANGING)) == found([later], blocker(RelationKind.HANGING))


def test_a_pending_offset_waits_only_for_its_own_transaction() -> None:
    group = victim(GroupRelation.UNSTABLE_OFFSETS)
    group = group._replace(offset=group.offset._replace(producer_id=8))
    legal = blocker(RelationKind.OPEN, HOME, timeout_ms=5 * M)
    other = blocker(RelationKind.HANGING, HOME, start=LSO + 5, name="pay-2")
    other = other._replace(entry=other.entry._replace(producer_id=8))
    (found_one,) = found([group], legal, other)
    assert found_one.severity == Severity.CRITICAL
    assert "is part of the hanging transaction of pay-2 on __consumer_offsets-9" in found_one.summary
    assert found_one.evidence[0].source == LogPlace("__consumer_offsets", 9, 105)
    assert "its records commit the offset" in found_one.evidence[0].text
    assert found([group], legal) == []  # the transaction ended a moment ago
    mine = group._replace(offset=group.offset._replace(producer_id=7))
    assert found([mine], legal, other) == []  # the transaction is within its timeout and not open for long


def test_transactions_whose_commits_are_partly_unread_are_coverage_gaps() -> None:
    cut = UnreadCommits(9, 7, 100, 900, (), 0)
    strange = UnreadCommits(9, 8, 120, None, (("unknown_key_version", 3),), 1)
    first, second = incompletely_read([cut, strange])
    assert (first.kind, first.subject) == (
        Kind.COVERAGE_GAP,
        Subject(topic=OFFSETS_TOPIC, partition=9, producer_id=7, start_offset=100),
    )
    assert first.summary == (
        "__consumer_offsets-9: the open transaction of producer id 7 may block groups that are not listed: its batches"
        " were read only up to offset 900"
    )
    assert second.summary.endswith(
        "3 of its records cannot be decoded (unknown_key_version); 1 damaged batch may belong to it"
    )
    many = incompletely_read(cut._replace(producer_id=number) for number in range(MOST_IDS + 2))
    assert many[-1].summary == "2 more open transactions may block groups that are not listed"


def test_groups_that_cannot_be_described_are_coverage_gaps() -> None:
    (observation,) = unreadable_groups({"billing"}, {})
    assert (observation.kind, observation.subject) == (Kind.COVERAGE_GAP, Subject(group="billing"))
    assert "DESCRIBE on the group" in observation.advice
    never = unreadable_groups({"billing"}, {"workers": ShareLevelNotReported(), "old": ShareOffsetsNotReported()})
    assert [one.subject.group for one in never] == ["billing", "old", "workers"]
    assert "do not report the offsets of share groups" in never[1].summary
    assert "DESCRIBE_CONFIGS on the group" in never[2].advice
    assert (
        len(unreadable_groups((), {f"g{n:02}": ShareLevelNotReported() for n in range(MOST_IDS + 2)})) == MOST_IDS + 1
    )


def test_a_group_away_from_the_lso_is_only_probably_blocked_and_says_why() -> None:
    def of(offset: int, **more: Any) -> Observation:
        group = victim()._replace(confidence=Confidence.LIKELY)
        (seen,) = found(
            [group._replace(offset=group.offset._replace(committed_offset=offset, **more))],
            blocker(RelationKind.HANGING),
        )
        return seen

    above, without, below = of(LSO + 9), of(-1), of(LSO - 2)
    assert above.summary.startswith("billing is probably blocked on orders-0: at offset 100 the hanging transaction")
    assert above.summary.endswith("although there are records that it could read")
    assert without.summary.endswith("the group has members on the partition and has committed no offset")
    assert without.evidence[1].text.startswith("no committed offset")
    assert below.summary.endswith("does not move, and Kafka does not report its isolation level")
    share = of(LSO - 2, isolation=IsolationLevel.READ_COMMITTED)
    assert (share.evidence[1].source, share.evidence[1].text) == (
        "DescribeShareGroupOffsets",
        "start offset 98, the same since then, share.isolation.level read_committed",
    )
