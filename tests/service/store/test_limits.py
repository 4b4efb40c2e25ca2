"""Tests that every valid log can be stored: unusual ids, extreme numbers, and very many rejects."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from service.domain.reasons.coding import encode
from service.domain.reasons.unread import NoBroker, NoLeader
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogBatch, LogRecord, Participants, Reject, Run
from service.store import schema
from service.store.escaped_text import display_id, id_key
from service.store.writers.history import KEPT_RAW_BYTES, KEPT_REJECTS
from service.wire.columns import decode
from service.wire.log_columns import Chunk
from spark_jobs.fold.rows import batches_from_rows, folded_to_rows, reads_to_rows
from spark_jobs.fold.transaction_log import fold
from spark_jobs.fold.transitions import Scope
from tests.helpers.builders.transaction_log import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    transition,
    value,
)
from tests.helpers.stores import client_of
from tests.service.api.answers import get
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, counters, entry, read, row, rows

INT64 = (-(2**63), 2**63 - 1)


def test_a_topic_name_that_kafka_would_refuse_does_not_stop_the_batch(cluster: Cluster) -> None:
    odd = (Participants("a\x00b\ud800", (-5, 2**31 - 1)),)
    cluster.writer.apply(batch([entry(0, states.ONGOING, topics=odd)], read(0, 1)), NOW_MS)
    found = rows(cluster.engine, schema.open_participants, cluster.id)
    assert [(r["topic"], r["partition"]) for r in found] == [("a\\x00b\\ud800", -5), ("a\\x00b\\ud800", 2**31 - 1)]


@pytest.mark.parametrize("limit", INT64)
def test_numbers_at_the_limits_are_stored(cluster: Cluster, limit: int) -> None:
    record = LogRecord(
        0, limit, 2**31 - 1, states.ONGOING, 2**63 - 1, -(2**15), -(2**31), limit, limit, 2, limit, 2**31 - 1
    )
    run = Run(0, b"pay", record, record, False, 1, (), -1, -1, None)
    wide = read(2**63 - 2, 2**63 - 1, end=2**63 - 1)
    cluster.writer.apply(batch([], wide)._replace(runs=(run,)), NOW_MS)
    found = row(cluster.engine, cluster.id)
    assert [found[name] for name in ("timestamp_ms", "last_update_ms", "start_ms", "started_at_ms")] == [limit] * 4
    assert found["producer_id"] == 2**63 - 1
    assert cluster.positions()[0].next_offset == 2**63 - 1


def test_rejects_are_bounded_and_their_count_is_not(cluster: Cluster) -> None:
    extra = 25
    for lo, hi in ((0, 20), (20, KEPT_REJECTS + extra)):
        bad = [Reject(0, 0, offset, "crc", None, b"\x00", None) for offset in range(lo, hi)]
        cluster.writer.apply(batch([], read(lo, hi), rejects=bad), NOW_MS)
    kept = rows(cluster.engine, schema.rejects, cluster.id)
    assert [r["offset"] for r in kept] == list(range(extra, KEPT_REJECTS + extra))
    assert counters(cluster.engine, cluster.id) == {"decode_errors/crc": KEPT_REJECTS + extra}


def test_raw_bytes_of_rejects_are_bounded_and_the_newest_stay(cluster: Cluster) -> None:
    half, a_third = bytes(KEPT_RAW_BYTES // 2), bytes(KEPT_RAW_BYTES // 3)
    sizes = [half, half, b"small", a_third]
    for lo, hi in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 8)):
        bad = [Reject(0, 0, offset, "crc", b"i" * 32_767, sizes[offset % 4], None) for offset in range(lo, hi)]
        cluster.writer.apply(batch([], read(lo, hi), rejects=bad), NOW_MS)
        kept = rows(cluster.engine, schema.rejects, cluster.id)
        assert sum(len(r["key"] or b"") for r in kept) <= KEPT_RAW_BYTES
        assert kept[-1]["key"] == sizes[(hi - 1) % 4]
    assert [(r["offset"], r["key"] and len(r["key"])) for r in kept] == [
        *((n, None) for n in range(5)),
        (5, len(half)),
        (6, len(b"small")),
        (7, len(a_third)),
    ]
    assert {r["transactional_id"] for r in kept} == {id_key(b"i" * 32_767)}


def test_trouble_is_stored_and_the_last_success_stays(cluster: Cluster) -> None:
    def status() -> list[tuple[object, ...]]:
        return [tuple(r.values()) for r in rows(cluster.engine, schema.source_status, cluster.id)]

    cluster.writer.report_trouble(NoBroker("b:9092"))
    assert status() == [("transaction_state", 0, encode(NoBroker("b:9092")))]
    cluster.writer.apply(batch([], read(0, 0)), NOW_MS)
    assert status() == [("transaction_state", NOW_MS, None)]
    cluster.writer.apply(batch([], read(0, 0))._replace(trouble=NoLeader()), NOW_MS + 1)
    assert status() == [("transaction_state", NOW_MS, encode(NoLeader()))]


IDS = {
    "nul": b"pay\x00ments",
    "not UTF-8": b"\xff\xfe\x80",
    "surrogate": b"\xed\xa0\x80",
    "quotes": b"'; DROP TABLE x; --\"%s ? :a `$(x)`",
    "empty": b"",
    "letters": "zürich-\N{SNOWMAN}".encode(),
    "controls": "right\u202eleft\n".encode(),
    "as long as any": b"x" * 32_767,
    "as long as any, not UTF-8": b"\xfe" * 32_767,
}
PATH = "/api/v1/clusters/cluster-0"
FIRST_MS, LAST_MS = -(2**63), 2**63 - 1
TIMES = (FIRST_MS, FIRST_MS + 1, -1, 0, NOW_MS - 5_000, LAST_MS - 1, LAST_MS)
TRANSACTION = (ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT, ONGOING, PREPARE_ABORT, COMPLETE_ABORT, ONGOING)


def encoded(raw: bytes, first_offset: int, times: Sequence[int] = (NOW_MS - 9_000,)) -> list[bytes]:
    """Returns the records of a commit, an abort and an open transaction.

    `times` are used in turn for the append times, and for the times within the records.
    """
    log = []
    for step, status in enumerate(TRANSACTION):
        topics = [("orders'\0", [0, 2**31 - 1])] if status not in (COMPLETE_COMMIT, COMPLETE_ABORT) else []
        at_ms, updated_ms, start_ms = (times[(step // n) % len(times)] for n in (1, 2, 3))
        data = value(step % 2, status=status, topics=topics, last_update_ms=updated_ms, start_ms=start_ms)
        log.append(transition(raw, first_offset + step, timestamp_ms=at_ms, data=data))
    return log


def arrived(log: Sequence[bytes], lo: int) -> LogBatch:
    """Returns the batch that the driver decodes from the rows of the executors."""
    columns = decode([Chunk(0, lo, lo + len(log), b"".join(log))])
    assert (len(columns), columns.rejects, columns.broken) == (len(log), (), ())
    rows = [
        *folded_to_rows(fold(columns, Scope(frozenset({0})))),
        reads_to_rows([read(lo, lo + len(log))]),
    ]
    (batch,) = batches_from_rows(pa.Table.from_batches(rows))
    return batch


def apply_all(cluster: Cluster, log: Sequence[bytes], lo: int = 0) -> None:
    cluster.writer.apply(arrived(log, lo), NOW_MS)


def raw_of(item: dict[str, Any]) -> bytes:
    encoded_id = item["transactional_id_b64"]
    if encoded_id is None:
        return str(item["transactional_id"]).encode()
    return base64.urlsafe_b64decode(encoded_id + "=" * (-len(encoded_id) % 4))


def ms_of(item: dict[str, Any], name: str) -> int:
    """Returns the time `name` of a REST item, in ms as in the record. REST returns null for a time of -1. If the time
    is no date, REST returns it in a separate raw field."""
    if item[name] is None:
        return int(item.get(f"{name.removesuffix('_at')}_raw_ms", -1))
    return round(datetime.fromisoformat(item[name]).timestamp() * 1_000)


def served(client: TestClient, raw: bytes) -> tuple[Any, list[Any], list[Any]]:
    """Finds an id in the list of transactions. Returns the document of the id, the items of its timeline, and the items
    of its rates."""
    (href,) = [item["href"] for item in get(client, f"{PATH}/transactions")["items"] if raw_of(item) == raw]
    query = href.partition("?")[2]
    timeline = get(client, f"{PATH}/transaction/timeline?{query}&limit=200")["items"]
    return get(client, href), timeline, get(client, f"{PATH}/transaction/rates?{query}&window=7d")["items"]


@pytest.mark.parametrize("raw", IDS.values(), ids=IDS.keys())
def test_any_id_is_stored_and_served(cluster: Cluster, url: str, raw: bytes) -> None:
    apply_all(cluster, [*encoded(raw, 0), *encoded(b"other", len(TRANSACTION))])
    with client_of(url) as client:
        assert {raw_of(item) for item in get(client, f"{PATH}/transactions")["items"]} == {raw, b"other"}
        one, timeline, rates = served(client, raw)
        assert (raw_of(one), one["state"]) == (raw, "Ongoing")
        assert row(cluster.engine, cluster.id, id_key(raw))["display"] == display_id(raw)
        reported = [(item["type"], item.get("offset"), item.get("to_state")) for item in timeline]
        assert reported == [
            ("folded", None, None),
            ("transition", 5, "CompleteAbort"),
            ("transition", 4, "PrepareAbort"),
        ]
        assert [(minute["commits"], minute["aborts"]["client"]) for minute in rates] == [(1, 1)]


@pytest.mark.parametrize("times", [[ms] for ms in TIMES] + [list(TIMES), list(TIMES[::-1])], ids=str)
def test_any_time_is_stored_and_served(cluster: Cluster, url: str, times: list[int]) -> None:
    """The test applies several transactions with extreme times, because the sums of their durations must fit into
    int64, too."""
    for lo in range(0, 4 * len(TRANSACTION), len(TRANSACTION)):
        apply_all(cluster, encoded(b"pay", lo, times), lo)
    with client_of(url) as client:
        one, timeline, rates = served(client, b"pay")
        last = [times[(6 // n) % len(times)] for n in (1, 2, 3)]
        assert [ms_of(one, name) for name in ("last_updated_at", "started_at")] == last[1:]
        assert ms_of(one, "state_since") in times
        assert one["counts"]["commits"] == 4
        assert one["state"] == "Ongoing"
        assert {"transition", "folded"} >= {item["type"] for item in timeline}
        assert all("minute" in minute for minute in rates)
        assert client.get("/metrics").status_code == 200
