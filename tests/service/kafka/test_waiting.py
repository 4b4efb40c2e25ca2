"""A wait for an unresponsive broker reports every second: the wait has an end, so it is not stuck."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka.protocol.metadata import MetadataRequest

from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaFailure, KafkaUnavailable
from service.processes.working_time import heard_by
from tests.conftest import MakeBroker
from tests.helpers.brokers import connect

pytestmark = pytest.mark.broker

TIMEOUT_MS = 3_500
REQUEST = MetadataRequest(topics=[], allow_auto_topic_creation=False)


def one(client: KafkaClient, node: int) -> None:
    with pytest.raises(KafkaUnavailable):
        client.ask(REQUEST, node, TIMEOUT_MS)


def several(client: KafkaClient, node: int) -> None:
    answers = client.ask_all({node: [REQUEST]}, TIMEOUT_MS)
    assert isinstance(answers[node], KafkaFailure)


def test_each_second_of_a_wait_is_a_step(make_broker: MakeBroker) -> None:
    broker = make_broker()
    with connect(broker.bootstrap) as client:
        (node,) = (found.node_id for found in client.ask(REQUEST).brokers)
        broker.pause()
        try:
            for ask in (one, several):
                assert steps_of(ask, client, node) >= TIMEOUT_MS // 1_000 + 1
        finally:
            broker.resume()


def steps_of(ask: Callable[[KafkaClient, int], None], client: KafkaClient, node: int) -> int:
    steps: list[str] = []
    with heard_by(lambda: steps.append("step")):
        ask(client, node)
    return len(steps)
