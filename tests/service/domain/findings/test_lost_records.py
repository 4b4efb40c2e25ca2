"""Tests that a finding of lost records names the owner, the offsets and the cause."""

from __future__ import annotations

from service.domain.findings.finding import Evidence, Observation, Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.lost_records import EndedBy, lost_records
from service.domain.findings.rules import NO_RULE, Rule
from service.domain.partitions.facts import LogPlace
from service.domain.worlds.markers import Marker

DECIDED = Evidence(1_000, LogPlace("__transaction_state", 3, 77), "PrepareCommit, and it listed orders-0")
PAY = Subject("orders", 0, b"pay", 7, 3, 100)
ABORT = Marker(140, 3, 2_000, is_commit=False)


def lost(
    subject: Subject = PAY,
    name: str | None = "pay",
    last_offset: int | None = 119,
    ended_by: EndedBy = EndedBy.FOREIGN_ABORT,
    marker: Marker = ABORT,
    rule: Rule = NO_RULE,
) -> Observation:
    return lost_records(subject, name, last_offset, ended_by, marker, (DECIDED,), rule)


def test_a_finding_names_the_lost_records_their_owner_and_the_marker() -> None:
    found = lost(rule=Rule(owner="payments"))
    assert (found.kind, found.severity, found.owner) == (Kind.LOST_RECORDS, Severity.CRITICAL, "payments")
    assert found.subject == PAY
    assert found.title == (
        "orders-0: records of pay among offsets 100 to 119 were committed, and are lost to consumers of committed"
        " records"
    )
    assert found.detail == "an ABORT marker that no coordinator decided ended them"
    assert found.evidence[0] == DECIDED
    assert (found.evidence[1].at_ms, found.evidence[1].source) == (2_000, LogPlace("orders", 0, 140))
    assert found.bootstrap is None


def test_a_finding_leaves_out_unknown_facts() -> None:
    nameless = PAY._replace(transactional_id=None)
    found = lost(nameless, None, None, EndedBy.OTHER_TRANSACTION)
    assert "records of producer id 7 among offsets from 100 on were committed" in found.title
    assert found.detail == "the ABORT marker of another transaction of its producer id ended them"
    assert lost(nameless, None, None, EndedBy.NOT_KNOWN).detail == (
        "an ABORT marker of another transaction of its producer id, or one written by hand, ended them"
    )
    assert "at offset 100 were" in lost(last_offset=100).title


def test_a_loss_that_is_observed_twice_is_one_occurrence() -> None:
    again = lost(marker=ABORT._replace(at_ms=9_000))
    assert {o.sequence for observation in (lost(), again) for o in observation.occurrences} == {100}
