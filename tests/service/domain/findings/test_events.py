"""Tests of the rules about events of ids: when events become a finding, and how the ids are grouped."""

from __future__ import annotations

import pytest

from service.domain.findings import ids_running_out, timed_out, unreadable
from service.domain.findings.events import MOST_SUBJECTS, Event, ReportWindow, group_by_subject, is_generated, prefix_of
from service.domain.findings.finding import Observation, Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.rules import Rule
from service.domain.findings.unreadable import DataGap, SourceReport, Undecoded
from service.domain.reasons.reason import Reason
from service.domain.transaction_log.causes import CauseCode
from tests.helpers.reasons import denied
from tests.service.domain.findings.builders import NOW_MS, H, M, S, context, event

UUID = "3f2a1b4c-1111-4222-8333-444455556666"


@pytest.mark.parametrize(
    ("name", "prefix", "random"),
    [
        ("pay-3", "pay-", False),
        ("pay-17", "pay-", False),
        ("pay3", "pay", False),
        ("billing", "billing", False),
        (f"job-{UUID}-0_1", "job-", True),
        (f"app-{UUID}-StreamThread-1-producer", "app-", True),
        ("h-rand-a8f3c2", "h-rand-", True),
        ("sink-0-1234", "sink-", False),
        ("run-1700000000000", "run-", True),
        ("42", "42", False),
        (UUID, UUID, False),
        ("", "", False),
    ],
)
def test_an_id_has_the_prefix_of_its_application(name: str, prefix: str, random: bool) -> None:
    assert (prefix_of(name), is_generated(name)) == (prefix, random)


def test_timeouts_of_one_id_are_one_finding_with_a_count() -> None:
    events = [event(n, ago_ms=n * M) for n in range(1, 4)]
    (found,) = timed_out.timed_out(events, context(Rule("pay", owner="me")), ReportWindow(), {})
    assert found.subject == Subject(transactional_id=b"pay-1")
    assert [o.sequence for o in found.occurrences] == [1, 2, 3]
    assert found.owner == "me"
    assert "transaction.timeout.ms 60000, open for 1 m 1 s" in found.evidence[0].text


def test_a_timeout_below_the_scan_says_why_it_took_longer() -> None:
    (found,) = timed_out.timed_out([event(1, timeout_ms=1 * S)], context(), ReportWindow(), {})
    assert "below the coordinator's scan interval of 10 s" in found.evidence[0].text


def test_many_ids_of_a_prefix_share_a_finding_and_findings_are_bounded() -> None:
    shared = group_by_subject((event(n, f"pay-{n}") for n in range(4)), 0, ReportWindow())
    assert [(g.subject, g.whose.ids) for g in shared] == [(Subject(prefix="pay-"), 4)]
    many = group_by_subject((event(n, "x" * (n + 1)) for n in range(MOST_SUBJECTS + 7)), 0, ReportWindow())
    assert len(many) == MOST_SUBJECTS + 1
    assert (many[-1].subject, many[-1].whose.text(Subject())) == (Subject(), "7 other ids")
    assert sum(len(g.events) for g in many) == MOST_SUBJECTS + 7


def outage(ids: int = 8, name: str = "svc-{}", back_after_ms: int | None = 90 * S) -> list[Event]:
    """Returns the events of `ids` ids. All their transactions timed out 2 minutes before NOW_MS, after 61 s. If
    `back_after_ms` is not None, each id was initialized again `back_after_ms` after its timeout."""
    events = [
        event(n, name.format(n), ago_ms=2 * M - n, partition=n % 2, transactional_id=b"%d" % n) for n in range(ids)
    ]
    if back_after_ms is None:
        return events
    return events + [
        e._replace(sequence=100 + e.sequence, cause=CauseCode.INITIALIZED, at_ms=e.at_ms + back_after_ms)
        for e in events
    ]


def find_correlated(events: list[Event], churned: dict[str, list[int]] | None = None) -> list[Observation]:
    timeouts = [e for e in events if e.cause == CauseCode.TIMEOUT]
    bursts = timed_out.bursts(timeouts, churned or {}, context())
    places = {(b"%d" % n, 7): [("orders", 3), ("other", n)] for n in range(20)}
    return timed_out.correlated(bursts, (), events, places, context(), {})


def test_an_outage_is_one_finding_that_says_when_its_ids_were_back() -> None:
    (found,) = find_correlated(outage())
    assert (found.kind, found.subject, len(found.occurrences)) == (Kind.CORRELATED_TIMEOUTS, Subject(), 8)
    # 61 s until the abort and 90 s until the return, rounded up
    assert found.summary.startswith("8 ids timed out together from 2026-09-21 14:11:20 UTC on;")
    assert "all were initialised again within 2 m 40 s of the start of their transactions" in found.summary
    text = " ".join(e.text for e in found.evidence[:3])
    assert "svc-0, svc-1" in text
    assert "__transaction_state-0 and __transaction_state-1, led by broker 10 and broker 11 now" in text
    assert text.endswith("partitions that most of these ids wrote to: orders-3")


def test_the_ids_that_are_back_are_counted_during_an_outage() -> None:
    (found,) = find_correlated(outage(back_after_ms=None))
    assert "0 of 8 ids have been initialised again" in found.summary


