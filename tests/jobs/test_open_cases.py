"""Whose producer may be about to take an open entry over: only that is worth waiting for."""

from __future__ import annotations

import pytest

from service.domain import states
from service.domain.findings.hanging import subject_of
from service.domain.look_back import ABORT, COMMIT, NONE, NOT_KNOWN, Decision
from service.domain.owners import Owner
from spark_jobs.open_cases import OpenCase
from tests.findings.test_open_entries import ENTRY, KNOWN, NOW_MS, OWNER

IDLE = OWNER._replace(state=states.COMPLETE_COMMIT, partitions=())


def case(owner: Owner | None = IDLE) -> OpenCase:
    return OpenCase(
        ENTRY, owner, subject_of(ENTRY, owner), "T", None, None, 0, 120, high_watermark=130, begun_ms=NOW_MS
    )


@pytest.mark.parametrize("word", [None, NONE, NOT_KNOWN, COMMIT, ABORT])
def test_a_living_producer_may_be_early_whatever_is_thought_of_its_last_transaction(word: str | None) -> None:
    """Clocks of brokers may differ by more than is allowed for: then its last marker is not taken for one."""
    one = case()
    one.decision = None if word is None else Decision(word, "")
    assert one.may_be_early(KNOWN, NOW_MS)


@pytest.mark.parametrize(("word", "was_listed"), [(COMMIT, True), (ABORT, True), (NONE, False), (NOT_KNOWN, False)])
def test_what_an_ended_transaction_had_listed_is_not_about_to_be_added(word: str, was_listed: bool) -> None:
    one = case()
    assert not one.was_listed
    one.decision = Decision(word, "")
    assert one.was_listed is was_listed


@pytest.mark.parametrize(
    "owner", [None, IDLE._replace(producer_epoch=5), IDLE._replace(producer_id=8), IDLE._replace(state=states.EXPIRED)]
)
def test_nobody_comes_back_under_what_is_superseded(owner: Owner | None) -> None:
    assert not case(owner).may_be_early(KNOWN, NOW_MS)


def test_who_would_have_been_timed_out_by_now_is_not_early() -> None:
    assert not case().may_be_early(KNOWN, ENTRY.first_seen_ms + IDLE.timeout_ms + KNOWN.limits.scan_ms + 1)


@pytest.mark.parametrize(("stood_for_ms", "was_there_for_ms"), [(None, 0), (500, 500), (-1_000, 0)])
def test_what_holds_the_lso_was_there_when_it_was_first_seen_standing(
    stood_for_ms: int | None, was_there_for_ms: int
) -> None:
    one = case()
    one.stalled_since_ms = None if stood_for_ms is None else ENTRY.first_seen_ms - stood_for_ms
    assert one.there_since_ms == ENTRY.first_seen_ms - was_there_for_ms
