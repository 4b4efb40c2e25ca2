"""The executors' reader against a real broker, without Spark."""

from __future__ import annotations

import pytest

from deploy.demo.broker import Broker
from service.domain.transaction_log.facts import RangeRead
from service.domain.transaction_log.states import TOPIC
from service.kafka.cluster import topic_layout
from service.kafka.errors import KafkaUnavailable
from service.kafka.settings import ClientSettings
from spark_jobs.source import reader
from tests.helpers.brokers import connect
from tests.integration.application import log_ends
from tests.integration.producers import open_producer

pytestmark = pytest.mark.broker


def test_a_broker_that_answers_with_nothing_is_not_waited_for_without_end(
    broker_431: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that are promised and never come, as behind a batch whose length is wrong on the disk."""
    monkeypatch.setattr(reader, "PATIENCE_S", 0.5)
    open_producer(broker_431.bootstrap, "nothing-comes")
    with connect(broker_431.bootstrap) as client:
        layout = topic_layout(client, TOPIC)
    assert layout is not None
    end = log_ends(broker_431.bootstrap)[0]
    leader = layout.leaders[0]
    promised = RangeRead(0, layout.topic_id, 0, end, end + 5, leader.node, leader.epoch, 0, end + 5, 0, 0, 0, None)
    with pytest.raises(KafkaUnavailable, match=f"{TOPIC}-0: no records arrive from offset {end} on"):
        list(reader.read_ranges(ClientSettings.load(broker_431.bootstrap, None), TOPIC, [promised]))
