"""Tests that a real HTTP receiver of OTLP gets the metrics that /metrics shows, whatever fails meanwhile."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, Metric
from prometheus_client.parser import text_string_to_metric_families as parse

from service.metrics.catalogue import (
    HTTP_REQUESTS,
    OF_CLUSTERS,
    OF_RECEIVERS,
    OTLP_DROPPED,
    OTLP_REQUESTS,
    RENDER_SECONDS,
    UP,
)
from service.metrics.page import Metrics
from service.otlp import sending
from service.otlp.configuration import OtlpTable
from service.otlp.exporter import Exporter, Identity
from service.store import lease
from service.store.engine import open_reader
from service.store.receivers import add_receiver
from tests.helpers.certificates import Authority
from tests.helpers.metrics_document import fill
from tests.helpers.partitions import WithPartitions
from tests.helpers.stores import NOW_MS
from tests.helpers.waiting import LIMIT_S, wait_until
from tests.service.otlp.receiving import CPU, Answer, Receiver, Samples, receiver, refusing, samples

CHANGING = ("process_", "http_", "kafka_txn_otlp_", RENDER_SECONDS.name)


def stored(cluster: WithPartitions) -> None:
    fill(cluster)
    with cluster.engine.begin() as connection:
        add_receiver(connection, "pager", "alertmanager", 0)


pytestmark = pytest.mark.cluster(stored=stored, partitions=2)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(sending, name, 0.02)


@pytest.fixture
def metrics(cluster: WithPartitions) -> Iterator[Metrics]:
    reader = open_reader(cluster.url)
    yield Metrics(reader)
    reader.dispose()


def table_of(to: Receiver, **keys: Any) -> OtlpTable:
    return OtlpTable.model_validate({"endpoint": to.url, "traces": False, "interval": "1s", **keys})


@contextmanager
def exporting(
    cluster: WithPartitions, metrics: Metrics, table: OtlpTable, instance: str = "host-1:8080"
) -> Iterator[Exporter]:
    exporter = Exporter(
        cluster.engine, cluster.engine, metrics, table, Identity("1.2.3", instance), None, lambda: NOW_MS
    )
    exporter.start()
    try:
        yield exporter
    finally:
        exporter.stop(LIMIT_S)


def wait_for(what: str, probe: Callable[[], object]) -> None:
    wait_until(probe, bool, what)


def on_the_page(metrics: Metrics) -> Samples:
    text = metrics.render("", "", NOW_MS)[0].decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def the_metric(of: tuple[Metric, ...], name: str) -> Metric:
    (found,) = (metric for metric in of if metric.name == name)
    return found


def requests(metrics: Metrics, outcome: str) -> float:
    return on_the_page(metrics)[OTLP_REQUESTS.name, frozenset({("signal", "metrics"), ("outcome", outcome)})]


def dropped(metrics: Metrics) -> float:
    return on_the_page(metrics)[OTLP_DROPPED.name, frozenset({("signal", "metrics"), ("reason", "refused")})]


def test_every_metric_of_the_page_arrives_with_its_value(cluster: WithPartitions, metrics: Metrics) -> None:
    metrics.requests.count("GET", "/health/live", 200, 0.004)
    with receiver() as to, exporting(cluster, metrics, table_of(to)):
        wait_for("both kinds of metrics", lambda: to.of_store and to.of_process)
        arrived = samples((*to.of_store[0].metrics, *to.of_process[0].metrics))
    shown = on_the_page(metrics)
    assert {key for key in shown if key[0].startswith("kafka_txn_")} <= arrived.keys()
    assert {name for name, _ in shown} == {name for name, _ in arrived}
    fixed = {key: value for key, value in shown.items() if not key[0].startswith(CHANGING)}
    assert {key: arrived[key] for key in fixed} == fixed
    names = {metric.name for metric in (*OF_CLUSTERS, *OF_RECEIVERS, OTLP_REQUESTS, OTLP_DROPPED, UP, HTTP_REQUESTS)}
    empty = {metric.name for metric in OF_CLUSTERS if not any(name.startswith(metric.name) for name, _ in shown)}
    assert names - empty <= {name.removesuffix("_bucket") for name, _ in arrived}
    assert len(names - empty) > 40, "the store has data of nearly all metrics"


def test_a_counter_begins_when_counting_began(cluster: WithPartitions, metrics: Metrics) -> None:
    with receiver() as to, exporting(cluster, metrics, table_of(to)):
        wait_for("both kinds of metrics", lambda: to.of_store and to.of_process)
        of_store, of_process = to.of_store[0].metrics, to.of_process[0].metrics
    with cluster.engine.connect() as connection:
        since_ms = connection.exec_driver_sql("SELECT counted_since_ms FROM clusters").scalar_one()
    completed = the_metric(of_store, "kafka_txn_completed_total")
    assert completed.sum.is_monotonic
    assert completed.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    assert {point.start_time_unix_nano for point in completed.sum.data_points} == {since_ms * 1_000_000}
    assert {point.time_unix_nano for point in completed.sum.data_points} == {NOW_MS * 1_000_000}
    (duration, *_) = the_metric(of_store, "kafka_txn_duration_seconds").histogram.data_points
    assert duration.start_time_unix_nano == since_ms * 1_000_000
    assert not duration.HasField("min")
    (cpu,) = the_metric(of_process, CPU).sum.data_points
    (began,) = the_metric(of_process, "process_start_time_seconds").gauge.data_points
    assert cpu.start_time_unix_nano == pytest.approx(began.as_double * 1e9, abs=1e6)
    (taken, *_) = the_metric(of_store, "kafka_txn_notifications_total").sum.data_points
    assert taken.start_time_unix_nano == 0


def test_units_are_those_of_the_names(cluster: WithPartitions, metrics: Metrics) -> None:
    with receiver() as to, exporting(cluster, metrics, table_of(to)):
        wait_for("both kinds of metrics", lambda: to.of_store and to.of_process)
        units = {metric.name: metric.unit for metric in (*to.of_store[0].metrics, *to.of_process[0].metrics)}
    assert units["kafka_txn_duration_seconds"] == units[CPU] == "s"
    assert units["kafka_txn_pipeline_bytes_total"] == "By"
    assert units["kafka_txn_source_coverage_ratio"] == "1"
    assert units["kafka_txn_completed_total"] == units["kafka_txn_hanging_info"] == ""


def test_one_of_two_services_sends_what_the_store_knows(cluster: WithPartitions, metrics: Metrics) -> None:
    with receiver() as to:
        held = lease.acquire(cluster.engine, lease.EXPORTER, "another service", NOW_MS)
        assert held is not None
        with exporting(cluster, metrics, table_of(to)):
            wait_for("two messages of the process", lambda: len(to.of_process) > 1)
            assert to.of_store == []
            lease.release(cluster.engine, held)
            wait_for("the metrics of the store", lambda: to.of_store)
        with exporting(cluster, metrics, table_of(to), "host-2:8080"):
            wait_for("the metrics from the other service", lambda: to.of_store[1:])
    of_process = [one.resource for one in to.of_process]
    assert of_process[0] == {
        "service.name": "txnscope",
        "service.version": "1.2.3",
        "service.instance.id": "host-1:8080",
    }
    assert of_process[-1]["service.instance.id"] == "host-2:8080"
    (of_store,) = {one.resource["service.instance.id"] for one in to.of_store}
    assert of_store not in ("host-1:8080", "host-2:8080")


def test_variables_of_the_environment_change_nothing(
    cluster: WithPartitions, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as other, receiver() as to:
        for name in ("", "METRICS_", "TRACES_"):
            monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}ENDPOINT", other.url)
            monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}HEADERS", "api-key=of-the-environment")
            monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}COMPRESSION", "deflate")
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, other.url)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=wrong,team=wrong")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "wrong")
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        with exporting(cluster, metrics, table_of(to)):
            wait_for("both kinds of metrics", lambda: to.of_store and to.of_process)
        assert other.requests == 0
        assert "wrong" not in str(to.taken[0].resource)
        assert "api-key" not in {name.lower() for name in to.taken[0].headers}


def test_a_redirect_is_not_followed(cluster: WithPartitions, metrics: Metrics) -> None:
    with receiver() as other, receiver() as to:
        to.answers = [Answer(307, headers={"Location": f"{other.url}/v1/metrics"}) for _ in range(4)]
        with exporting(cluster, metrics, table_of(to)):
            wait_for("a request that is answered without a redirect", lambda: to.taken)
        assert other.requests == 0
        assert requests(metrics, "failed") == 4


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
def test_a_failing_endpoint_is_tried_again_and_logged_once(
    status: int, cluster: WithPartitions, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    with receiver() as to:
        to.answers = [Answer(status) for _ in range(6)]
        with exporting(cluster, metrics, table_of(to)):
            wait_for("both kinds of metrics", lambda: to.of_store and to.of_process)
    lines = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    for kind in ("this process", "the store"):
        of_kind = [line for line in lines if line.startswith(f"OTLP metrics of {kind}: ")]
        assert [line.partition(": ")[2] for line in of_kind] in (
            [],  # the other kind of metrics got all failures
            [f"the receiver answered with status {status}", "the endpoint takes requests again"],
        )
    assert requests(metrics, "failed") == 6
    assert dropped(metrics) == 0


def test_what_the_endpoint_refuses_is_counted_and_logged(
    cluster: WithPartitions, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    with receiver() as to:
        to.answers = [refusing(3, "too\nmany series"), Answer(400)]
        with exporting(cluster, metrics, table_of(to)):
            wait_for("the third message", lambda: len(to.taken) > 2)
        refused = len(to.of_store[0].metrics) if to.of_store else 0
    assert dropped(metrics) > 3 + min(refused, 1)
    assert "the endpoint refused 3 parts of a request: too many series" in caplog.text


def test_the_endpoint_gets_the_secrets_of_the_files(cluster: WithPartitions, metrics: Metrics, tmp_path: Path) -> None:
    token, headers = tmp_path / "token", tmp_path / "headers"
    token.write_text("s3cret\n")
    headers.write_text("X-Api-Key: k3y\n\n")
    with receiver() as to, exporting(cluster, metrics, table_of(to, bearer_file=token, headers_file=headers)):
        wait_for("a message", lambda: to.taken)
        assert to.taken[0].headers["Authorization"] == "Bearer s3cret"
        assert {name.lower(): value for name, value in to.taken[0].headers.items()}["x-api-key"] == "k3y"
        assert to.taken[0].headers["User-Agent"] == "txnscope"


@pytest.mark.parametrize("line", ["s3cret", "Content-Type: text/plain s3cret", "a: s3cret\x07"])
def test_a_wrong_file_of_headers_is_named_without_its_text(
    line: str, cluster: WithPartitions, metrics: Metrics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    headers = tmp_path / "headers"
    headers.write_text(f"a: b\n{line}\n")
    with receiver() as to, exporting(cluster, metrics, table_of(to, headers_file=headers)):
        wait_for("the failure", lambda: f"{headers}: line 2" in caplog.text)
        headers.write_text("a: b\n")
        wait_for("a message", lambda: to.taken)
    assert "s3cret" not in caplog.text


def test_an_endpoint_with_a_certificate_of_its_own_authority_is_trusted(
    cluster: WithPartitions, metrics: Metrics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, other = Authority(tmp_path / "one"), Authority(tmp_path / "two", "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.issue("collector"))
    with receiver(context) as to:
        with exporting(cluster, metrics, table_of(to, ca=other.certificate)):
            wait_for("the refusal", lambda: "certificate" in caplog.text)
            assert to.taken == []
        with exporting(cluster, metrics, table_of(to, ca=authority.certificate)):
            wait_for("a message", lambda: to.taken)


def test_an_endpoint_that_does_not_answer_does_not_hold_up_the_end(cluster: WithPartitions, metrics: Metrics) -> None:
    with receiver() as to:
        to.works.clear()
        exporter = Exporter(
            cluster.engine, cluster.engine, metrics, table_of(to), Identity("1", "a"), None, lambda: NOW_MS
        )
        exporter.start()
        wait_for("two requests without an answer", lambda: to.requests == 2)
        began = time.monotonic()
        exporter.stop(1.0)
        assert time.monotonic() - began < 5
        to.works.set()
        for thread in [thread for thread in threading.enumerate() if "OTLP" in thread.name]:
            thread.join(LIMIT_S)


def test_a_store_that_is_away_is_reported(cluster: WithPartitions, metrics: Metrics, tmp_path: Path) -> None:
    with receiver() as to, exporting(cluster, metrics, table_of(to)):
        wait_for("the store", lambda: to.of_store)
        (tmp_path / "store.db").rename(tmp_path / "elsewhere.db")

        def is_down() -> bool:
            return samples(to.of_store[-1].metrics)[UP.name, frozenset()] == 0

        wait_for("the report", is_down)
