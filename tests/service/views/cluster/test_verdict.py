"""Tests of the verdict on a cluster, and of the freshness of the data on which the verdict depends. Data may be old,
partitions may be unjudged, and findings may be muted."""

from __future__ import annotations

from typing import Any

import pytest

from service.domain.findings.outlook import HANGS, Heals, Outlook
from service.domain.partitions.open_entries import Entry, Relation, RelationKind
from service.domain.partitions.state import PartitionState
from service.views.cluster.frame import Freshness
from service.views.cluster.verdict import Seen, verdict_of
from service.views.partitions.blocking_chain import Link
from service.views.partitions.judged import Coverage, JudgedEntry, JudgedPartition, UnjudgedPartitions
from tests.helpers.reasons import denied

NOW_MS = 1_790_000_000_000
WHOLE = Coverage(NOW_MS, 1_246, 1_246, 1_246, 0)
PARTLY = Coverage(NOW_MS, 1_246, 1_240, 1_240, 0, 0, (UnjudgedPartitions(denied("t"), 6, ()),))


def link(kind: RelationKind, heal: Outlook) -> Link:
    row = PartitionState("orders", 0, "T", 1, 5, 0, 5, 15, NOW_MS, NOW_MS)
    entry = Entry("orders", 0, 7, 3, 5, 0, NOW_MS, None, None, NOW_MS, NOW_MS)
    blocker = JudgedEntry(entry, Relation(kind, None))
    return Link(JudgedPartition(row, (blocker,), blocker), (), heal)


SOON = Outlook(4, Heals.SELF, "clock", "x")
OPEN, STUCK = link(RelationKind.OPEN, SOON), link(RelationKind.COMPLETING, SOON)
HUNG = link(RelationKind.HANGING, HANGS)


def seen(age_ms: int = 1_000, read: float | None = None, **more: Any) -> Seen:
    reported = Seen("prod-eu", Freshness(NOW_MS, NOW_MS - age_ms, read), 0, 0, (), WHOLE, 9)
    return reported._replace(**more)


@pytest.mark.parametrize(
    ("what", "word", "tone", "title"),
    [
        (seen(), "quiet", "ok", "Nothing hangs. Nothing is blocked."),
        (seen(links=[OPEN]), "blocked", "info", "Nothing hangs. 1 partition is blocked."),
        (seen(links=[OPEN, STUCK]), "blocked", "warning", "Nothing hangs. 2 partitions are blocked."),
        (seen(hanging=1, links=[HUNG]), "hangs", "critical", "1 transaction hangs. No coordinator is set to end it."),
        (seen(hanging=3), "hangs", "critical", "3 transactions hang. No coordinator is set to end them."),
        (
            seen(coverage=PARTLY),
            "partly",
            "info",
            "Nothing hangs in the 1,240 of 1,246 partitions that can be judged.",
        ),
        (
            seen(coverage=PARTLY, links=[OPEN]),
            "blocked",
            "info",
            "Nothing hangs in the 1,240 of 1,246 partitions that can be judged. 1 partition is blocked.",
        ),
        (seen(lost=1), "lost", "critical", "Data were lost or torn: 1 finding awaits acknowledgement. Nothing hangs."),
        (
            seen(lost=2, links=[OPEN]),
            "lost",
            "critical",
            "Data were lost or torn: 2 findings await acknowledgement. Nothing hangs. 1 partition is blocked.",
        ),
        (seen(lost=1, hanging=1), "hangs", "critical", "1 transaction hangs. No coordinator is set to end it."),
        (seen(is_cut=True), "partly", "info", "Nothing hangs in the part that was read."),
        (seen(muted=1), "muted", "info", "1 hanging transaction is muted. Nothing else hangs."),
        (
            seen(links=[OPEN], is_undecided=True),
            "blocked",
            "info",
            "Nothing is known to hang. 1 partition is blocked.",
        ),
        (seen(ids=0), "empty", "info", "No transactional.id is in use."),
        (seen(hanging=1, is_log_unread=True), "hangs", "critical", "1 transaction is likely to hang."),
        (seen(hanging=2, is_log_unread=True), "hangs", "critical", "2 transactions are likely to hang."),
        (seen(ids=0, is_log_unread=True), "partly", "info", "Nothing hangs. Nothing is blocked."),
        (seen(ids=0, coverage=Coverage(NOW_MS)), "empty", "info", "No transactional.id is in use."),
        (
            seen(coverage=Coverage(NOW_MS, hides_all=True)),
            "unknown",
            "unknown",
            "Unknown: no topic that transactions write to is visible.",
        ),
        (
            seen(ids=0, is_log_unread=True, coverage=Coverage(NOW_MS)),
            "unknown",
            "unknown",
            "Unknown: no topic that transactions write to is visible.",
        ),
        (
            seen(coverage=Coverage(NOW_MS, not_covered=8)),
            "unknown",
            "unknown",
            "Unknown: --topics and --mirrored exclude all topics that transactions write to.",
        ),
        (seen(coverage=Coverage()), "unknown", "unknown", "Unknown: no partition has been sampled yet."),
        (
            seen(coverage=Coverage(NOW_MS, 5)),
            "unknown",
            "unknown",
            "Unknown: none of the partitions can be judged.",
        ),
        (
            seen(372_000),
            "unknown",
            "unknown",
            "Unknown: nothing of prod-eu has been read for 6 m 12 s.",
        ),
        (
            seen(372_000, is_silent=True),
            "unknown",
            "unknown",
            "Unknown: no broker of prod-eu has answered for 6 m 12 s.",
        ),
        (
            seen(read=0.63, left_ms=40_000),
            "reading",
            "unknown",
            "Reading the transaction log: 63 %, about 40 s left.",
        ),
    ],
)
def test_each_state_has_its_sentence(what: Seen, word: str, tone: str, title: str) -> None:
    assert verdict_of(what) == (word, tone, title)


