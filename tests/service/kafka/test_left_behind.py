"""A transaction that was left behind is unknown to all coordinators: every broker has to answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaUnavailable
from service.kafka.transactions import no_coordinator_knows

NOT_FOUND, NOT_COORDINATOR, LOADING, DENIED = (105, -1), (16, -1), (14, -1), (53, -1)
ITSELF, ANOTHER = (0, 7), (0, 1000)
SILENT = None


class Brokers:
    """Brokers 1 to 3 with their answers about `exp-a`. The log has 8 partitions; broker 2 leads 1, where the id's
    coordinator looks, and broker 1 all others."""

    def __init__(self, *answers: tuple[int, int] | None, leader: int = 2) -> None:
        self._answers, self._leader = dict(enumerate(answers, 1)), leader

    def ask(self, request: Any, node: int | None = None, timeout_ms: int = 0) -> Any:
        led = [
            SimpleNamespace(partition_index=p, leader_id=self._leader if p == 1 else 1, leader_epoch=0)
            for p in range(8)
        ]
        topic = SimpleNamespace(error_code=0, name="__transaction_state", topic_id="T", partitions=led)
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=node) for node in self._answers], topics=[topic])

    def ask_all(self, requests: dict[int, list[Any]], timeout_ms: int) -> dict[int, Any]:
        return {node: self._answer(node) for node in requests}

    def _answer(self, node: int) -> Any:
        if (answer := self._answers[node]) is None:
            return KafkaUnavailable(f"broker {node} does not answer")
        one = SimpleNamespace(transactional_id="exp-a", error_code=answer[0], producer_id=answer[1])
        return [SimpleNamespace(transaction_states=[one])]


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        (Brokers(NOT_COORDINATOR, NOT_FOUND, NOT_COORDINATOR), True),
        (Brokers(NOT_COORDINATOR, ANOTHER, NOT_COORDINATOR), True),  # it was started again
        (Brokers(ITSELF, NOT_FOUND, NOT_COORDINATOR), False),  # broker 1 has not restarted: it still ends it
        (Brokers(ITSELF, NOT_COORDINATOR, NOT_COORDINATOR), False),
        (Brokers(NOT_COORDINATOR, NOT_COORDINATOR, NOT_COORDINATOR), None),  # broker 2 does not look there yet
        (Brokers(NOT_COORDINATOR, LOADING, NOT_COORDINATOR), None),
        (Brokers(LOADING, NOT_FOUND, NOT_COORDINATOR), None),
        (Brokers(SILENT, NOT_FOUND, NOT_COORDINATOR), None),
        (Brokers(DENIED, DENIED, DENIED), None),
        (Brokers(NOT_COORDINATOR, NOT_FOUND, NOT_COORDINATOR, leader=-1), None),
    ],
)
def test_only_the_answers_of_all_brokers_show_it(brokers: Brokers, expected: bool | None) -> None:
    client: KafkaClient = brokers  # type: ignore[assignment]
    assert no_coordinator_knows(client, "exp-a", 7, 1_000) is expected
