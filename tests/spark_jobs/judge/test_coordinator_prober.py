"""Tests of the requests that the prober sends to coordinators about ids and their missing markers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from service.domain.findings.conditions import IdState
from service.domain.findings.mismatch import CoordinatorAnswer
from service.domain.transaction_log.states import PREPARE_COMMIT
from service.kafka.errors import KafkaUnavailable
from service.kafka.settings import ClientSettings
from spark_jobs.judge.coordinator_prober import CoordinatorProber, Question
from spark_jobs.runtime.liveness import Liveness

LIVING, FROZEN = 1, 3


class Cluster:
    """A cluster in which broker LIVING coordinates "pay", whose marker on orders-1 is missing. Broker FROZEN does not
    answer."""

    def ask_all(self, requests: dict[int, list[Any]], timeout_ms: int) -> dict[int, Any]:
        return {
            node: KafkaUnavailable(f"broker {node} does not answer") if node == FROZEN else [_about(request)]
            for node, [request] in requests.items()
        }

    def ask(self, request: Any, node: int | None = None, timeout_ms: int = 0) -> Any:
        if node != LIVING:
            raise KafkaUnavailable("the broker does not answer")
        led = SimpleNamespace(partition_index=1, leader_id=FROZEN, leader_epoch=4)
        name = request.topics[0].name
        return SimpleNamespace(topics=[SimpleNamespace(error_code=0, name=name, topic_id="", partitions=[led])])


def _about(request: Any) -> Any:
    states = [
        SimpleNamespace(
            transactional_id=name,
            error_code=0,
            transaction_state="PrepareCommit",
            producer_id=7,
            producer_epoch=2,
            topics=[SimpleNamespace(topic="orders", partitions=[1])],
        )
        for name in request.transactional_ids
    ]
    return SimpleNamespace(transaction_states=states)


def _question(name: str, coordinator: int) -> Question:
    row = IdState(name.encode(), name, 0, 9, 0, PREPARE_COMMIT, 7, 2, 60_000, 0, 0, 0, (("orders", 1),))
    return Question(row, coordinator)


def test_an_unresponsive_broker_does_not_hide_answers_of_the_others() -> None:
    probe = CoordinatorProber(ClientSettings(("127.0.0.1:1",)), Liveness(list))
    probe._client = Cluster()  # type: ignore[assignment]
    probe._answer([_question("lost", FROZEN), _question("pay", LIVING)])
    (answer,) = probe.answers()
    assert isinstance(answer, CoordinatorAnswer)
    assert (answer.transactional_id, answer.state) == (b"pay", "PrepareCommit")
    assert answer.missing == (("orders", 1, FROZEN),)
