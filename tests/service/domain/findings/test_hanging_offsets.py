"""Tests that a finding on `__consumer_offsets` names the groups of its pending offsets."""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.findings.context import Context
from service.domain.findings.finding import Evidence
from service.domain.findings.hanging import Case, observe
from service.domain.findings.rules import Rule, Rules
from service.domain.partitions.blocked_groups import AffectedGroup, GroupRelation
from service.domain.partitions.facts import LogPlace
from service.domain.partitions.group_offsets import OFFSETS_TOPIC, GroupOffset
from service.domain.partitions.open_entries import Entry
from service.domain.transaction_log.causes import Confidence
from tests.service.domain.findings.builders import NOW_MS
from tests.service.domain.findings.test_open_entries import KNOWN

HOME = OFFSETS_TOPIC, 9
ENTRY = Entry(*HOME, 7, 2, 100, -1, NOW_MS, None, None, NOW_MS - 5_000, NOW_MS)


def victim(group: str, partition: int, members: int = 2) -> AffectedGroup:
    offset = GroupOffset(
        group, "orders", partition, -1, members, True, 7, observed_at_ms=NOW_MS, unchanged_since_ms=NOW_MS
    )
    return AffectedGroup(
        offset,
        None,
        GroupRelation.UNSTABLE_OFFSETS if members else GroupRelation.INACTIVE,
        Confidence.CERTAIN,
        HOME,
        100,
        NOW_MS,
    )


def evidence(pending: Sequence[AffectedGroup]) -> list[Evidence]:
    case = Case(ENTRY, None, None, 0, 100, (), pending=tuple(pending))
    found = observe(case, Rule(), Context(KNOWN, Rules()), "b:9092", confirmed=True, certain=True)
    return [one for one in found.evidence if "commit offsets of" in one.text]


def test_evidence_names_groups_with_and_without_members() -> None:
    (found,) = evidence([victim("billing", 0), victim("billing", 3), victim("idle", 1, members=0)])
    assert found == Evidence(
        ENTRY.first_seen_ms,
        LogPlace("__consumer_offsets", 9, 100),
        "its records commit offsets of billing (orders-0 and orders-3) and idle (orders-1): a member that starts may"
        " wait until the transaction ends",
    )


def test_evidence_names_the_first_of_many_groups() -> None:
    (found,) = evidence([victim(f"group-{n}", p) for n in range(9) for p in range(8)])
    assert "group-0 (orders-0, orders-1, orders-2, orders-3, orders-4 and 3 more)" in found.text
    assert "group-4 (" in found.text
    assert "and 4 more: a member that starts" in found.text


def test_without_a_known_group_there_is_no_evidence() -> None:
    assert evidence([]) == []
