"""However many there are of everything, the page of metrics stays small and quickly made."""

from __future__ import annotations

import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families as parse_text

from service.metrics.page import SERIES_LIMIT
from service.store.engine import open_engine
from service.store.migrate import upgrade
from tests.helpers.many_rows import open_ids, stalled
from tests.helpers.stores import client_of
from tests.service.metrics.test_metrics import Samples, bind, by, of_the_store, one, samples

IDS, LAGGING = 100_000, 10_000
BYTES = 400_000
SECONDS = 5.0
"""Of the processor's time; `python -m tests.benchmarks scrape` knows the bar."""


def test_100000_ids_and_10000_partitions_make_no_more_series_than_the_cap(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    engine = open_engine(url)
    upgrade(engine)
    for name in ("orders", "idle"):
        bind(engine, name)
    open_ids(engine, IDS)
    stalled(engine, LAGGING)
    engine.dispose()
    with client_of(url) as client:
        client.get("/-/ready")
        began = time.process_time()
        answer = client.get("/metrics")
        took_s = time.process_time() - began
    found: Samples = samples(parse_text(answer.text))
    assert len(of_the_store(found)) == SERIES_LIMIT
    assert len(found) < SERIES_LIMIT + 100
    assert len(answer.content) < BYTES
    assert took_s < SECONDS
    oldest = by(found, "kafka_txn_top_open_start_timestamp_seconds", "transactional_id")
    assert set(oldest) == {f"id-{n:05d}" for n in range(IDS - len(oldest), IDS)}
    lagging = by(found, "kafka_txn_partition_lso_lag_records", "partition")
    assert {"10000", "9999", "9998"} < set(lagging)
    assert one(found, "series_dropped") > 4 * (LAGGING - len(lagging)) - 10
    assert one(found, "partitions_blocked") == LAGGING
    assert found["kafka_txn_series_dropped", (("cluster", "idle"),)] == 0
