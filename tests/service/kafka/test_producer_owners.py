"""Tests of the search for the owner of a producer id, and for a transaction that is left in a former partition of the
transaction log. A conclusion needs the answers of all brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from service.domain.transaction_log import states
from service.kafka import producers
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaUnavailable
from service.kafka.producers import describe_owners
from service.kafka.transactions import ListedId, TransactionDescription, no_coordinator_knows

DONE = TransactionDescription("CompleteAbort", 7, 3, ())


class Cluster:
    """Brokers with their lists of ids and their descriptions of ids. A broker whose list is None does not answer."""

    def __init__(
        self, listed: dict[int, list[ListedId] | None], described: dict[tuple[int, str], TransactionDescription]
    ) -> None:
        self._listed, self._described = listed, described

    def ask(self, request: Any, node: int | None = None, timeout_ms: int = 0) -> Any:
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=node) for node in self._listed])

    def lists(self, client: Any, node: int, producer_ids: Any, timeout_ms: int) -> list[ListedId]:
        if (found := self._listed[node]) is None:
            raise KafkaUnavailable(f"broker {node} does not answer")
        return [listed_id for listed_id in found if listed_id.producer_id in producer_ids]

    def describe(self, client: Any, node: int, names: list[str], timeout_ms: int) -> dict[str, TransactionDescription]:
        return {name: self._described[node, name] for name in names if (node, name) in self._described}


PAY = ListedId("pay", 7, "CompleteAbort")


def owners_by(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> dict[int, Any]:
    monkeypatch.setattr(producers, "list_transactions", cluster.lists)
    monkeypatch.setattr(producers, "describe_transactions", cluster.describe)
    client: KafkaClient = cluster  # type: ignore[assignment]
    return dict(describe_owners(client, [7, 8]))


def test_the_broker_that_lists_an_id_describes_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({1: [], 2: [PAY]}, {(2, "pay"): DONE})
    assert owners_by(monkeypatch, cluster) == {7: (b"pay", 2, states.COMPLETE_ABORT, 7, 3, ())}


def test_a_broker_that_does_not_answer_may_be_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KafkaUnavailable):
        owners_by(monkeypatch, Cluster({1: [PAY], 2: None}, {(1, "pay"): DONE}))


@pytest.mark.parametrize(
    ("listed", "described"),
    [
        # both brokers list the id: one of them has lost the leadership
        ({1: [PAY], 2: [PAY]}, {(1, "pay"): DONE, (2, "pay"): DONE}),
        ({1: [PAY, ListedId("other", 7, "Ongoing")]}, {(1, "pay"): DONE}),
        ({1: [PAY]}, {}),  # DESCRIBE on the id is denied, or the id has just moved
        ({1: [PAY]}, {(1, "pay"): TransactionDescription(None, -1, -1, ())}),  # the id expired in between
        ({1: [PAY]}, {(1, "pay"): DONE._replace(producer_id=9)}),  # the id has another producer id by now
        ({1: [PAY]}, {(1, "pay"): DONE._replace(producer_id=8)}),
        ({1: [PAY]}, {(1, "pay"): DONE._replace(state="Dead")}),
    ],
)
def test_an_answer_that_proves_no_owner_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
    listed: dict[int, list[ListedId] | None],
    described: dict[tuple[int, str], TransactionDescription],
) -> None:
    assert owners_by(monkeypatch, Cluster(listed, described)) == {}


NOT_FOUND, NOT_COORDINATOR, LOADING, DENIED = (105, -1), (16, -1), (14, -1), (53, -1)
ITSELF, ANOTHER = (0, 7), (0, 1000)
SILENT = None


class Brokers:
    """Brokers 1 to 3, and the answer of each about the id `exp-a`: error code and producer id. A broker whose answer is
    None does not answer.

    The transaction log has 8 partitions. The id hashes to partition 1, which broker `leader` leads. Broker 1 leads the
    other partitions.
    """

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
        namespace = SimpleNamespace(transactional_id="exp-a", error_code=answer[0], producer_id=answer[1])
        return [SimpleNamespace(transaction_states=[namespace])]


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        (Brokers(NOT_COORDINATOR, NOT_FOUND, NOT_COORDINATOR), True),
        (Brokers(NOT_COORDINATOR, ANOTHER, NOT_COORDINATOR), True),  # a new instance has another producer id
        (Brokers(ITSELF, NOT_FOUND, NOT_COORDINATOR), False),  # broker 1 did not restart, and will end the transaction
        (Brokers(ITSELF, NOT_COORDINATOR, NOT_COORDINATOR), False),
        (Brokers(NOT_COORDINATOR, NOT_COORDINATOR, NOT_COORDINATOR), None),  # broker 2 has not loaded the id
        (Brokers(NOT_COORDINATOR, LOADING, NOT_COORDINATOR), None),
        (Brokers(LOADING, NOT_FOUND, NOT_COORDINATOR), None),
        (Brokers(SILENT, NOT_FOUND, NOT_COORDINATOR), None),
        (Brokers(DENIED, DENIED, DENIED), None),
        (Brokers(NOT_COORDINATOR, NOT_FOUND, NOT_COORDINATOR, leader=-1), None),
    ],
)
def test_only_answers_of_all_brokers_show_that_no_coordinator_knows_an_id(
    brokers: Brokers, expected: bool | None
) -> None:
    client: KafkaClient = brokers  # type: ignore[assignment]
    assert no_coordinator_knows(client, "exp-a", 7, 1_000) is expected
