"""Tests that a finding of lost records names the owner, the offsets, the cause and the remedy."""

from __future__ import annotations

from service.domain.findings.finding import Evidence, Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.lost_records import EndedBy, LostRecords, lost_records
from service.domain.findings.rules import Rule
from service.domain.partitions.facts import LogPlace

DECIDED = Evidence(1_000, LogPlace("__transaction_state", 3, 77), "PrepareCommit, and it listed orders-0")
LOST = LostRecords(
    topic="orders",
    partition=0,
    first_offset=100,
    last_offset=119,
    transactional_id=b"pay",
    name="pay",
    producer_id=7,
    producer_epoch=3,
    ended_by=EndedBy.FOREIGN_ABORT,
    marker_offset=140,
    ended_at_ms=2_000,
    decision=(DECIDED,),
)


def test_it_names_the_records_their_owner_and_the_marker() -> None:
    found = lost_records(LOST, Rule(owner="payments"))
    assert (found.kind, found.severity, found.owner) == (Kind.LOST_RECORDS, Severity.CRITICAL, "payments")
    assert found.subject == Subject("orders", 0, b"pay", 7, 3, 100)
    assert found.title == (
        "orders-0: records of pay among offsets 100 to 119 were committed, and are lost to consumers of committed"
        " records"
    )
    assert found.detail == "an ABORT marker that no coordinator decided ended them"
    assert found.evidence[0] == DECIDED
    assert (found.evidence[1].at_ms, found.evidence[1].source) == (2_000, LogPlace("orders", 0, 140))
    assert found.bootstrap is None


def test_what_is_not_known_is_not_said() -> None:
    other = LOST._replace(last_offset=None, name=None, transactional_id=None, marker_offset=None)
    found = lost_records(other._replace(ended_by=EndedBy.OTHER_TRANSACTION), Rule())
    assert "records of producer id 7 among offsets from 100 on were committed" in found.title
    assert found.detail == "the ABORT marker of another transaction of its producer id ended them"
    assert found.evidence[1].source == "orders-0"
    unknown = lost_records(other._replace(ended_by=EndedBy.NOT_KNOWN), Rule())
    assert unknown.detail == (
        "an ABORT marker of another transaction of its producer id, or one written by hand, ended them"
    )
    assert "at offset 100 were" in lost_records(LOST._replace(last_offset=100), Rule()).title


def test_seeing_it_twice_is_one_occurrence() -> None:
    later = LOST._replace(marker_offset=None, ended_at_ms=9_000)
    assert {o.sequence for one in (LOST, later) for o in lost_records(one, Rule()).occurrences} == {100}
