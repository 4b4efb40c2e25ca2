"""Tests of the text about whether and when something heals by itself. Also tests the names and pages of findings'
subjects, and the end of a mute."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from service.domain.findings.finding import Finding, Life, Observation, Subject
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.findings.outlook import outlook_of
from service.domain.partitions.open_entries import Owner, Relation, RelationKind
from service.domain.reasons.unjudged import LogUnread
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.known_log import Limits
from service.domain.transaction_log.states import TWO_PHASE_TIMEOUT_MS
from service.views.findings.plan import plan_of
from service.views.findings.subject import about, is_muted, outlook_of_finding
from tests.helpers.findings import finding_facts
from tests.helpers.paths import ROOT
from tests.helpers.reasons import denied
from tests.helpers.stores import NOW_MS

LIMITS = Limits(10_000, 604_800_000, 3_600_000, frozenset())


def owner(state: int = states.ONGOING, timeout_ms: int = 60_000) -> Owner:
    started = NOW_MS - 12_000
    record = LogRecord(7, started, 5, state, 7, 3, timeout_ms, started, started, 2, -1, 1)
    return Owner(b"pay", 0, 0, record, (("orders", 0),), started, started, 3, 3, None, None, None)


OWN: Final = Subject(transactional_id=b"pay")


def finding(kind: str, subject: Subject = OWN, **more: Any) -> Finding:
    seen = Observation(Kind(kind), Severity.WARNING, subject, finding_facts(Kind(kind)), (), **more)
    return Finding("f", seen, Life(Status.CONFIRMED, NOW_MS, NOW_MS, NOW_MS, count=1))


@pytest.mark.parametrize(
    ("kind", "text", "tone"),
    [
        (RelationKind.HANGING, "no coordinator is set to end it", "no"),
        (RelationKind.COMPLETING, "heals when broker 3 acknowledges", "when"),
        (RelationKind.UNREPLICATED_MARKER, "heals when the replicas catch up", "when"),
        (RelationKind.ADOPTED, "ends with the id's present transaction", "self"),
        (RelationKind.OVERDUE, "overdue, not aborted by its coordinator", "now"),
        (RelationKind.OPEN, "aborts itself", "self"),
        (RelationKind.UNKNOWN, "unknown", "unknown"),
    ],
)
def test_each_relation_says_who_ends_it(kind: RelationKind, text: str, tone: str) -> None:
    heal = outlook_of(Relation(kind, owner()), LIMITS, leader=3)
    assert (heal.text, heal.heals) == (text, tone)
    assert heal.brief


def test_hanging_is_the_worst_relation_and_open_is_the_best() -> None:
    orders = {word: outlook_of(Relation(word, owner()), LIMITS).order for word in RelationKind}
    assert min(orders, key=lambda word: orders[word]) == RelationKind.HANGING
    assert max(orders, key=lambda word: orders[word]) == RelationKind.OPEN


def test_an_open_transaction_ends_at_its_timeout_and_loses_its_records() -> None:
    heal = outlook_of(Relation(RelationKind.OPEN, owner()), LIMITS)
    assert (heal.at_ms, heal.latest_ms) == (NOW_MS + 48_000, NOW_MS + 63_000)
    assert heal.more == "its records are then discarded"


def test_two_phase_commit_has_no_timeout() -> None:
    heal = outlook_of(Relation(RelationKind.OPEN, owner(timeout_ms=TWO_PHASE_TIMEOUT_MS)), LIMITS)
    assert heal.text.startswith("no timeout")
    assert heal.at_ms is None


def test_a_completion_without_a_leader_may_end_as_a_hang() -> None:
    heal = outlook_of(Relation(RelationKind.COMPLETING, owner()), LIMITS, leader=-1)
    assert heal.text == "waits for its leader"
    assert "then hangs" in heal.more


def test_an_unknown_relation_has_its_reason() -> None:
    assert outlook_of(Relation(RelationKind.UNKNOWN, None, LogUnread()), LIMITS).more == str(LogUnread())


def test_every_kind_of_finding_says_whether_it_heals() -> None:
    for kind in Kind:
        heal = outlook_of_finding(finding(kind))
        assert heal.text
        assert (heal.heals == "no") <= (heal.order == 0)


def test_a_known_end_is_counted_down_unless_the_kind_never_heals() -> None:
    late = outlook_of_finding(finding(Kind.LONG_RUNNING, self_heals_at_ms=NOW_MS + 9_000))
    assert (late.text, late.at_ms) == ("ends by itself", NOW_MS + 9_000)
    assert outlook_of_finding(finding(Kind.HANGING, self_heals_at_ms=NOW_MS)).at_ms is None


def test_churn_of_ids_that_flink_numbers_is_normal() -> None:
    of_flink = finding(Kind.CHURN).with_observed(severity=Severity.INFO)
    assert outlook_of_finding(of_flink).text == "is normal"
    assert plan_of(of_flink, "c", None, None, can_resolve=False).no_help == ()


def test_a_gap_by_a_missing_permission_ends_with_the_grant() -> None:
    hidden = finding(Kind.COVERAGE_GAP, reason=denied("hr"))
    assert outlook_of_finding(hidden).text == "unknown until the permission is granted"
    assert outlook_of_finding(finding(Kind.COVERAGE_GAP)).text == "unknown until the data can be read"


@pytest.mark.parametrize(
    ("kind", "subject", "text", "href"),
    [
        (Kind.OVERDUE, Subject(transactional_id=b"p\xff/1"), "p\\x{ff}/1", "/clusters/a%2Fb/transaction?id=p%FF%2F1"),
        (Kind.HANGING, Subject("t", 2, None, 7, 3, 99), "t-2", "/clusters/a%2Fb/partitions/t/2?offset=99"),
        (Kind.BLOCKED_GROUP, Subject("t", 2, group="g"), "g", "/clusters/a%2Fb/groups"),
        (Kind.COVERAGE_GAP, Subject(topic="hr"), "hr", "/clusters/a%2Fb/pipeline#unknown"),
        (Kind.COVERAGE_GAP, Subject(group="g"), "g", "/clusters/a%2Fb/groups"),
        (Kind.DATA_GAP, Subject("t", 2), "t-2", "/clusters/a%2Fb/pipeline#unknown"),
        (Kind.CHURN, Subject(prefix="app-"), "app-…", "/clusters/a%2Fb/transactions?prefix=app-"),
        (Kind.CORRELATED_TIMEOUTS, Subject(), "the cluster", "/clusters/a%2Fb/findings"),
    ],
)
def test_a_finding_links_to_the_page_of_its_subject(kind: str, subject: Subject, text: str, href: str) -> None:
    assert about(finding(kind, subject=subject), "a/b") == (text, href)


def test_a_mute_ends_at_its_time() -> None:
    assert is_muted(finding(Kind.OVERDUE, muted_until_ms=NOW_MS + 1), NOW_MS)
    assert not is_muted(finding(Kind.OVERDUE, muted_until_ms=NOW_MS), NOW_MS)
    assert not is_muted(finding(Kind.OVERDUE), NOW_MS)


def test_the_page_and_its_script_use_the_same_words() -> None:
    """The server renders the time that is left, and the script in the browser updates it."""
    script = (ROOT / "service/web/static/time.js").read_text()
    template = (ROOT / "service/web/templates/ui.html").read_text()
    for phrase in ("any moment now", r"\(due ", "a moment"):
        assert re.search(phrase, script), phrase
        assert re.search(phrase, template), phrase
