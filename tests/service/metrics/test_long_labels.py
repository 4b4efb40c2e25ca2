"""Tests that metrics stay small. A long label is cut, but still identifies one id. The number of series is bounded."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parse_text

from service.domain.partitions.group_offsets import GroupOffset
from service.metrics.page import SERIES_LIMIT, Metrics
from service.store.engine import open_engine, open_reader
from service.store.escaped_text import LABEL_BYTES, display_id, kept_part, label_text
from service.store.migrate import upgrade
from service.store.writers.groups import GroupWriter
from tests.helpers.many_rows import open_ids, stalled
from tests.helpers.partitions import LSO, WithPartitions, hanging_finding, stalled_partition
from tests.helpers.stores import NOW_MS, client_of, open_id
from tests.service.metrics.test_metrics import Samples, bind, by, of_the_store, one, page, samples

LONGEST = 32_767
"""The length in bytes of the longest id in Kafka's protocol."""

SHARED = b"a" * (LONGEST - 1)
TWINS = (SHARED + b"1", SHARED + b"2")
CONTROLS = b"\x01" * (LONGEST - 2) + "é".encode()


def stored(cluster: WithPartitions) -> None:
    """Stores open and hanging transactions with long ids. The owner of the hanging ones has a long name. Also stores
    two blocked groups with long names."""
    cluster.read([open_id(one, 9_000 + number) for number, one in enumerate((*TWINS, CONTROLS))])
    cluster.look(*(stalled_partition(number) for number in range(2)))
    cluster.see(*(hanging_finding(number, name=one, owner="o" * 5_000) for number, one in enumerate(TWINS)))
    groups = [GroupOffset("g" * (LONGEST - 1) + end, "orders", 0, LSO, 1, False) for end in "12"]
    GroupWriter(cluster.engine, cluster.lease).replace(groups, NOW_MS)


pytestmark = pytest.mark.cluster(stored=stored)


def of(cluster: WithPartitions) -> Samples:
    reader = open_reader(cluster.url)
    try:
        return page(Metrics(reader), NOW_MS)
    finally:
        reader.dispose()


def test_no_label_is_longer_than_256_bytes_and_two_ids_stay_two_series(cluster: WithPartitions) -> None:
    found = of(cluster)
    texts = [(name, label, text) for name, labels in found for label, text in labels]
    assert [text for text in texts if len(text[2].encode()) > LABEL_BYTES] == []

    def values(name: str, label: str) -> set[str]:
        return {text for metric, its_label, text in texts if (metric, its_label) == (f"kafka_txn_{name}", label)}

    assert len(values("top_open_start_timestamp_seconds", "transactional_id")) == 3
    assert len(values("hanging_info", "transactional_id")) == 2
    assert len(values("hanging_info", "owner")) == 1
    assert len(values("group_blocked", "group")) == 2
    shared = {text[:240] for text in values("hanging_info", "transactional_id")}
    assert shared == {"a" * 240}


@pytest.mark.parametrize("transactional_id", [*TWINS, CONTROLS], ids=["one", "its twin", "controls"])
def test_a_link_with_a_cut_label_still_leads_to_its_id(cluster: WithPartitions, transactional_id: bytes) -> None:
    """Alerts and dashboards build the URL `transaction?id=` from the label, which may be cut."""
    label = label_text(display_id(transactional_id))
    with client_of(cluster.url) as client:
        found = {
            text
            for name, labels in samples(parse_text(client.get("/metrics").text))
            for key, text in labels
            if (name, key) == ("kafka_txn_top_open_start_timestamp_seconds", "transactional_id")
        }
        assert label in found
        answer = client.get(f"/api/v1/clusters/orders/transaction?id={quote(label)}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["transactional_id"].encode() == transactional_id
        assert client.get(f"/clusters/orders/transaction?id={quote(label)}").status_code == 200
        other = label[:-8] + "00000000"
        assert client.get(f"/api/v1/clusters/orders/transaction?id={quote(other)}").status_code == 404


@given(st.text(st.sampled_from("a9…\\u{}é\U0001f600\t"), min_size=40, max_size=400))
def test_a_label_is_the_text_or_its_beginning_and_digits(text: str) -> None:
    label = label_text(text)
    assert len(label.encode()) <= LABEL_BYTES
    if len(text.encode()) <= LABEL_BYTES:
        assert label == text
    else:
        start = kept_part(label)
        assert start is not None
        assert text.startswith(start)
        assert text.startswith(label[:-9])
        assert label != label_text(text + "a")


IDS, LAGGING = 100_000, 10_000
BYTES = 400_000
SECONDS = 5.0
"""Limit of the processor time for one scrape. The benchmark `python -m tests.benchmarks scrape` measures the real
time."""


@pytest.mark.in_turns
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
