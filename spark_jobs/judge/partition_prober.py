"""Observes partitions and the ends of the transaction log for the judge. Runs in a thread of its own: a slow broker
delays the answers, but not the judge."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from service.clock import wall_clock_ms
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.open_entries import DescribedOwner, Entry, will_end
from service.domain.transaction_log.states import ONGOING, TOPIC
from service.domain.worlds.facts import EntryFacts, EntryQuery
from service.kafka.client import KafkaClient
from service.kafka.entry_facts import read_facts
from service.kafka.errors import KafkaFailure, KafkaRefused, PartitionUnavailable
from service.kafka.leader_check import CheckedPartition, LeaderCheck, LogEnds
from service.kafka.log_range import BatchesRead, batches_between
from service.kafka.producers import describe_owners
from service.kafka.settings import ClientSettings
from spark_jobs.judge.kafka_worker import KafkaWorker
from spark_jobs.runtime.liveness import Liveness

log = logging.getLogger(__name__)

T = TypeVar("T")


class EntryKey(NamedTuple):
    """The key of an open entry. A different start offset means a different transaction."""

    topic: str
    partition: int
    producer_id: int
    start_offset: int

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one round.

    - `log_partitions`: partitions of the transaction log whose end offsets are requested.
    - `entries`: the entries to observe, as a mapping from entry to offset. If the entry is closed, its marker lies at
      this offset or above.
    - `facts`: a mapping from entry to the query for the facts from which the decision about the entry is derived.
    - `producers`: producer ids whose owners the coordinators are asked for, before the entries are observed.
    """

    log_partitions: frozenset[int] = frozenset()
    entries: Mapping[EntryKey, int] = field(default_factory=dict)
    facts: Mapping[EntryKey, EntryQuery] = field(default_factory=dict)
    producers: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.log_partitions or self.entries or self.facts or self.producers)


class CoordinatorAnswers(NamedTuple):
    """The coordinators' answers, requested at `asked_at_ms` and received by `answered_at_ms`. `by_producer_id`: the
    owners; None for a producer id whose owner is not known. None does not prove that there is no owner."""

    asked_at_ms: int
    answered_at_ms: int
    by_producer_id: Mapping[int, DescribedOwner | None]

    def without_ongoing(self, entry: Entry) -> CoordinatorAnswers:
        """Returns the answers for a cluster whose brokers show no transaction log. If the owner of `entry` is Ongoing,
        and does not list the entry's partition, the owner becomes None, because only Apache Kafka's coordinators are
        known to list every partition."""
        found = self.by_producer_id.get(entry.producer_id)
        if found is None or found.state != ONGOING or will_end(entry, found):
            return self
        return self._replace(by_producer_id={**self.by_producer_id, entry.producer_id: None})


@dataclass(slots=True)
class Answers:
    """The answers to Questions, as far as there are any.

    - `log_ends`: a mapping from log partition to the end offset requested at `log_asked_at_ms`.
    - `log_leaders`: a mapping from log partition to the leader (broker, epoch) that reported this end offset.
    - `ended`: a mapping from closed entry to the markers found after it.
    - `facts`: a mapping from open entry to the query about the entry and the facts that answer it.
    - `without_facts`: the open entries about which Kafka refuses to give facts.
    - `broker_failure_at_ms`: the last time at which some broker did not answer Metadata or DescribeProducers.
    """

    log_asked_at_ms: int = -1
    log_ends: dict[int, int] = field(default_factory=dict)
    log_leaders: dict[int, tuple[int, int]] = field(default_factory=dict)
    seen: dict[TopicPartition, CheckedPartition] = field(default_factory=dict)
    ended: dict[EntryKey, BatchesRead] = field(default_factory=dict)
    facts: dict[EntryKey, tuple[EntryQuery, EntryFacts]] = field(default_factory=dict)
    without_facts: set[EntryKey] = field(default_factory=set)
    coordinator_answers: CoordinatorAnswers | None = None
    broker_failure_at_ms: int | None = None


