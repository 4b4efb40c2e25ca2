"""A topic that stands and may not be read is a gap that names the ACL."""

from __future__ import annotations

from service.domain.findings import kinds
from service.domain.findings.unreadable import NotJudged, unreadable_topics
from service.kafka.errors import no_permission

SINCE = 1_700_000_000_000


def test_one_gap_a_topic_that_names_partitions_and_permission() -> None:
    why = no_permission("vault", "READ")
    found = unreadable_topics(
        [
            NotJudged("vault", 3, SINCE, why),
            NotJudged("vault", 1, SINCE + 5, f"not all that is open there could be read: {why}"),
            NotJudged("orders", 0, SINCE, f"the log is not read: {no_permission('__transaction_state', 'READ')}"),
            NotJudged("fine", 0, SINCE, None),
        ]
    )
    (gap,) = found
    assert (gap.kind, gap.subject.topic, gap.subject.partition) == (kinds.COVERAGE_GAP, "vault", None)
    assert gap.summary.startswith("vault-1 and vault-3: ")
    assert "Grant READ" in gap.advice
    assert [evidence.text for evidence in gap.evidence] == [f"not all that is open there could be read: {why}"]


def test_very_many_denied_topics_are_few_findings() -> None:
    many = [NotJudged(f"t-{n:04}", 0, SINCE, no_permission(f"t-{n:04}", "READ")) for n in range(5_000)]
    found = unreadable_topics(many)
    assert len(found) < 1_000
    assert found[-1].subject.topic is None
    assert "more topics" in found[-1].summary
