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


@pytest.mark.parametrize("decision", [None, Decision(NONE, ""), Decision(NOT_KNOWN, "")])
def test_a_living_producer_may_be_early(decision: Decision | None) -> None:
    one = case()
    one.decision = decision
    assert one.may_be_early(KNOWN, NOW_MS)


@pytest.mark.parametrize("word", [COMMIT, ABORT])
def test_records_of_a_transaction_that_had_listed_the_partition_are_not_early(word: str) -> None:
    """Its marker is what is missing, whoever is alive."""
    one = case()
    one.decision = Decision(word, "")
    assert not one.may_be_early(KNOWN, NOW_MS)


@pytest.mark.parametrize(
    "owner", [None, IDLE._replace(producer_epoch=5), IDLE._replace(producer_id=8), IDLE._replace(state=states.EXPIRED)]
)
def test_nobody_comes_back_under_what_is_superseded(owner: Owner | None) -> None:
    assert not case(owner).may_be_early(KNOWN, NOW_MS)


def test_who_would_have_been_timed_out_by_now_is_not_early() -> None:
    assert not case().may_be_early(KNOWN, ENTRY.first_seen_ms + IDLE.timeout_ms + KNOWN.limits.scan_ms + 1)
