"""Tests of the advice for combinations of its facts: what the advice contains, and what it must not claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from service.domain.findings.advice import (
    Answer,
    LongRunningFacts,
    OverdueFacts,
    Place,
    Sink,
    StuckFacts,
    TwoPhase,
    two_phase_of,
)
from service.domain.findings.events import Whose
from service.domain.findings.formatting import names_of
from service.domain.findings.hanging import HangingFacts
from service.domain.findings.ids_running_out import ExpiringFacts
from service.domain.findings.kinds import Kind
from service.domain.findings.timed_out import CorrelatedFacts, TimedOutFacts
from service.domain.transaction_log.states import TWO_PHASE_TIMEOUT_MS
from service.domain.worlds.verdict import Decided
from tests.helpers.findings import observe

DEADLINE_MS = 1_790_000_000_000
PLACES = (Place(3, 1), Place(3, -1), Place(0, 1, looked_for_in=1))
DISCARDS = ("discard", "records are lost")
STARTS_ANEW = (
    "a new start with the same transactional.id",
    "starting the application again",
    "initialise again",
    "start it again",
)


def sinks() -> Iterator[Sink]:
    for two_phase in TwoPhase:
        yield Sink(two_phase, 7, 3, None if two_phase is TwoPhase.CERTAIN else DEADLINE_MS)


ORDERS = names_of(["orders-0"])


def long_running_facts() -> Iterator[LongRunningFacts]:
    for place, sink in product(PLACES, sinks()):
        yield LongRunningFacts("pay", DEADLINE_MS - 60_000, place, sink, ORDERS, is_near=False)


def overdue_facts() -> Iterator[OverdueFacts]:
    versions = ((0, 0), (2, 2), (2, 0), (2, None), (0, 2))
    for place, sink, goes_on, (under, now), answer in product(PLACES, sinks(), (True, False), versions, Answer):
        yield OverdueFacts("pay", ORDERS, place, sink, goes_on, under, now, answer)


def test_no_marker_is_said_to_be_missing_before_the_coordinator_was_asked() -> None:
    asked, about = next(stuck_facts()), observe(Kind.STUCK_COMPLETION)
    assert asked.words(about).title.endswith("the leader of orders-0 has not acknowledged its marker")
    unasked = replace(asked, is_asked=False)
    assert unasked.words(about).title.endswith("the coordinator has not said whether orders-0 lacks its marker")
    none = replace(unasked, missing=names_of([]))
    assert none.words(about).title.endswith("its coordinator has not written the end of the transaction")
    more = replace(unasked, missing=names_of(["orders-0", "orders-1"]))
    assert more.words(about).title.endswith(
        "the coordinator has not said which of orders-0 and orders-1 lack their marker"
    )


def stuck_facts() -> Iterator[StuckFacts]:
    for place, is_commit, may_skip in product(PLACES, (True, False), (True, False, None)):
        yield StuckFacts("pay", is_commit, ORDERS, True, place, may_skip)


def hanging_facts() -> Iterator[tuple[Decided, HangingFacts]]:
    for decision, name, writes, left, two_phase in product(
        Decided, ("pay", None), (True, False), (True, False), TwoPhase
    ):
        yield decision, HangingFacts(name, writes, left, two_phase)


def timeouts(two_phase: TwoPhase) -> tuple[TimedOutFacts, CorrelatedFacts]:
    facts = TimedOutFacts(Whose("pay", 1), 20_000, True, two_phase, None, False)
    return facts, CorrelatedFacts(5, DEADLINE_MS, 5, 120_000, 1, two_phase, 0, names_of([]), "", False)


def every_advice() -> Iterator[tuple[object, str]]:
    yield from ((long_running_fact, long_running_fact.advice()) for long_running_fact in long_running_facts())
    yield from ((overdue_fact, overdue_fact.advice()) for overdue_fact in overdue_facts())
    yield from ((stuck_fact, stuck_fact.advice()) for stuck_fact in stuck_facts())
    yield from ((facts, facts.advice(decision)) for decision, facts in hanging_facts())
    yield from ((timeout, timeout.advice()) for two_phase in TwoPhase for timeout in timeouts(two_phase))


def test_no_advice_claims_to_list_every_cause() -> None:
    for facts, text in every_advice():
        for claim in ("Causes:", "The cause is", "because the coordinator", "Nothing is wrong"):
            assert claim not in text, facts


def test_every_advice_is_short_and_ends_in_a_full_stop() -> None:
    for facts, text in every_advice():
        assert len(text) <= 900, (len(text), facts)
        assert text.endswith("."), facts
        assert "  " not in text, facts


def test_advice_to_start_an_id_again_says_what_becomes_of_its_records() -> None:
    for facts, text in every_advice():
        if any(words in text for words in STARTS_ANEW):
            assert any(words in text for words in DISCARDS) or "this transaction stays open" in text, facts


def test_overdue_advice_blames_no_component_that_works() -> None:
    for facts in overdue_facts():
        text = facts.advice()
        if facts.place.was_left_behind:
            assert "min.insync.replicas" not in text
            assert "clock" not in text
            assert f"partition {facts.place.looked_for_in}" in text
            assert "gets a new producer id" in text
            assert "still aborts" not in text, "its timeout has passed"
            continue
        if facts.neighbours_progress:
            for blamed in ("ISR", "min.insync.replicas", "clock", "no leader", "Error loading", "does not know"):
                assert blamed not in text, (facts, blamed)
            assert "pending in the coordinator's memory" in text
        if facts.answer is Answer.AGREES:
            assert "Error loading" not in text, facts
        if not facts.neighbours_progress:
            assert "pending in the coordinator's memory" not in text, facts
        assert "discards the records" in text, facts
        assert (facts.place.leader < 0 and not facts.neighbours_progress and facts.answer is Answer.NONE) or (
            "leadership" in text
        ), facts


def test_overdue_advice_names_the_feature_only_where_it_was_lowered() -> None:
    for facts in overdue_facts():
        text = facts.advice()
        is_lower = facts.finalized is not None and facts.finalized < facts.written_under
        if facts.place.was_left_behind:
            is_lower = False
        assert ("transaction.version" in text) == is_lower, facts
        assert ("Raising the feature again does not help" in text) == is_lower, facts


def test_advice_for_a_transaction_left_open_by_a_lowered_feature() -> None:
    """The transaction of `A` began under transaction.version 2, and is open beyond its timeout. Records of other ids
    were written to the same log partition after the abort of `A` was due. Version 0 is finalized now."""
    place, sink = Place(3, 1), Sink(TwoPhase.NO, 7, 3, DEADLINE_MS)
    facts = OverdueFacts("A", ORDERS, place, sink, True, written_under=2, finalized=0, answer=Answer.AGREES)
    assert facts.advice() == (
        "A record of another id was written to __transaction_state-3 after the transaction's abort was due, so its"
        " coordinator (broker 1, leader of __transaction_state-3) could write. The abort may be pending in the"
        " coordinator's memory, or that memory may lack the transaction. Move the leadership of __transaction_state-3"
        " to another broker and back, or restart the leader: the partition is then loaded anew, and the abort is"
        " expected. The id's newest record was written under transaction.version 2, and version 0 is finalized now:"
        " producers that were started before the feature was lowered can neither end nor begin a transaction. Start"
        " them again after the abort. Raising the feature again does not help. An abort discards the records."
    )


def test_a_two_phase_sink_is_restored_before_its_deadline() -> None:
    for facts in long_running_facts():
        text, place, sink = facts.advice(), facts.place, facts.sink
        if place.was_left_behind:
            assert "aborts the transaction at once" not in text
            continue
        if sink.two_phase is TwoPhase.NO:
            assert "aborts the transaction at once: its records are discarded" in text
            continue
        assert "producer id 7 and epoch 3" in text
        assert "Do not start another producer with this transactional.id" in text
        assert "starting it again" not in text
        assert ("before 2026-09-21 14:13:20 UTC" in text) == (sink.deadline_ms is not None)


def test_a_stuck_completion_says_whether_its_records_are_lost() -> None:
    for facts in stuck_facts():
        text = facts.advice()
        assert ("its records become readable" in text) == facts.is_commit, facts
        assert ("its records are discarded" in text) != facts.is_commit, facts
        assert "skips" not in text or facts.may_skip_markers, facts
        if facts.place.was_left_behind:
            assert "retries the markers" not in text


def test_a_hanging_transaction_is_aborted_only_where_no_commit_is_lost() -> None:
    for decision, facts in hanging_facts():
        text = facts.advice(decision)
        tells_to_abort = "ABORT marker with the command" in text
        assert tells_to_abort == (decision in (Decided.ABORT, Decided.NONE)), facts
        assert ("discards these records" in text) == tells_to_abort, facts
        assert ("have to be produced again" in text) == (tells_to_abort and facts.two_phase is not TwoPhase.NO), facts
        is_fence = facts.name is not None and facts.can_still_write
        assert ("can still write" in text) == is_fence, facts
        assert ("start it again only if" in text) == (is_fence and not facts.was_left_behind), facts


def test_timeout_advice_says_that_a_two_phase_sink_loses_records() -> None:
    for two_phase in TwoPhase:
        for text in (timeout.advice() for timeout in timeouts(two_phase)):
            assert "discarded" in text
            assert ("have to be produced again" in text) == (two_phase is not TwoPhase.NO)
            assert "old protocol" in text  # a producer of transaction version 2 goes on: its late abort is accepted
            assert "there is no second instance" not in text  # the transaction log contains no host names


@pytest.mark.parametrize(
    ("name", "timeout_ms", "expected"),
    [
        ("pay-1", 60_000, TwoPhase.NO),
        ("orders-0", 60_000, TwoPhase.NO),
        ("sink-0-17", 60_000, TwoPhase.LIKELY),
        # FlinkKafkaProducer, which preceded KafkaSink, builds its ids from task, operator and number
        ("Sink: Unnamed-cbc357ccb763df2852fee8c4fc7d55f2-3", 600_000, TwoPhase.LIKELY),
        ("pay-cbc357ccb763df2852fee8c4fc7d55f2", 600_000, TwoPhase.NO),
        ("sink-0-17", 900_000, TwoPhase.LIKELY),
        ("pay-1", 900_000, TwoPhase.LIKELY),
        ("pay-1", TWO_PHASE_TIMEOUT_MS, TwoPhase.CERTAIN),
    ],
)
def test_two_phase_sinks_are_known_by_their_ids_and_timeouts(name: str, timeout_ms: int, expected: TwoPhase) -> None:
    assert two_phase_of(name, timeout_ms) is expected


def test_ids_that_expire_are_many_or_one() -> None:
    about = observe(Kind.EXPIRING)
    many, facts = (ExpiringFacts(Whose(name, ids), "pay-1", DEADLINE_MS) for name, ids in (("pay-", 12), ("pay-1", 1)))
    title = many.words(about).title
    assert title.startswith("12 ids that begin with pay- expire unless they are used; the first, pay-1, expires at ")
    assert facts.words(about).title.endswith("unless it is used before")
