"""Fixtures for tests that send requests to brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.demo.broker import Broker
from service.kafka.client import KafkaClient
from tests.helpers.brokers import connect


@pytest.fixture
def client(broker: Broker) -> Iterator[KafkaClient]:
    with connect(broker.bootstrap) as connected:
        yield connected
