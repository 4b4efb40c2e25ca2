"""Tests that a real HTTP receiver of OTLP gets one trace of each notable transaction, whatever fails meanwhile, and
that traces which are left out are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from sqlalchemy import func, insert, select

from service.domain.findings.finding import Evidence, Occurrence
from service.domain.findings.kinds import Kind
from service.domain.partitions.facts import LogPlace
from service.domain.transaction_log import states
from service.metrics.exports import DropReason
from service.metrics.page import Metrics
from service.otlp import outbox, sending, traces
from service.otlp.configuration import OtlpTable
from service.otlp.exporter import Exporter, Identity
from service.store import schema, telemetry
from service.store.engine import open_reader
from service.store.telemetry import TracePosition
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions, hanging_finding
from tests.helpers.stores import NOW_MS
from tests.helpers.waiting import LIMIT_S, wait_until
from tests.service.otlp.receiving import Answer, Receiver, receiver, refusing_spans, values
from tests.service.store.histories import aborted, committed
from tests.service.store.logs import Entry, batch, entry, read

BASE = "https://txnscope.example.org"
ENDED_MS = NOW_MS - 30_000


def stored(cluster: WithPartitions) -> None:
    cluster.read()


pytestmark = pytest.mark.cluster(stored=stored)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(sending, name, 0.02)
    monkeypatch.setattr(traces, "READ_EVERY_S", 0.02)
    monkeypatch.setattr(outbox, "SETTLES_S", 0.0)
    monkeypatch.setattr(outbox, "_LOOKS_EVERY_S", 0.0)


@pytest.fixture
def metrics(cluster: WithPartitions) -> Iterator[Metrics]:
    reader = open_reader(cluster.url)
    yield Metrics(reader)
    reader.dispose()


@contextmanager
def exporting(cluster: WithPartitions, metrics: Metrics, to: Receiver, **keys: Any) -> Iterator[None]:
    table = OtlpTable.model_validate({"endpoint": to.url, "metrics": False, **keys})
    who = Identity("1.2.3", "host:1")
    exporter = Exporter(cluster.engine, cluster.engine, metrics, table, who, BASE, lambda: NOW_MS)
    exporter.start()
    try:
        wait_for("the position in the store", lambda: position(cluster))
        yield
    finally:
        exporter.stop(LIMIT_S)


@contextmanager
def after(cluster: WithPartitions, metrics: Metrics, happened: Callable[[], object], **keys: Any) -> Iterator[Receiver]:
    """Yields a receiver. Before the `with` block, one exporter runs and ends, and then `happened` is called. During the
    block, a second exporter runs."""
    with receiver() as to:
        with exporting(cluster, metrics, to):
            pass
        happened()
        with exporting(cluster, metrics, to, **keys):
            yield to


def wait_for(what: str, probe: Callable[[], object]) -> None:
    wait_until(probe, bool, what)


def position(cluster: WithPartitions) -> TracePosition | None:
    with cluster.engine.connect() as connection:
        row = connection.execute(select(schema.telemetry.c.transition, schema.telemetry.c.finding_event)).one_or_none()
    return None if row is None or row.transition is None else TracePosition(*row)


def write(cluster: WithPartitions, entries: list[Entry]) -> None:
    first = entries[0].record.offset
    cluster.writer.apply(batch(entries, read(first, first + len(entries), topic_id="T")), NOW_MS)


def timed_out(offset: int = 0, key: bytes = b"pay", ended_ms: int = ENDED_MS) -> list[Entry]:
    """Returns the records of a transaction that was open for 62 s, and whose markers took 200 ms."""
    prepared_ms = ended_ms - 200
    start_ms = prepared_ms - 62_000
    return [
        entry(offset, states.ONGOING, key, start_ms=start_ms, at_ms=start_ms),
        entry(offset + 1, states.PREPARE_ABORT, key, start_ms=start_ms, at_ms=prepared_ms, epoch=1),
        entry(offset + 2, states.COMPLETE_ABORT, key, start_ms=start_ms, at_ms=ended_ms, epoch=1),
    ]


def aborts(number: int, first: int = 0) -> list[Entry]:
    return [entry for n in range(first, number) for entry in aborted(3 * n, ENDED_MS + n, b"pay-%03d" % n)]


def roots(to: Receiver) -> list[Span]:
    return [span for span in to.spans if not span.parent_span_id]


def more_than(to: Receiver, number: int) -> bool:
    return len(roots(to)) > number


def ids(to: Receiver) -> list[str]:
    return [values(span)["txnscope.transactional_id"] for span in roots(to)]


def dropped(metrics: Metrics, reason: DropReason) -> float:
    (family,) = (metric for metric in metrics.own() if metric.name == "kafka_txn_otlp_dropped")
    wanted = {"signal": "traces", "reason": reason}
    return next((sample.value for sample in family.samples if sample.labels == wanted), 0)


def test_a_transaction_that_timed_out_is_a_trace_with_its_phases_and_markers(
    cluster: WithPartitions, metrics: Metrics
) -> None:
    def happened() -> None:
        write(cluster, timed_out())
        with cluster.engine.begin() as connection:
            number = connection.scalar(
                select(func.max(schema.transitions.c.id)).where(schema.transitions.c.offset == 1)
            )
            places = [("orders", 0, ENDED_MS - 150), ("orders", 3, ENDED_MS - 20), ("orders", 5, ENDED_MS + 500)]
            for topic, partition, at_ms in places:
                own = {"producer_id": 7, "producer_epoch": 1, "coordinator_epoch": 0, "is_commit": False}
                place = {"cluster_id": cluster.id, "topic": topic, "partition": partition, "generation": 0, "offset": 9}
                connection.execute(insert(schema.partition_markers).values(**place, **own, at_ms=at_ms))
        cluster.see(observe(Kind.TIMED_OUT, occurrences=(Occurrence(number, ENDED_MS),)))

    with after(cluster, metrics, happened) as to:
        wait_for("the trace", lambda: to.taken)
        assert len(to.taken) == 1
        spans = to.spans
    with cluster.engine.connect() as connection:
        finding = connection.scalar(select(schema.findings.c.id))
    by_name = {span.name: span for span in spans}
    assert sorted(span.name for span in spans) == ["completing", "marker", "marker", "open", "transaction abort"]
    root, completing = by_name["transaction abort"], by_name["completing"]
    assert len({span.trace_id for span in spans}) == 1
    assert root.start_time_unix_nano == (ENDED_MS - 62_200) * 1_000_000
    assert root.end_time_unix_nano == ENDED_MS * 1_000_000
    assert root.status.code == Status.STATUS_CODE_ERROR
    assert root.status.message == "aborted by its coordinator, because it was open for longer than its timeout (likely)"
    assert values(root) == {
        "messaging.system": "kafka",
        "messaging.operation.type": "settle",
        "messaging.operation.name": "abort",
        "messaging.kafka.cluster.id": "kafka-orders",
        "txnscope.cluster": "orders",
        "txnscope.transactional_id": "pay",
        "txnscope.producer_id": 7,
        "txnscope.producer_epoch": 1,
        "txnscope.outcome": "abort",
        "txnscope.cause": "timeout",
        "txnscope.confidence": "likely",
        "txnscope.timeout_ms": 60_000,
        "txnscope.start_is_known": True,
        "txnscope.coordinator.partition": 0,
        "txnscope.coordinator.broker": 1,
        "txnscope.finding.id": finding,
        "txnscope.finding.kind": "timed_out_transaction",
        "txnscope.finding.url": f"{BASE}/clusters/orders/findings/{finding}",
    }
    assert by_name["open"].parent_span_id == completing.parent_span_id == root.span_id
    assert by_name["open"].end_time_unix_nano == completing.start_time_unix_nano == (ENDED_MS - 200) * 1_000_000
    markers = {values(span)["messaging.destination.partition.id"]: span for span in spans if span.name == "marker"}
    assert {marker.parent_span_id for marker in markers.values()} == {completing.span_id}
    assert {key: span.end_time_unix_nano // 1_000_000 - ENDED_MS for key, span in markers.items()} == {
        "0": -150,
        "3": -20,
    }
    assert values(markers["0"])["messaging.destination.name"] == "orders"


def test_a_commit_with_slow_markers_is_a_trace_without_an_error(cluster: WithPartitions, metrics: Metrics) -> None:
    def happened() -> None:
        write(cluster, [*committed(0, ENDED_MS, markers_ms=1_500), *committed(3, ENDED_MS + 1_000, b"ship")])

    with after(cluster, metrics, happened) as to:
        wait_for("the trace", lambda: to.taken)
        assert ids(to) == ["pay"]
        (root,) = roots(to)
    assert (root.name, root.status.code) == ("transaction commit", Status.STATUS_CODE_OK)
    assert [span.name for span in to.spans] == ["transaction commit", "open", "completing"]


def test_a_hanging_transaction_is_shown_when_it_is_found_and_when_it_ends(
    cluster: WithPartitions, metrics: Metrics
) -> None:
    newest_record = Evidence(NOW_MS - 90_000, LogPlace(states.TOPIC, 0, 5), "newest record of pay: CompleteAbort")
    seen = (newest_record, Evidence(NOW_MS - 9_000, "txnscope", "open"))
    with receiver() as to, exporting(cluster, metrics, to):
        cluster.see(hanging_finding(evidence=seen), now_ms=NOW_MS - 5_000)
        wait_for("the finding", lambda: to.spans)
        (found,) = to.spans
        assert found.name == "hanging"
        assert found.start_time_unix_nano == (NOW_MS - 9_000) * 1_000_000
        assert found.end_time_unix_nano == (NOW_MS - 5_000) * 1_000_000
        assert found.status.code == Status.STATUS_CODE_ERROR
        assert values(found)["txnscope.finding.url"].startswith(f"{BASE}/clusters/orders/findings/")
        cluster.see(now_ms=NOW_MS - 1_000)
        wait_for("its end", lambda: roots(to))
        (root,) = roots(to)
    assert (root.trace_id, root.span_id) == (found.trace_id, found.parent_span_id)
    assert root.end_time_unix_nano == (NOW_MS - 1_000) * 1_000_000
    assert root.status.code == Status.STATUS_CODE_ERROR
    assert values(root)["messaging.destination.name"] == "orders"
    assert values(root)["messaging.destination.partition.id"] == "0"


def test_a_start_that_is_not_known_is_not_made_up(cluster: WithPartitions, metrics: Metrics) -> None:
    _, prepare, complete = aborted(0, ENDED_MS)
    unknown = [entry._replace(record=entry.record._replace(start_ms=-1)) for entry in (prepare, complete)]
    moved = [entry._replace(record=entry.record._replace(offset=at)) for at, entry in enumerate(unknown)]
    with after(cluster, metrics, lambda: write(cluster, moved)) as to:
        wait_for("the trace", lambda: to.taken)
        (root,) = roots(to)
    assert values(root)["txnscope.start_is_known"] is False
    assert root.start_time_unix_nano == (ENDED_MS - 10) * 1_000_000
    assert [span.name for span in to.spans] == ["transaction abort", "completing"]


def test_a_time_that_is_none_makes_no_trace_and_holds_up_no_other(cluster: WithPartitions, metrics: Metrics) -> None:
    def happened() -> None:
        write(cluster, [*aborted(0, NOW_MS + 10 * 86_400_000, b"future"), *aborted(3, ENDED_MS)])

    with after(cluster, metrics, happened) as to:
        wait_for("the other trace", lambda: to.taken)
    assert ids(to) == ["pay"]
    assert dropped(metrics, DropReason.NO_TIME) == 1


def test_what_ended_before_the_first_export_is_not_sent(cluster: WithPartitions, metrics: Metrics) -> None:
    write(cluster, aborts(3))
    with receiver() as to, exporting(cluster, metrics, to):
        write(cluster, aborts(4, first=3))
        wait_for("the new trace", lambda: to.taken)
    assert ids(to) == ["pay-003"]


def test_a_trace_that_is_sent_again_has_the_same_ids(cluster: WithPartitions, metrics: Metrics) -> None:
    with receiver() as to:
        with exporting(cluster, metrics, to):
            before = position(cluster)
            write(cluster, [*timed_out(), *aborted(3, ENDED_MS, b"ship")])
            wait_for("both traces", lambda: len(roots(to)) == 2)
        first = [span.SerializeToString() for span in to.spans]
        with cluster.engine.begin() as connection:  # as after a kill between the answer and the next step
            telemetry.move_traces(connection, before)
        to.taken.clear()
        with exporting(cluster, metrics, to):
            wait_for("both traces again", lambda: len(roots(to)) == 2)
    assert [span.SerializeToString() for span in to.spans] == first


def test_a_restart_sends_nothing_twice(cluster: WithPartitions, metrics: Metrics) -> None:
    with receiver() as to:
        for number in range(3):
            with exporting(cluster, metrics, to):
                write(cluster, aborts(number + 1, first=number))
                wait_for("the next trace", partial(more_than, to, number))
    assert ids(to) == ["pay-000", "pay-001", "pay-002"]


def test_an_endpoint_that_is_away_for_a_while_misses_nothing(
    cluster: WithPartitions, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    with receiver() as to:
        to.answers = [Answer(503)] * 5 + [Answer(429, headers={"Retry-After": "0"})] + [Answer(500)] * 5
        with exporting(cluster, metrics, to, traces_per_minute=1_000):
            for number in range(10):
                write(cluster, aborts(number * 30 + 30, first=number * 30))
            wait_for("all traces", lambda: len(roots(to)) >= 300)
    assert ids(to) == [f"pay-{number:03}" for number in range(300)]
    lines = [record.message for record in caplog.records]
    assert lines == [
        *(f"OTLP traces: the receiver answered with status {status}" for status in (503, 429, 500)),
        "OTLP traces: the endpoint takes requests again",
    ]


def test_a_trace_that_is_refused_is_dropped_and_counted_alone(cluster: WithPartitions, metrics: Metrics) -> None:
    with receiver() as to:
        to.refuses = lambda request: any(
            values(span)["txnscope.transactional_id"] == "pay-004" for span in request.spans
        )
        with exporting(cluster, metrics, to):
            write(cluster, aborts(10))
            wait_for("the last trace", lambda: "pay-009" in ids(to))
    assert ids(to) == [f"pay-{number:03}" for number in range(10) if number != 4]
    assert dropped(metrics, DropReason.REFUSED) == 1


def test_spans_that_the_endpoint_refuses_in_part_are_not_sent_again(
    cluster: WithPartitions, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    with receiver() as to:
        to.answers = [refusing_spans(2, "no room")]
        with exporting(cluster, metrics, to):
            write(cluster, aborts(2))
            wait_for("the traces", lambda: len(roots(to)) == 2)
            write(cluster, aborts(3, first=2))
            wait_for("the next trace", lambda: len(roots(to)) == 3)
    assert dropped(metrics, DropReason.REFUSED) == 2
    assert "OTLP traces: the endpoint refused 2 parts of a request: no room" in caplog.text


def test_a_storm_of_one_cause_is_cut_and_hides_no_other(cluster: WithPartitions, metrics: Metrics) -> None:
    def happened() -> None:
        write(cluster, [*aborts(20), *timed_out(60, b"rare")])

    with after(cluster, metrics, happened, traces_per_minute=5) as to:
        wait_for("the trace of the id outside of the storm", lambda: "rare" in ids(to))
    assert ids(to) == [*(f"pay-{number:03}" for number in range(5)), "rare"]
    assert dropped(metrics, DropReason.CAP) == 15


def test_while_traces_are_off_none_are_kept_for_later(cluster: WithPartitions, metrics: Metrics) -> None:
    with receiver() as to:
        with exporting(cluster, metrics, to):
            pass
        table = OtlpTable.model_validate({"endpoint": to.url, "traces": False})
        off = Exporter(cluster.engine, cluster.engine, metrics, table, Identity("1", "a"), None, lambda: NOW_MS)
        off.start()
        wait_for("the position to be removed from the store", lambda: position(cluster) is None)
        write(cluster, aborts(1))
        off.stop(LIMIT_S)
        with exporting(cluster, metrics, to):
            write(cluster, aborts(2, first=1))
            wait_for("the new trace", lambda: to.spans)
    assert ids(to) == ["pay-001"]
