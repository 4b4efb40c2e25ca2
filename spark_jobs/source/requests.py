"""Sends the requests of the sampler and of the ledger's planner to the brokers. Divides the reads of stalled partitions
among tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from service.domain.partitions.facts import PartitionEnds
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import DESCRIBE, NoPermission
from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout, Topics, all_topics, topic_layout
from service.kafka.ends import Ends, EndsWatcher
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from service.kafka.settings import ClientSettings

WORTH_A_TASK: Final = 250
"""Number of partitions that justify one more task. Each task costs about 16 ms, however little it reads."""


def into_tasks(requests: Sequence[PartitionEnds], cores: int) -> list[tuple[PartitionEnds, ...]]:
    """Returns the requests, divided into at least one task and at most `cores`, each with few leaders."""
    by_leader = sorted(requests, key=lambda request: (request.leader, request.topic, request.partition))
    tasks = max(1, min(cores, -(-len(requests) // WORTH_A_TASK)))
    size = -(-len(requests) // tasks)
    return [tuple(by_leader[i * size : (i + 1) * size]) for i in range(tasks)]


Place = tuple[str, int]
_T = TypeVar("_T")


class Listing(NamedTuple):
    """The answer about one topic. `is_there`: False only if a broker reports that the topic does not exist. `hidden`:
    the reason if Kafka refuses to describe the topic."""

    is_there: bool
    hidden: Reason | None = None


class Brokers:
    """The requests of the sampler and of the ledger's planner to a cluster. Every request may raise KafkaUnavailable.
    Every request except `listing` may raise KafkaRefused."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._client: KafkaClient | None = None

    def topics(self) -> Topics:
        return self._ask(all_topics)

    def ends(self, layouts: Mapping[str, TopicLayout], *, with_start: bool) -> dict[Place, Ends]:
        return self._ask(lambda _: self._all.sample(layouts, with_start=with_start))

    def starts(self, layouts: Mapping[str, TopicLayout]) -> dict[Place, Ends]:
        """Returns the LSO, the high watermark and the log start of each of a few partitions."""
        return self._ask(lambda _: self._some.sample(layouts, with_start=True))

    def listing(self, topic: str) -> Listing:
        """Requests one topic by name. Called for a topic that `topics` no longer returns. Returns the answer."""
        try:
            return Listing(self._ask(lambda client: topic_layout(client, topic)) is not None)
        except KafkaRefused:
            return Listing(True, NoPermission(topic, (DESCRIBE,)))

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def _ask(self, question: Callable[[KafkaClient], _T]) -> _T:
        try:
            if self._client is None:
                self._client = KafkaClient(self._settings)
                self._all, self._some = EndsWatcher(self._client), EndsWatcher(self._client)
            return question(self._client)
        except KafkaUnavailable:
            self.close()
            raise
