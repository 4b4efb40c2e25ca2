"""Tests of data partitions, from brokers through Spark into the store: open transactions appear, and disappear when
they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy.demo.broker import Broker
from service.domain.source_state import SourceName
from service.store.schema import data_partitions, open_entries, partition_watch, source_status
from tests.helpers.brokers import describe_transaction, on_broker
from tests.helpers.waiting import ANSWER_S, OPEN_MS, wait_for, wait_until, wait_until_equal
from tests.integration.application import Ingest, running
from tests.integration.producers import create_topic, delete_topics, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]


def of(app: Ingest, table: Any, topic: str) -> list[Any]:
    return [row for row in app.rows(table) if row.topic == topic]


def watched(app: Ingest, topic: str, partitions: int) -> list[Any]:
    def rows() -> list[Any]:
        found = of(app, data_partitions, topic)
        return found if len(found) == partitions else []

    return wait_for(rows, f"all partitions of {topic} in the store; {app.log}")


@on_broker("3.9.2")
def test_an_open_transaction_is_shown_and_goes_when_it_ends(broker: Broker, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, "open-one", 2)
    producer = open_producer(broker.bootstrap, "open-one", OPEN_MS)
    transact(producer, "open-one")
    with running(Ingest(broker.bootstrap, tmp_path, "--mirrored", "copied-*")) as app:
        watched(app, "open-one", 2)
        create_topic(broker.bootstrap, "copied-one", 3)
        producer.begin_transaction()
        producer.produce("open-one", b"payload", partition=1)
        producer.flush(ANSWER_S)
        (entry,) = wait_for(lambda: of(app, open_entries, "open-one"), f"the open transaction; {app.log}")
        said = describe_transaction(broker.bootstrap, "open-one")
        assert (entry.producer_id, entry.producer_epoch) == (said.producer_id, said.producer_epoch)
        (row,) = [row for row in of(app, data_partitions, "open-one") if row.partition == entry.partition == 1]
        assert entry.start_offset == row.last_stable_offset == row.high_watermark - 1
        assert (row.first_producer_id, row.first_base_offset) == (said.producer_id, entry.start_offset)
        assert row.first_is_transactional
        assert not row.first_is_control
        assert row.described
        assert row.is_whole
        assert row.lag_bytes == entry.bytes > 61
        assert row.stalled_since_ms is not None

        producer.commit_transaction(ANSWER_S)
        wait_until_equal(lambda: of(app, open_entries, "open-one"), [], f"the open entries ({app.log})")
        wait_until_equal(
            lambda: [
                (row.stalled_since_ms, row.high_watermark - row.last_stable_offset)
                for row in of(app, data_partitions, "open-one")
                if row.partition == 1
            ],
            [(None, 0)],
            f"(stalled since, hidden offsets) of partition 1 ({app.log})",
        )

        delete_topics(broker.bootstrap, "open-one")
        wait_until(
            lambda: of(app, data_partitions, "open-one"),
            lambda rows: all(row.is_gone for row in rows),
            f"all partitions of the deleted topic to be gone; {app.log}",
        )
        assert not of(app, data_partitions, "copied-one")
        (seen,) = app.rows(partition_watch)
        assert seen.not_covered == 3
        assert [row.error for row in app.rows(source_status) if row.source == SourceName.PARTITIONS] == [None]