class PartitionProber(KafkaWorker[Questions, Answers]):
    """Answers the judge's questions as far as Kafka answers them, and sets `wake` after each answer."""

    def __init__(self, client: ClientSettings, liveness: Liveness, wake: threading.Event) -> None:
        super().__init__("partition prober", client, liveness)
        self._wake = wake
        self._bracket: LeaderCheck | None = None

    def _answer(self, question: Questions) -> None:
        answers = Answers()
        with self._trying("not all partitions could be observed"):
            self._ask(question, answers)
        self._answers.put(answers)
        self._wake.set()

    def _ask(self, questions: Questions, answers: Answers) -> None:
        if self._client is None or self._bracket is None:
            self._client = KafkaClient(self._settings)
            self._bracket = LeaderCheck(self._client, wall_clock_ms)
        of_owners = {ask.log_partition for ask in questions.facts.values() if ask.transactional_id is not None}
        found = None
        if log_partitions := questions.log_partitions | of_owners:
            found = self._bracket.end_offsets(TOPIC, log_partitions)
            answers.log_asked_at_ms, answers.log_ends = found.asked_at_ms, found.offsets
            answers.log_leaders = {p: (leader.node, leader.epoch) for p, leader in found.leaders.items()}
        if questions.producers:
            answers.coordinator_answers = self._ask_coordinators(self._client, questions.producers)
        places = {key.place for key in (*questions.entries, *questions.facts)}
        if places:
            answers.seen = self._bracket.observe(places)
        answers.broker_failure_at_ms = self._bracket.unanswered_at_ms
        self._read_each(self._client, questions, found, answers)

    def _read_each(self, client: KafkaClient, questions: Questions, log: LogEnds | None, answers: Answers) -> None:
        """Reads the markers after closed entries, and the facts about open ones. A failure is raised only after all
        other reads."""
        reads = _Reads()
        for key, from_offset in questions.entries.items():
            seen = answers.seen.get(key.place)
            if seen is not None and seen.described and not is_open(key, seen):
                lo, hi = max(from_offset, seen.ends.log_start), seen.ends.high_watermark
                read = partial(batches_between, client, *key.place, seen.leader, key.producer_id, lo, hi)
                if (markers := reads.attempt(seen, read)) is not None:
                    answers.ended[key] = markers
        for key, ask in questions.facts.items():
            seen = answers.seen.get(key.place)
            if seen is None or not is_open(key, seen):
                continue
            if not seen.described:
                answers.without_facts.add(key)
            elif (facts := reads.attempt(seen, partial(read_facts, client, ask, seen, log))) is not None:
                answers.facts[key] = ask, facts
        reads.raise_failure()

    def _ask_coordinators(self, client: KafkaClient, producers: frozenset[int]) -> CoordinatorAnswers:
        """Asks the coordinators for the owners of producer ids. If any broker does not answer, the owner of every
        producer id is None, and the round continues with the other questions."""
        asked_at_ms = wall_clock_ms()
        told: dict[int, DescribedOwner] = {}
        try:
            told = describe_owners(client, sorted(producers))
        except KafkaFailure as e:
            log.debug("not all coordinators could be asked: %s", e)
        return CoordinatorAnswers(
            asked_at_ms, wall_clock_ms(), {producer: told.get(producer) for producer in producers}
        )

    def _close(self) -> None:
        super()._close()
        self._bracket = None


class _Reads:
    """The reads of single partitions in one round. After a failed read, the other reads go on, but a leader that did
    not answer is not asked again in the round."""

    def __init__(self) -> None:
        self._failures: dict[int, KafkaFailure] = {}

    def attempt(self, seen: CheckedPartition, read: Callable[[], T]) -> T | None:
        """Returns the result of `read`. Returns None if the read fails, or if the leader did not answer an earlier read
        of the round."""
        if seen.leader.node in self._failures:
            return None
        try:
            return read()
        except (PartitionUnavailable, KafkaRefused) as e:
            log.debug("%s-%s could not be read: %s", seen.topic, seen.partition, e)
        except KafkaFailure as e:
            self._failures[seen.leader.node] = e
        return None

    def raise_failure(self) -> None:
        """Raises the failure of the first leader that did not answer, if there is one."""
        for failure in self._failures.values():
            raise failure


def is_open(key: EntryKey, seen: CheckedPartition) -> bool:
    """Returns whether the entry is still open. If DescribeProducers is denied, the entry counts as open while its start
    offset is in [LSO, high watermark)."""
    if not seen.described:
        return seen.ends.last_stable_offset <= key.start_offset < seen.ends.high_watermark
    found = seen.entry(key.producer_id)
    return found is not None and found.transaction_start_offset == key.start_offset