def test_a_few_unknown_partitions_hide_no_hanging_transaction() -> None:
    assert verdict_of(seen(hanging=1, coverage=PARTLY)).word == "hangs"


def test_a_verdict_of_unknown_comes_before_hanging_transactions() -> None:
    assert verdict_of(seen(120_000, hanging=2)).word == "unknown"
    assert verdict_of(seen(read=0.5, hanging=2)).word == "reading"
    assert verdict_of(seen()._replace(freshness=Freshness(NOW_MS, None))).word == "never"


def test_a_verdict_on_old_data_is_the_last_known_and_never_green() -> None:
    hung = verdict_of(seen(43_000, hanging=1))
    assert hung.title == "Last known: 1 transaction hangs. No coordinator is set to end it."
    quiet = verdict_of(seen(43_000))
    assert (quiet.tone, quiet.title) == ("unknown", "Last known: nothing hung. Nothing new is judged.")
    partly = verdict_of(seen(43_000, coverage=PARTLY))
    assert "nothing hung in the 1,240 of 1,246 partitions that could be judged" in partly.title


def test_only_fresh_and_completely_judged_data_are_green() -> None:
    others = [
        seen(30_000),
        seen(read=0.1),
        seen(links=[OPEN]),
        seen(coverage=PARTLY),
        seen(is_cut=True),
        seen(muted=1),
        seen(hanging=1),
        seen(ids=0),
    ]
    assert verdict_of(seen()).tone == "ok"
    assert {verdict_of(seen).tone for seen in others} == {"unknown", "info", "critical"}


def test_a_mute_of_one_transaction_does_not_mute_another() -> None:
    assert verdict_of(seen(hanging=1, muted=2)).title.startswith("1 transaction hangs.")
    blocked = verdict_of(seen(muted=2, links=[OPEN])).title
    assert blocked == "2 hanging transactions are muted. Nothing else hangs. 1 partition is blocked."


@pytest.mark.parametrize(
    ("age_ms", "word", "is_old"),
    [
        (-2_000, "live", False),
        (4_999, "live", False),
        (5_000, "late", False),
        (29_999, "late", False),
        (30_000, "old", True),
        (119_999, "old", True),
        (120_000, "unknown", True),
    ],
)
def test_the_age_of_data_determines_their_freshness(age_ms: int, word: str, is_old: bool) -> None:
    fresh = Freshness(NOW_MS, NOW_MS - age_ms)
    assert (fresh.word, fresh.is_old, fresh.age_ms) == (word, is_old, max(age_ms, 0))


def test_data_without_an_answer_have_the_freshness_never() -> None:
    assert Freshness(NOW_MS, None).word == "never"


def test_a_first_read_is_no_old_data_unless_it_stalls() -> None:
    assert Freshness(NOW_MS, None, 0.0).word == "reading"
    assert Freshness(NOW_MS, NOW_MS - 60_000, 0.63).word == "reading"
    assert Freshness(NOW_MS, NOW_MS - 120_000, 0.63).word == "unknown"
