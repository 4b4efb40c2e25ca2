"""Asks coordinators about a few ids, at leisure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from service.domain.findings.conditions import IdNow
from service.domain.findings.mismatch import NOT_FOUND, Answer
from service.kafka.client import KafkaClient
from service.kafka.metadata import TopicLayout, topic_layout
from service.kafka.settings import ClientSettings
from service.kafka.transactions import Described, describe_transactions
from service.store.display import display_id
from spark_jobs.asking import Asking
from spark_jobs.source.planner import wall_clock_ms

IDS_AT_ONCE: Final = 20


class Question(NamedTuple):
    """About an id as the store has it now, for the broker that leads its log partition."""

    about: IdNow
    coordinator: int


class Probe(Asking[Sequence[Question], Answer]):
    """What cannot be answered is left out: the next question comes soon."""

    def __init__(self, client: ClientSettings) -> None:
        super().__init__("probe", client)

    def _answer(self, question: Sequence[Question]) -> None:
        by_coordinator: dict[int, list[Question]] = {}
        for one in question:
            by_coordinator.setdefault(one.coordinator, []).append(one)
        for coordinator, some in by_coordinator.items():
            with self._trying(f"broker {coordinator} was not asked about transactions"):
                self._ask(coordinator, some)

    def _ask(self, coordinator: int, questions: Sequence[Question]) -> None:
        self._client = self._client or KafkaClient(self._settings)
        by_name = {q.about.transactional_id.decode(): q.about for q in questions if _is_plain(q.about)}
        asked_at_ms = wall_clock_ms()
        described = describe_transactions(self._client, coordinator, list(by_name))
        answered_at_ms = wall_clock_ms()
        layouts: dict[str, TopicLayout | None] = {}
        for name, said in described.items():
            one = by_name[name]
            missing = self._missing(said, layouts) if (said.state or "").startswith("Prepare") else ()
            self._answers.put(
                Answer(
                    one.transactional_id,
                    one.offset,
                    asked_at_ms,
                    answered_at_ms,
                    said.state or NOT_FOUND,
                    said.producer_id,
                    said.producer_epoch,
                    missing,
                )
            )

    def _missing(self, said: Described, layouts: dict[str, TopicLayout | None]) -> tuple[tuple[str, int, int], ...]:
        """The partitions still without marker, and who leads them (-1: nobody)."""
        assert self._client is not None
        found = []
        for topic, partition in said.partitions[:10]:
            if topic not in layouts:
                layouts[topic] = topic_layout(self._client, topic)
            layout = layouts[topic]
            leader = None if layout is None else layout.leaders.get(partition)
            found.append((topic, partition, -1 if leader is None else leader.node))
        return tuple(found)


def _is_plain(one: IdNow) -> bool:
    """Kafka's text holds it: others cannot be asked about."""
    return display_id(one.transactional_id).encode() == one.transactional_id
