"""Tests that a topic without READ permission is a coverage gap, and that the finding names the missing ACL."""

from __future__ import annotations

from service.domain.findings.kinds import Kind
from service.domain.findings.unreadable import NotJudged, unreadable_topics
from service.domain.reasons.unjudged import LogUnread, NotAllRead
from tests.helpers.reasons import denied

SINCE = 1_700_000_000_000


def test_a_denied_topic_is_one_gap_with_its_partitions_and_permission() -> None:
    why = denied("vault")
    found = unreadable_topics(
        [
            NotJudged("vault", 3, SINCE, why),
            NotJudged("vault", 1, SINCE + 5, NotAllRead(why)),
            NotJudged("orders", 0, SINCE, LogUnread(denied("__transaction_state"))),
            NotJudged("fine", 0, SINCE, None),
        ]
    )
    (gap,) = found
    assert (gap.kind, gap.subject.topic, gap.subject.partition) == (Kind.COVERAGE_GAP, "vault", None)
    assert gap.summary.startswith("vault-1 and vault-3: ")
    assert "READ on the topic" in gap.advice
    assert gap.reason == why
    assert [evidence.text for evidence in gap.evidence] == [f"not all of its open transactions could be read: {why}"]


def test_findings_of_very_many_denied_topics_are_bounded() -> None:
    many = [NotJudged(f"t-{n:04}", 0, SINCE, denied(f"t-{n:04}")) for n in range(5_000)]
    found = unreadable_topics(many)
    assert len(found) < 1_000
    assert found[-1].subject.topic is None
    assert "more topics" in found[-1].summary
