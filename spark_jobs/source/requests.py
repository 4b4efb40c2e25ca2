"""What the sampler asks, over one connection; after a failure a new one is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.ends import Ends, EndsWatcher
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from service.kafka.layouts import Topics, all_topics
from service.kafka.metadata import TopicLayout, topic_layout
from service.kafka.settings import ClientSettings

Place = tuple[str, int]
_T = TypeVar("_T")


class Asked(Protocol):
    """Everything raises KafkaUnavailable or KafkaRefused."""

    def topics(self) -> Topics: ...

    def ends(self, layouts: Mapping[str, TopicLayout], *, with_start: bool) -> dict[Place, Ends]: ...

    def starts(self, layouts: Mapping[str, TopicLayout]) -> dict[Place, Ends]:
        """Of a few partitions, with their log starts."""
        ...

    def why_not_listed(self, topic: str) -> str | None:
        """None: the topic is no more. Empty: it is there, only not everywhere yet. Else why it may not be seen."""
        ...


class Brokers:
    """The cluster itself."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._client: KafkaClient | None = None

    def topics(self) -> Topics:
        return self._ask(all_topics)

    def ends(self, layouts: Mapping[str, TopicLayout], *, with_start: bool) -> dict[Place, Ends]:
        return self._ask(lambda _: self._all.look(layouts, with_start=with_start))

    def starts(self, layouts: Mapping[str, TopicLayout]) -> dict[Place, Ends]:
        return self._ask(lambda _: self._some.look(layouts, with_start=True))

    def why_not_listed(self, topic: str) -> str | None:
        try:
            return None if self._ask(lambda client: topic_layout(client, topic)) is None else ""
        except KafkaRefused:
            return errors.no_permission(topic, "DESCRIBE")

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
