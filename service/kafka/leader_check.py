"""Observes partitions. An observation counts only if a broker other than the leader reports the same leader before and
after the observation. In a cluster of one broker, the leader itself reports it.

A broker that has lost the lead without knowing it yet answers as if it still led. Only another broker reveals the
change, so verdicts use only observations that are checked in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from service.domain.partitions.facts import TopicPartition
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader, TopicLayout, broker_ids, layout_of, layouts_request
from service.kafka.ends import Ends, EndsWatcher
from service.kafka.errors import KafkaFailure, KafkaRefused, KafkaUnavailable
from service.kafka.offsets import LATEST, list_offsets
from service.kafka.producers import ActiveProducer, Producers, describe_producers

TIMEOUT_MS: Final = 2_000
SKIPPED_FOR_MS: Final = 10_000
"""Time (ms) for which an unresponsive broker is not asked again, so that it does not delay the requests to other
brokers."""

BROKERS_ASKED: Final = 3


class CheckedPartition(NamedTuple):
    """An observation of a partition, made between `asked_at_ms` and the answer. `described`: True if `open` contains
    all open transactions of the partition; False if they cannot be read (no READ on the topic, or a broker before
    2.8)."""

    topic: str
    partition: int
    topic_id: str
    asked_at_ms: int
    leader: Leader
    ends: Ends
    described: bool
    open: tuple[ActiveProducer, ...]

    def entry(self, producer_id: int) -> ActiveProducer | None:
        """Returns the open transaction of the producer id; None if there is none."""
        return next((producer for producer in self.open if producer.producer_id == producer_id), None)


class LogEnds(NamedTuple):
    """End offsets of the partitions of a topic, requested at `asked_at_ms` or later, and the leaders of these
    partitions. `offsets` and `leaders` leave out a partition whose leader changed or did not answer."""

    asked_at_ms: int
    offsets: dict[int, int]
    leaders: dict[int, Leader]


class LeaderCheck:
    """Checks the leaders before and after each request. Only for use in one thread. `now_ms`: a function that returns
    the present time."""

    def __init__(self, client: KafkaClient, now_ms: Callable[[], int]) -> None:
        self._client, self._now_ms = client, now_ms
        self._brokers: tuple[int, ...] = ()
        self._skipped_until_ms: dict[int, int] = {}
        self.unanswered_at_ms: int | None = None
        """Last time at which a broker did not answer Metadata or DescribeProducers; None if that never happened."""

    def end_offsets(self, topic: str, partitions: Collection[int]) -> LogEnds:
        """Returns the log end offsets of the partitions that kept their leader. Such an offset may be above the high
        watermark. It is used because the records in between become readable once a frozen replica leaves the ISR.
        Raises KafkaFailure."""
        before = self._leaders({topic})
        asked_at_ms = self._now_ms()
        layout = TopicLayout(topic, "", {})
        responsive = set(self._responsive({leader.node for _, leader in before.values()}))
        layout.leaders.update((p, leader) for (_, p), (_, leader) in before.items() if leader.node in responsive)
        for p in layout.leaders.keys() - set(partitions):
            del layout.leaders[p]
        found = list_offsets(self._client, layout, LATEST, unreplicated=True).found if layout.leaders else {}
        after = self._leaders({topic})
        unmoved = {p for p in found if before[topic, p] == after.get((topic, p))}
        return LogEnds(asked_at_ms, {p: found[p] for p in unmoved}, {p: layout.leaders[p] for p in unmoved})

    def observe(self, places: Collection[TopicPartition]) -> dict[TopicPartition, CheckedPartition]:
        """Returns a mapping from partition to its observation. Leaves out partitions whose leader changed, did not
        answer, or answered with an error. A partition for which only DescribeProducers was refused, for lack of READ,
        stays in the mapping; its `described` is False. Raises KafkaFailure."""
        topics = {topic for topic, _ in places}
        before = self._leaders(topics)
        asked_at_ms = self._now_ms()
        led = {place for place in places if place in before}
        found = self._ask_ends(led, before)
        producers = self._ask_producers(led, before)
        after = self._leaders(topics)
        checked = {}
        for place in led:
            ends, answer = found.get(place), producers.get(place)
            if ends is None or ends.error or answer is None or before[place] != after.get(place):
                continue
            if answer.error not in (errors.NONE, errors.TOPIC_AUTHORIZATION_FAILED):
                continue
            topic_id, leader = before[place]
            open_ = tuple(producer for producer in answer.producers if producer.transaction_start_offset >= 0)
            checked[place] = CheckedPartition(
                *place, topic_id, asked_at_ms, leader, ends, answer.error == errors.NONE, open_
            )
        return checked

    def _leaders(self, topics: set[str]) -> dict[TopicPartition, tuple[str, Leader]]:
        """Returns a mapping from partition to (topic id, leader). Reports of a broker about partitions that it leads
        itself count only in a cluster of one broker. Leaves out a partition if brokers disagree about its leader."""
        by_broker = self._ask_layouts(topics)
        led: dict[TopicPartition, tuple[str, Leader]] = {}
        doubtful: set[TopicPartition] = set()
        for node, layouts in by_broker.items():
            for topic, layout in layouts.items():
                for p, leader in layout.leaders.items():
                    if leader.node < 0 or (leader.node == node and len(self._brokers) > 1):
                        continue
                    reported = layout.topic_id, leader
                    if led.setdefault((topic, p), reported) != reported:
                        doubtful.add((topic, p))
        return {place: reported for place, reported in led.items() if place not in doubtful}

    def _ask_layouts(self, topics: set[str]) -> dict[int, dict[str, TopicLayout]]:
        if not self._brokers:
            self._brokers = tuple(broker_ids(self._client))
        request = layouts_request(sorted(topics))
        asked = self._responsive(self._brokers)[:BROKERS_ASKED]
        found: dict[int, dict[str, TopicLayout]] = {}
        failure: KafkaFailure | None = None
        for node, answers in self._client.ask_all({node: [request] for node in asked}, TIMEOUT_MS).items():
            if isinstance(answers, KafkaFailure):
                failure = answers
                self._note_failure(node, answers)
                continue
            found[node] = {t.name: layout_of(t) for t in answers[0].topics if not t.error_code}
            self._brokers = tuple(sorted(b.node_id for b in answers[0].brokers)) or self._brokers
        if not found:
            self._brokers = ()
            raise failure or KafkaUnavailable("no broker answers")
        return found

    def _ask_ends(
        self, places: set[TopicPartition], leaders: Mapping[TopicPartition, tuple[str, Leader]]
    ) -> dict[TopicPartition, Ends]:
        layouts: dict[str, TopicLayout] = {}
        responsive = set(self._responsive({leader.node for _, leader in leaders.values()}))
        for topic, p in sorted(places):
            topic_id, leader = leaders[topic, p]
            if leader.node in responsive:
                layouts.setdefault(topic, TopicLayout(topic, topic_id, {})).leaders[p] = leader
        return EndsWatcher(self._client).sample(layouts, with_start=True) if layouts else {}

    def _ask_producers(
        self, places: set[TopicPartition], leaders: Mapping[TopicPartition, tuple[str, Leader]]
    ) -> dict[TopicPartition, Producers]:
        wanted: dict[int, dict[str, list[int]]] = {}
        for topic, p in sorted(places):
            wanted.setdefault(leaders[topic, p][1].node, {}).setdefault(topic, []).append(p)
        found: dict[TopicPartition, Producers] = {}
        for node in self._responsive(wanted):
            try:
                found |= describe_producers(self._client, node, wanted[node], TIMEOUT_MS)
            except KafkaRefused:  # brokers before 2.8 do not know the request
                denied = Producers(errors.TOPIC_AUTHORIZATION_FAILED, ())
                found |= {(topic, p): denied for topic, of_topic in wanted[node].items() for p in of_topic}
            except KafkaUnavailable as e:
                self._note_failure(node, e)
        return found

    def _responsive(self, nodes: Iterable[int]) -> list[int]:
        return [node for node in sorted(nodes) if self._skipped_until_ms.get(node, 0) <= self._now_ms()]

    def _note_failure(self, node: int, failure: KafkaFailure) -> None:
        if isinstance(failure, KafkaUnavailable):
            self.unanswered_at_ms = self._now_ms()
            self._skipped_until_ms[node] = self.unanswered_at_ms + SKIPPED_FOR_MS