def test_a_common_coordinator_is_named() -> None:
    (found,) = find_correlated([e._replace(partition=1) for e in outage()])
    assert "broker 11 coordinates them all now" in found.summary


def test_no_common_coordinator_is_named_while_a_partition_of_the_log_has_no_leader() -> None:
    (found,) = find_correlated([e._replace(partition=1 + 8 * (e.sequence % 2)) for e in outage()])
    assert "coordinates them all" not in found.summary


@pytest.mark.parametrize(
    "events",
    [
        outage(4),
        [event(n, f"svc-{n}", ago_ms=n * M) for n in range(14)],  # single aborts, far apart
        [event(n, "svc-1", ago_ms=n) for n in range(20)],  # one id
    ],
)
def test_timeouts_that_are_not_correlated_are_no_outage(events: list[Event]) -> None:
    assert find_correlated(events) == []


def test_zombies_of_ids_made_up_at_every_start_are_no_outage() -> None:
    assert find_correlated(outage(name="job-a{}f"), {"job-": [NOW_MS - 3 * M]}) == []


def test_expired_ids_of_a_prefix_share_an_info() -> None:
    found = ids_running_out.expired(
        [event(n, f"old-{n}", CauseCode.EXPIRY) for n in range(5)], context(), ReportWindow()
    )
    assert [(o.subject.prefix, o.severity, len(o.occurrences)) for o in found] == [("old-", Severity.INFO, 5)]


def test_undecodable_records_are_reported_by_log_partition() -> None:
    seen = [
        Undecoded(0, ("pay-1",), ((7, NOW_MS, "value version 9"),)),
        Undecoded(1, (), ()),
        Undecoded(5, ("x",), ()),  # partition 5 is not read to its end
    ]
    (found,) = unreadable.undecodable(seen, context())
    assert found.subject == Subject(topic="__transaction_state", partition=0)
    assert "pay-1" in found.summary
    assert found.evidence[0].text == "value version 9"


def test_data_gaps_of_a_partition_share_a_finding() -> None:
    gaps = [DataGap(n, "__transaction_state", 3, 10 * n, 10 * n + 5, "retention", NOW_MS) for n in (1, 2)]
    (found,) = unreadable.data_gaps(gaps)
    assert [o.sequence for o in found.occurrences] == [1, 2]
    assert found.evidence[0].text == "offsets 10 to 15 were deleted before they were read"


@pytest.mark.parametrize(
    ("reasons", "title"),
    [
        (("retention",), "records were deleted before they were read"),
        (("recreated",), "the topic was created again"),
        (("diverged",), "the log no longer matches what had been read"),
        (("cleaned",), "compaction removed records before they were read"),
        (("away",), "the log is read again, because the last read was too long ago or the store was made anew"),
        (
            ("recreated", "retention", "retention"),
            "records were deleted before they were read; the topic was created again",
        ),
        (("of a later version",), "the log could not be read as it was written"),
    ],
)
def test_the_title_of_a_data_gap_is_what_is_known_of_each_reason(reasons: tuple[str, ...], title: str) -> None:
    gaps = [DataGap(n, "__transaction_state", 3, 10, 15, reason, NOW_MS) for n, reason in enumerate(reasons)]
    (found,) = unreadable.data_gaps(gaps)
    assert found.title == f"__transaction_state-3: {title}"


def test_a_log_that_is_read_again_may_lack_nothing() -> None:
    (found,) = unreadable.data_gaps([DataGap(1, "__transaction_state", 3, 9, 9, "away", NOW_MS)])
    assert found.advice.startswith("Records that compaction removed since the last read may have been missed")
    assert "may be incomplete" in found.advice


@pytest.mark.parametrize(
    ("error", "since_ms", "gaps"),
    [
        (None, NOW_MS - M, 0),
        (denied("t"), NOW_MS - 29 * S, 0),
        (denied("t"), NOW_MS - 30 * S, 1),
    ],
)
def test_a_source_that_fails_for_a_while_is_a_coverage_gap(error: Reason | None, since_ms: int, gaps: int) -> None:
    found = unreadable.coverage_gaps(
        [SourceReport("transaction_state", "__transaction_state", None, error, since_ms)], NOW_MS
    )
    assert len(found) == gaps
    assert all("grant READ" in o.summary for o in found)


@pytest.mark.parametrize(("ahead_ms", "gaps"), [(30 * S - 1, 0), (30 * S, 1), (H, 1)])
def test_a_source_whose_last_success_lies_in_the_future_is_a_gap(ahead_ms: int, gaps: int) -> None:
    """The clock was set back, so the time of a source's last success lies in the future. Until the clock reaches this
    time, new samples are dropped as old."""
    source_report = SourceReport("partitions", None, NOW_MS + ahead_ms, None, None)
    found = unreadable.coverage_gaps([source_report], NOW_MS)
    assert len(found) == gaps
    assert found == unreadable.coverage_gaps([source_report], NOW_MS - 1)[:gaps], (
        "the finding does not change with the time, so it is written once"
    )
    assert all("the clock was set back" in o.summary for o in found)
