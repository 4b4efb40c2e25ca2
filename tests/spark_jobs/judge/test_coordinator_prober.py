"""Tests of the requests that the prober sends to coordinators: about ids, about the missing markers of an id, and about
the size of the coordinator's transaction log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from service.domain.findings.conditions import IdState
from service.domain.findings.mismatch import NOT_FOUND, CoordinatorAnswer
from service.domain.transaction_log.states import PREPARE_COMMIT
from service.kafka.errors import KafkaUnavailable
from service.kafka.settings import ClientSettings
from service.kafka.transactions import TRANSACTIONAL_ID_NOT_FOUND
from spark_jobs.judge.coordinator_prober import CoordinatorProber, Question
from spark_jobs.runtime.liveness import Liveness

LIVING, FROZEN = 1, 3


class Cluster:
    """Stands in for a cluster. Broker LIVING coordinates "pay", and does not know "old". The marker of "pay" on
    orders-1 is missing. Broker FROZEN does not answer. Each topic has partitions 0 and 1, both led by FROZEN."""

    def ask_all(self, requests: dict[int, list[Any]], timeout_ms: int) -> dict[int, Any]:
        return {
            node: KafkaUnavailable(f"broker {node} does not answer") if node == FROZEN else [_about(request)]
            for node, [request] in requests.items()
        }

    def ask(self, request: Any, node: int | None = None, timeout_ms: int = 0) -> Any:
        if node != LIVING:
            raise KafkaUnavailable("the broker does not answer")
        led = [SimpleNamespace(partition_index=p, leader_id=FROZEN, leader_epoch=4) for p in (0, 1)]
        name = request.topics[0].name
        return SimpleNamespace(topics=[SimpleNamespace(error_code=0, name=name, topic_id="", partitions=led)])


def _about(request: Any) -> Any:
    states = [
        SimpleNamespace(
            transactional_id=name,
            error_code=TRANSACTIONAL_ID_NOT_FOUND if name == "old" else 0,
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


def test_a_coordinator_that_does_not_know_an_id_is_asked_for_the_size_of_its_log() -> None:
    probe = CoordinatorProber(ClientSettings(("127.0.0.1:1",)), Liveness(list))
    probe._client = Cluster()  # type: ignore[assignment]
    probe._answer([_question("old", LIVING), _question("pay", LIVING)])
    known = {answer.transactional_id: answer for answer in probe.answers() if isinstance(answer, CoordinatorAnswer)}
    assert (known[b"old"].state, known[b"old"].log_partitions) == (NOT_FOUND, 2)
    assert (known[b"pay"].state, known[b"pay"].log_partitions) == ("PrepareCommit", 0)
