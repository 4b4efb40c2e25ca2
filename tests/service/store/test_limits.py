"""Whatever the log may hold can be stored: absurd ids, absurd numbers, more rejects than anyone reads."""

from __future__ import annotations

import pytest

from service.domain.reasons.coding import encode
from service.domain.reasons.unread import NoBroker, NoLeader
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogRecord, Participants, Reject, Run
from service.store import schema
from service.store.escaped_text import id_key
from service.store.writers.history import KEPT_RAW_BYTES, KEPT_REJECTS
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, counters, entry, read, row, rows

INT64 = (-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("raw", "display"),
    [
        (b"", ""),
        (b"pay\x00ments", "pay\\u{0}ments"),
        (b"\xff\xfe", "\\x{ff}\\x{fe}"),
        (b"\xed\xa0\x80", "\\x{ed}\\x{a0}\\x{80}"),
        (b"'; DROP TABLE x; --\"%s ? :a", "'; DROP TABLE x; --\"%s ? :a"),
        ("zürich-\N{SNOWMAN}".encode(), "zürich-\N{SNOWMAN}"),
        ("right\u202eleft\n".encode(), "right\\u{202e}left\\u{a}"),
        (b"x" * 32_767, "x" * 32_767),
    ],
    ids=["empty", "nul", "not utf-8", "surrogate", "sql", "letters", "controls", "long"],
)
def test_any_id_is_kept_as_it_is_and_shown_as_text(cluster: Cluster, raw: bytes, display: str) -> None:
    cluster.writer.apply(batch([entry(0, states.ONGOING, raw)], read(0, 1)), NOW_MS)
    cluster.writer.apply(batch([entry(1, states.COMPLETE_COMMIT, raw)], read(1, 2)), NOW_MS)
    found = row(cluster.engine, cluster.id, id_key(raw))
    assert (found["display"], found["commits"]) == (display, 1)
    assert rows(cluster.engine, schema.open_participants, cluster.id) == []


def test_a_topic_name_that_kafka_would_refuse_does_not_stop_the_batch(cluster: Cluster) -> None:
    odd = (Participants("a\x00b\ud800", (-5, 2**31 - 1)),)
    cluster.writer.apply(batch([entry(0, states.ONGOING, topics=odd)], read(0, 1)), NOW_MS)
    found = rows(cluster.engine, schema.open_participants, cluster.id)
    assert [(r["topic"], r["partition"]) for r in found] == [("a\\x00b\\ud800", -5), ("a\\x00b\\ud800", 2**31 - 1)]


@pytest.mark.parametrize("limit", INT64)
def test_numbers_at_the_limits(cluster: Cluster, limit: int) -> None:
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


def test_what_is_kept_raw_is_bounded_in_bytes_and_the_newest_stays(cluster: Cluster) -> None:
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


def test_trouble_is_told_and_as_of_stands_still(cluster: Cluster) -> None:
    def status() -> list[tuple[object, ...]]:
        return [tuple(r.values()) for r in rows(cluster.engine, schema.source_status, cluster.id)]

    cluster.writer.report_trouble(NoBroker("b:9092"))
    assert status() == [("transaction_state", 0, encode(NoBroker("b:9092")))]
    cluster.writer.apply(batch([], read(0, 0)), NOW_MS)
    assert status() == [("transaction_state", NOW_MS, None)]
    cluster.writer.apply(batch([], read(0, 0))._replace(trouble=NoLeader()), NOW_MS + 1)
    assert status() == [("transaction_state", NOW_MS, encode(NoLeader()))]
