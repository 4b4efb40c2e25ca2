"""Tests that the prober reads every readable partition, even if another partition cannot be read."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from service.domain.worlds.facts import EntryQuery
from service.kafka.cluster import Leader
from service.kafka.ends import Ends
from service.kafka.errors import KafkaFailure, KafkaRefused, KafkaUnavailable, PartitionUnavailable
from service.kafka.leader_check import CheckedPartition
from service.kafka.producers import ActiveProducer
from service.kafka.settings import ClientSettings
from spark_jobs.judge import partition_prober
from spark_jobs.judge.partition_prober import Answers, EntryKey, PartitionProber, Questions
from spark_jobs.runtime.liveness import Liveness

FIRST, SECOND = (EntryKey("orders", partition, 7, 10) for partition in range(2))
FACTS: Any = object()


class Bracket:
    """Stands in for `LeaderCheck`. Each partition has an open entry; `leaders` maps partitions to their leaders."""

    unanswered_at_ms = None

    def __init__(self, leaders: dict[int, int], described: bool) -> None:
        self._leaders, self._described = leaders, described

    def observe(self, places: set[tuple[str, int]]) -> dict[tuple[str, int], CheckedPartition]:
        return {place: self._seen(*place) for place in places}

    def _seen(self, topic: str, partition: int) -> CheckedPartition:
        leader, ends = Leader(self._leaders[partition], 0), Ends(0, 10, 20, 0)
        open_ = ActiveProducer(7, 0, 0, 0, -1, 10)
        return CheckedPartition(topic, partition, "", 1, leader, ends, self._described, (open_,))


def asked(
    monkeypatch: pytest.MonkeyPatch, failure: KafkaFailure, leaders: tuple[int, int] = (1, 1), *, described: bool = True
) -> Answers:
    """Requests the facts about two entries. The facts about FIRST cannot be read. Returns the answers."""

    def read_facts(_: object, query: EntryQuery, seen: CheckedPartition, __: object) -> Any:
        if seen.partition == FIRST.partition:
            raise failure
        return FACTS

    monkeypatch.setattr(partition_prober, "read_facts", read_facts)
    prober = PartitionProber(ClientSettings(("127.0.0.1:1",)), Liveness(list), threading.Event())
    monkeypatch.setattr(prober, "_client", object())
    monkeypatch.setattr(prober, "_bracket", Bracket(dict(enumerate(leaders)), described))
    monkeypatch.setattr(prober, "_close", lambda: None)
    prober._answer(Questions(facts={key: _query(key) for key in (FIRST, SECOND)}))
    (answers,) = prober.answers()
    return answers


def _query(key: EntryKey) -> EntryQuery:
    return EntryQuery(
        *key.place, key.producer_id, 0, key.start_offset, -1, None, log_partition=-1, samples=(), is_deep=False
    )


@pytest.mark.parametrize("failure", [PartitionUnavailable("storage error"), KafkaRefused("no READ")])
def test_a_partition_that_cannot_be_read_leaves_the_others_their_facts(
    monkeypatch: pytest.MonkeyPatch, failure: KafkaFailure
) -> None:
    assert asked(monkeypatch, failure).facts.keys() == {SECOND}


def test_a_leader_that_does_not_answer_is_not_asked_again_in_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = KafkaUnavailable("no answer")
    assert asked(monkeypatch, silent).facts.keys() == set()
    assert asked(monkeypatch, silent, leaders=(1, 2)).facts.keys() == {SECOND}


def test_facts_are_missing_where_producers_may_not_be_described(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = asked(monkeypatch, KafkaRefused("no READ"), described=False)
    assert (answers.facts, answers.without_facts) == ({}, {FIRST, SECOND})
