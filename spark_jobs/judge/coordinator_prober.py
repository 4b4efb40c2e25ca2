"""Asks coordinators about a few ids, in a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from service.clock import wall_clock_ms
from service.domain.findings.conditions import IdState
from service.domain.findings.mismatch import MOST_LEADERS, NOT_FOUND, CoordinatorAnswer, WithoutMarker
from service.domain.transaction_log.coordinator_partition import partition_count
from service.domain.transaction_log.states import TOPIC
from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout, topic_layout
from service.kafka.errors import KafkaFailure
from service.kafka.settings import ClientSettings
from service.kafka.transactions import TransactionDescription, describe_request, descriptions_in, no_coordinator_knows
from service.store.escaped_text import display_id
from spark_jobs.judge.kafka_worker import KafkaWorker
from spark_jobs.runtime.liveness import Liveness

log = logging.getLogger(__name__)

IDS_AT_ONCE: Final = 20
TIMEOUT_MS: Final = 3_000


class Question(NamedTuple):
    """A question about an id to `coordinator`, the broker that leads its log partition. `stored`: the id's newest state
    in the store. If the id's record `was_left_behind`, the question goes to all brokers."""

    stored: IdState
    coordinator: int
    was_left_behind: bool = False


class LeftBehindAnswer(NamedTuple):
    """The brokers' answer about an Ongoing transaction that was left behind. `is_known`: whether any coordinator knows
    the transaction."""

    transactional_id: bytes
    producer_id: int
    is_known: bool


class CoordinatorProber(KafkaWorker[Sequence[Question], CoordinatorAnswer | LeftBehindAnswer]):
    """Asks coordinators about ids. An id without an answer is not reported, because the judge soon asks about it
    again."""

    def __init__(self, client: ClientSettings, liveness: Liveness) -> None:
        super().__init__("coordinator prober", client, liveness)

    def _answer(self, question: Sequence[Question]) -> None:
        plain = [one for one in question if _is_plain(one.stored)]
        with self._trying("coordinators were not asked about transactions"):
            self._ask({q.stored.transactional_id.decode(): q for q in plain if not q.was_left_behind})
            self._ask_all_about([question.stored for question in plain if question.was_left_behind])

    def _ask_all_about(self, left_behind: Sequence[IdState]) -> None:
        self._client = self._client or KafkaClient(self._settings)
        for id_state in left_behind:
            is_gone = no_coordinator_knows(
                self._client, id_state.transactional_id.decode(), id_state.producer_id, TIMEOUT_MS
            )
            if is_gone is not None:
                self._answers.put(
                    LeftBehindAnswer(id_state.transactional_id, id_state.producer_id, is_known=not is_gone)
                )

    def _ask(self, by_name: Mapping[str, Question]) -> None:
        """Asks all coordinators at once. If one does not answer, the answers of the others are still used."""
        self._client = self._client or KafkaClient(self._settings)
        names: dict[int, list[str]] = {}
        for name, question in by_name.items():
            names.setdefault(question.coordinator, []).append(name)
        asked_at_ms = wall_clock_ms()
        requests = {node: [describe_request(some)] for node, some in names.items()}
        answered = self._client.ask_all(requests, TIMEOUT_MS)
        answered_at_ms = wall_clock_ms()
        for node, answers in answered.items():
            if isinstance(answers, KafkaFailure):
                log.debug("a coordinator did not answer about transactions: %s", answers)
                continue
            layouts: dict[str, TopicLayout | None] = {}
            for name, described in descriptions_in(answers[0]).items():
                id_state = by_name[name].stored
                missing, log_partitions = None, 0
                if described.state is None:
                    log_partitions = self._log_partitions(node, layouts)
                elif described.state.startswith("Prepare"):
                    missing = self._missing(described, node, layouts)
                self._answers.put(
                    CoordinatorAnswer(
                        id_state.transactional_id,
                        id_state.offset,
                        asked_at_ms,
                        answered_at_ms,
                        described.state or NOT_FOUND,
                        described.producer_id,
                        described.producer_epoch,
                        missing,
                        log_partitions,
                    )
                )

    def _log_partitions(self, coordinator: int, layouts: dict[str, TopicLayout | None]) -> int:
        """Returns the number of partitions of the transaction log; 0 if the coordinator's own metadata do not list the
        log. These metadata are requested after the coordinator has answered about the ids."""
        layout = self._layout(TOPIC, coordinator, layouts)
        return 0 if layout is None else partition_count(layout.leaders)

    def _layout(self, topic: str, coordinator: int, layouts: dict[str, TopicLayout | None]) -> TopicLayout | None:
        """Returns the topic's layout; None if the topic does not exist. Asks the coordinator, because any other
        broker may be unresponsive. Keeps each layout in `layouts`."""
        assert self._client is not None
        if topic not in layouts:
            layouts[topic] = topic_layout(self._client, topic, coordinator)
        return layouts[topic]

    def _missing(
        self, described: TransactionDescription, coordinator: int, layouts: dict[str, TopicLayout | None]
    ) -> tuple[WithoutMarker, ...]:
        """Returns the partitions that still lack their marker. Only the first MOST_LEADERS of them come with their
        leader."""
        found = []
        for topic, partition in described.partitions[:MOST_LEADERS]:
            layout = self._layout(topic, coordinator, layouts)
            leader = None if layout is None else layout.leaders.get(partition)
            found.append(WithoutMarker(topic, partition, -1 if leader is None else leader.node))
        return (*found, *(WithoutMarker(*place) for place in described.partitions[MOST_LEADERS:]))


def _is_plain(id_state: IdState) -> bool:
    """Returns whether Kafka's requests can contain the id unchanged. Coordinators cannot be asked about any other
    id."""
    return display_id(id_state.transactional_id).encode() == id_state.transactional_id
