"""The owner of a producer id: every broker has to answer, and only one may name an owner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from service.domain.transaction_log import states
from service.kafka import producers
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaUnavailable
from service.kafka.producers import describe_owners
from service.kafka.transactions import ListedId, TransactionDescription

DONE = TransactionDescription("CompleteAbort", 7, 3, ())


class Cluster:
    """Brokers that list ids, and what they say of each; None: the broker does not answer."""

    def __init__(
        self, listed: dict[int, list[ListedId] | None], described: dict[tuple[int, str], TransactionDescription]
    ) -> None:
        self._listed, self._described = listed, described

    def ask(self, request: Any, node: int | None = None, timeout_ms: int = 0) -> Any:
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=node) for node in self._listed])

    def lists(self, client: Any, node: int, producer_ids: Any, timeout_ms: int) -> list[ListedId]:
        if (found := self._listed[node]) is None:
            raise KafkaUnavailable(f"broker {node} does not answer")
        return [one for one in found if one.producer_id in producer_ids]

    def describe(self, client: Any, node: int, names: list[str], timeout_ms: int) -> dict[str, TransactionDescription]:
        return {name: self._described[node, name] for name in names if (node, name) in self._described}


PAY = ListedId("pay", 7, "CompleteAbort")


def told_by(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> dict[int, Any]:
    monkeypatch.setattr(producers, "list_transactions", cluster.lists)
    monkeypatch.setattr(producers, "describe_transactions", cluster.describe)
    client: KafkaClient = cluster  # type: ignore[assignment]
    return dict(describe_owners(client, [7, 8]))


def test_the_broker_that_lists_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({1: [], 2: [PAY]}, {(2, "pay"): DONE})
    assert told_by(monkeypatch, cluster) == {7: (b"pay", 2, states.COMPLETE_ABORT, 7, 3, ())}


def test_a_broker_that_does_not_answer_may_be_the_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KafkaUnavailable):
        told_by(monkeypatch, Cluster({1: [PAY], 2: None}, {(1, "pay"): DONE}))


@pytest.mark.parametrize(
    ("listed", "described"),
    [
        ({1: [PAY], 2: [PAY]}, {(1, "pay"): DONE, (2, "pay"): DONE}),  # one of them has lost the lead
        ({1: [PAY, ListedId("other", 7, "Ongoing")]}, {(1, "pay"): DONE}),
        ({1: [PAY]}, {}),  # it may not be described, or just moved
        ({1: [PAY]}, {(1, "pay"): TransactionDescription(None, -1, -1, ())}),  # expired in between
        ({1: [PAY]}, {(1, "pay"): DONE._replace(producer_id=9)}),  # another producer id by now
        ({1: [PAY]}, {(1, "pay"): DONE._replace(producer_id=8)}),
        ({1: [PAY]}, {(1, "pay"): DONE._replace(state="Dead")}),
    ],
)
def test_a_word_that_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
    listed: dict[int, list[ListedId] | None],
    described: dict[tuple[int, str], TransactionDescription],
) -> None:
    assert told_by(monkeypatch, Cluster(listed, described)) == {}
