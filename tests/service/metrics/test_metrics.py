"""Tests of /metrics over a real store. The tests read the page of metrics with Prometheus' own parsers."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from sqlalchemy import Engine, event, insert

from service.access.actions import Action, Outcome
from service.domain.application_rules import Assigned
from service.domain.findings.kinds import Kind
from service.domain.partitions.facts import PartitionsBatch
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogBatch, Reject
from service.domain.transaction_log.states import TOPIC
from service.metrics.catalogue import OF_CLUSTERS
from service.metrics.page import KEPT_MS, Metrics
from service.store import clusters, lease, progress, schema
from service.store.audit_events import AuditEvent
from service.store.engine import open_engine, open_reader
from service.store.finding_marks import Wish, set_mute
from service.store.queries.findings import longest_open
from service.store.writers.applications import ApplicationWriter
from service.store.writers.history import count_detection, count_ends_of_applications
from service.store.writers.transaction_log import TransactionLogWriter
from tests.helpers.many_rows import open_ids, stalled
from tests.helpers.migrated import migrated
from tests.helpers.partitions import WithPartitions, hanging_finding, moving_partition, unanswered_partition
from tests.helpers.stores import NOW_MS as SEEN_MS
from tests.service.store.logs import NOW_MS, batch, entry, read, transaction

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = migrated(open_engine(url))
    yield engine
    engine.dispose()


@pytest.fixture
def reader(url: str, engine: Engine) -> Iterator[Engine]:
    reader = open_reader(url)
    yield reader
    reader.dispose()


@pytest.fixture
def metrics(reader: Engine) -> Metrics:
    return Metrics(reader)


@pytest.fixture
def shown(cluster: WithPartitions) -> Iterator[Callable[[int], Samples]]:
    """Yields a function that returns the metrics at SEEN_MS plus `later_ms`. Each call reads the store."""
    reader = open_reader(cluster.url)
    yield lambda later_ms: page(Metrics(reader), SEEN_MS + later_ms)
    reader.dispose()


def bind(engine: Engine, name: str = "orders") -> TransactionLogWriter:
    """Creates a cluster whose transaction log has two partitions, and returns a writer for the log. No record of the
    log was read yet."""
    number = clusters.bind(engine, name, f"kafka-{name}", NOW_MS)
    held = lease.acquire(engine, number, "driver", NOW_MS)
    assert held is not None
    starts = [progress.PartitionStart(partition, "T", 1, 0, 0, 0) for partition in (0, 1)]
    progress.start_positions(engine, held, SourceName.TRANSACTION_LOG, TOPIC, starts, NOW_MS)
    return TransactionLogWriter(engine, held)


def page(metrics: Metrics, now_ms: int = NOW_MS) -> Samples:
    body, headers = metrics.render("", "", now_ms)
    assert headers["Content-Type"] == TEXT
    return samples(parse_text(body.decode()))


def samples(families: Any) -> Samples:
    found: Samples = {}
    for family in families:
        assert family.documentation, family.name
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


def of_the_store(found: Samples) -> Samples:
    return {key: value for key, value in found.items() if dict(key[1]).get("cluster")}


def one(found: Samples, name: str, **labels: str) -> float:
    return found[f"kafka_txn_{name}", tuple(sorted({"cluster": "orders", **labels}.items()))]


def by(found: Samples, name: str, label: str, **where: str) -> dict[str, float]:
    """Returns the values of the metric `name` whose labels have the values `where`, keyed by the value of `label`."""
    return {
        dict(labels)[label]: value
        for (found_name, labels), value in found.items()
        if found_name == name and where.items() <= dict(labels).items()
    }


def test_the_transaction_log_gives_metrics(engine: Engine, metrics: Metrics) -> None:
    writer = bind(engine)
    spoilt = Reject(1, 0, 4, "bad_crc", None, None, b"\0")
    writer.apply(
        batch(
            [
                *transaction(0, b"pay", start_ms=1_000),
                entry(3, states.ONGOING, b"ship", start_ms=NOW_MS - 5_000, pid=8),
            ],
            read(0, 4, end=10),
            batch(
                [
                    entry(0, states.ONGOING, b"bill", start_ms=2_000, pid=9),
                    entry(1, states.PREPARE_ABORT, b"bill", start_ms=2_000, pid=9),
                    entry(2, states.COMPLETE_ABORT, b"bill", start_ms=2_000, pid=9),
                    entry(3, states.EXPIRED, b"bill"),
                ],
                read(0, 5, partition=1),
                rejects=[spoilt],
            ),
        ),
        NOW_MS,
    )
    found = page(metrics)
    assert one(found, "transactions", state="Ongoing") == 1
    assert one(found, "transactions", state="CompleteCommit") == 1
    assert one(found, "transactional_ids") == 2
    assert by(found, "kafka_txn_completed_total", "outcome") == {"commit": 1, "abort": 1}
    assert one(found, "aborts_total", cause="client") == 1
    assert one(found, "transactional_ids_expired_total") == 1
    assert one(found, "producer_ids_assigned_total") == 3
    assert one(found, "oldest_state_entry_timestamp_seconds", state="Ongoing") == (NOW_MS - 5_000) / 1000
    assert by(found, "kafka_txn_top_open_start_timestamp_seconds", "transactional_id") == {
        "ship": (NOW_MS - 5_000) / 1000
    }
    assert by(found, "kafka_txn_coordinator_ids", "coordinator_partition") == {"0": 2, "1": 0}
    assert by(found, "kafka_txn_coordinator_open", "coordinator_partition") == {"0": 1, "1": 0}
    assert by(found, "kafka_txn_coordinator_log_lag_records", "coordinator_partition") == {"0": 6, "1": 0}
    assert one(found, "pipeline_last_success_timestamp_seconds", source=SourceName.TRANSACTION_LOG) == NOW_MS / 1000
    assert one(found, "pipeline_lag_records", source=SourceName.TRANSACTION_LOG) == 6
    assert one(found, "pipeline_records_total", source=SourceName.TRANSACTION_LOG) == 9
    assert one(found, "pipeline_bytes_total", source=SourceName.TRANSACTION_LOG) == 900
    assert one(found, "decode_errors_total", source=SourceName.TRANSACTION_LOG, reason="bad_crc") == 1
    assert one(found, "source_coverage_ratio", source=SourceName.TRANSACTION_LOG) == 1
    assert found["kafka_txn_exporter_up", ()] == 1


def test_the_cluster_id_and_features_are_labels(engine: Engine, metrics: Metrics) -> None:
    bind(engine)
    clusters.describe(engine, 1, {"features": {"transaction.version": 2, "metadata.version": 30}}, NOW_MS)
    found = page(metrics)
    assert (
        one(found, "cluster_info", kafka_cluster_id="kafka-orders", transaction_version="2", metadata_version="30") == 1
    )


def test_the_holder_of_the_lease_is_a_label(engine: Engine, metrics: Metrics) -> None:
    clusters.bind(engine, "nobody's", "abc", NOW_MS)
    number = clusters.bind(engine, "orders", "kafka-orders", NOW_MS)
    held = lease.acquire(engine, number, "host-a:7:912345:0123456789ab", NOW_MS)
    assert held is not None
    later_ms = NOW_MS + 3_600_000
    assert by(page(metrics, later_ms), "kafka_txn_lease_held", "instance") == {"host-a:7": 1}
    lease.release(engine, held)
    assert by(page(metrics, later_ms + 60_000), "kafka_txn_lease_held", "instance") == {"host-a:7": 0}


def test_known_label_values_have_series_at_0_before_any_event(engine: Engine, metrics: Metrics) -> None:
    """`increase()` would miss the first event if its series did not start at 0."""
    bind(engine)
    found = page(metrics)
    kafkas_words = {"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Unknown"}
    assert by(found, "kafka_txn_transactions", "state") == dict.fromkeys(kafkas_words, 0)
    causes = {"client", "timeout", "fenced", "admin", "unattributed"}
    assert by(found, "kafka_txn_aborts_total", "cause") == dict.fromkeys(causes, 0)
    assert by(found, "kafka_txn_completed_total", "outcome") == {"commit": 0, "abort": 0}
    reasons = by(found, "kafka_txn_decode_errors_total", "reason")
    assert {"bad_crc", "unknown_key_version", "unknown_value_version", "malformed_value"} < reasons.keys()
    assert set(reasons.values()) == {0}
    open_states = {"Ongoing", "PrepareCommit", "PrepareAbort"}
    assert by(found, "kafka_txn_oldest_state_entry_timestamp_seconds", "state") == dict.fromkeys(open_states, 0)
    assert one(found, "pipeline_last_success_timestamp_seconds", source=SourceName.TRANSACTION_LOG) == 0
    assert one(found, "series_dropped") == 0


def test_partitions_that_are_no_longer_read_lower_the_coverage(engine: Engine, metrics: Metrics) -> None:
    writer = bind(engine)
    later = NOW_MS + 60_000
    writer.apply(batch([], read(0, 0, asked_at_ms=later)), later)
    assert one(page(metrics, later), "source_coverage_ratio", source=SourceName.TRANSACTION_LOG) == 0.5


@pytest.mark.cluster(partitions=0)
def test_a_cluster_that_has_no_partitions_yet_is_covered_while_it_answers(
    cluster: WithPartitions, shown: Callable[[int], Samples]
) -> None:
    cluster.read_no_log()
    cluster.look()
    now, later = shown(10_000), shown(31_000)
    for source in (SourceName.TRANSACTION_LOG, "partitions"):
        assert one(now, "source_coverage_ratio", source=source) == 1
        assert one(now, "pipeline_last_success_timestamp_seconds", source=source) > 0
        assert one(later, "source_coverage_ratio", source=source) == 0


def test_every_family_has_its_help_before_there_is_a_cluster(engine: Engine, metrics: Metrics) -> None:
    text = metrics.render("", "", NOW_MS)[0].decode()
    for metric in OF_CLUSTERS:
        assert f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n" in text
    assert "\nprocess_resident_memory_bytes " in text
    assert "_created" not in text


def test_a_missing_store_leaves_the_metrics_of_the_process(url: str) -> None:
    """If the store has no tables, as before the first migration, only the metrics of the store are missing on the
    page."""
    open_engine(url).connect().close()
    reader = open_reader(url)
    found = page(Metrics(reader))
    reader.dispose()
    assert found["kafka_txn_exporter_up", ()] == 0
    assert found["process_start_time_seconds", ()] > 0
    assert not of_the_store(found)


@pytest.mark.parametrize("revision", ["0016", "future"])
def test_a_store_of_another_revision_is_not_read(engine: Engine, metrics: Metrics, revision: str) -> None:
    """This version does not read a store whose `readable_since` is a revision that it does not know, because a column
    may have another meaning there. REST refuses such a store as well."""
    bind(engine)
    assert page(metrics)["kafka_txn_exporter_up", ()] == 1
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
        connection.exec_driver_sql(f"UPDATE readable_since SET revision = '{revision}'")
    found = page(metrics, NOW_MS + 2_000)
    assert found["kafka_txn_exporter_up", ()] == 0
    assert not of_the_store(found)


def test_the_accept_header_determines_the_format(engine: Engine, metrics: Metrics) -> None:
    bind(engine)
    prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    body, headers = metrics.render(prometheus, "", NOW_MS)
    assert headers["Content-Type"] == OPENMETRICS
    assert body.endswith(b"# EOF\n")
    families = openmetrics.text_string_to_metric_families(body.decode())  # type: ignore[no-untyped-call]
    assert of_the_store(samples(families)) == of_the_store(page(metrics))
    for accept in ("", "*/*", "text/html,application/xhtml+xml", "text/plain;version=0.0.4"):
        assert metrics.render(accept, "", NOW_MS)[1]["Content-Type"] == TEXT


@pytest.mark.parametrize(
    ("accept_encoding", "zipped"),
    [
        ("gzip, deflate", True),
        ("br;q=1.0, gzip;q=0.5", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("*;q=0, gzip", True),
        ("*", True),
        ("*, gzip;q=0", False),
    ],
)
def test_gzip_is_used_when_the_client_accepts_it(
    engine: Engine, metrics: Metrics, accept_encoding: str, zipped: bool
) -> None:
    plain, _ = metrics.render("", "", NOW_MS)
    body, headers = metrics.render("", accept_encoding, NOW_MS)
    assert (headers.get("Content-Encoding") == "gzip") == zipped
    assert (gzip.decompress(body) if zipped else body) == plain
    assert headers["Vary"] == "Accept, Accept-Encoding"


def test_an_id_of_any_characters_is_a_label(engine: Engine, metrics: Metrics) -> None:
    writer = bind(engine)
    name = b'a "b" \\ {c="d"}\n\xff'
    writer.apply(batch([entry(0, states.ONGOING, name, start_ms=NOW_MS - 123)], read(0, 1)), NOW_MS)
    found = by(page(metrics), "kafka_txn_top_open_start_timestamp_seconds", "transactional_id")
    assert found == {'a "b" \\ {c="d"}\\u{a}\\x{ff}': NOW_MS // 1_000}


def test_of_20000_open_ids_the_oldest_20_are_named(engine: Engine, metrics: Metrics) -> None:
    bind(engine)
    open_ids(engine, 20_000)
    found = page(metrics)
    assert len(found) < 250
    oldest = by(found, "kafka_txn_top_open_start_timestamp_seconds", "transactional_id")
    assert sorted(oldest) == [f"id-{n:05d}" for n in range(19_980, 20_000)]


def test_the_cap_keeps_the_worst_series_and_counts_the_others(
    engine: Engine, reader: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind(engine, "orders")
    bind(engine, "other")
    template = {
        "cluster_id": 1,
        "source": SourceName.TRANSACTION_LOG,
        "topic": TOPIC,
        "topic_id": "T",
        "transitions_per_s": 0.0,
    }
    zeros = dict.fromkeys((c.name for c in schema.log_partitions.c if c.name not in template), 0)
    rows = [template | zeros | {"partition": n, "end_offset": n} for n in range(2, 500)]
    with engine.begin() as connection:
        connection.execute(insert(schema.log_partitions), rows)
    monkeypatch.setattr("service.metrics.page.SERIES_LIMIT", 460)
    found = page(Metrics(reader))
    ours = list(of_the_store(found))
    assert len(ours) == 460
    lags = by(found, "kafka_txn_coordinator_log_lag_records", "coordinator_partition")
    assert min(lags.values()) == 0  # the other cluster has few rows, and keeps all of them
    kept = sorted(int(partition) for partition, lag in lags.items() if lag)
    assert kept == list(range(500 - len(kept), 500))
    assert found["kafka_txn_series_dropped", (("cluster", "other"),)] == 0
    series = [key for key in ours if key[0].startswith("kafka_txn_coordinator_") and key[1][0][1] == "orders"]
    assert one(found, "series_dropped") == 1500 - len(series)


def test_an_application_has_series_for_every_state_and_cause(engine: Engine, metrics: Metrics) -> None:
    writer = bind(engine)
    log = [*transaction(0, b"pay", start_ms=1_000), entry(3, states.ONGOING, b"pay-2", start_ms=NOW_MS - 9_000, pid=8)]
    writer.apply(batch(log, read(0, len(log))), NOW_MS)
    assign(engine, {b"pay": Assigned("shop"), b"pay-2": Assigned("shop")})
    found = page(metrics)
    states_now = by(found, "kafka_txn_application_transactions", "state", application="shop")
    assert states_now == dict.fromkeys(by(found, "kafka_txn_transactions", "state"), 0) | {
        "CompleteCommit": 1,
        "Ongoing": 1,
    }
    ended = by(found, "kafka_txn_application_completed_total", "cause", application="shop", outcome="abort")
    assert ended == dict.fromkeys(("client", "timeout", "fenced", "admin", "unattributed"), 0)
    assert one(found, "application_completed_total", application="shop", outcome="commit", cause="commit") == 1
    assert one(found, "application_oldest_open_timestamp_seconds", application="shop") == (NOW_MS - 9_000) / 1000


def test_of_60_applications_the_worst_50_have_series(engine: Engine, metrics: Metrics) -> None:
    writer = bind(engine)
    log = [entry(n, states.EMPTY, b"id-%02d" % n, pid=n) for n in range(60)]
    writer.apply(batch(log, read(0, len(log))), NOW_MS)
    assign(engine, {b"id-%02d" % n: Assigned(f"app-{n:02d}") for n in range(60)})
    failures = {(f"app-{n:02d}", "aborts_timeout"): n for n in range(60)}
    with engine.begin() as connection:
        count_ends_of_applications(connection, 1, failures, NOW_MS)
    found = page(metrics)
    named = by(found, "kafka_txn_application_oldest_open_timestamp_seconds", "application")
    assert sorted(named) == [f"app-{n:02d}" for n in range(10, 60)]
    of_one = [key for key in of_the_store(found) if ("application", "app-59") in key[1]]
    assert one(found, "series_dropped") == 10 * len(of_one)


def assign(engine: Engine, assigned: dict[bytes, Assigned]) -> None:
    held = lease.acquire(engine, 1, "driver", NOW_MS)
    assert held is not None
    ApplicationWriter(engine, held).assign(assigned, NOW_MS)


def test_the_store_is_read_once_a_second_for_all_requests(engine: Engine, reader: Engine, metrics: Metrics) -> None:
    bind(engine)
    reads: list[str] = []
    event.listen(reader, "begin", lambda _: reads.append("read"))
    asking = [threading.Thread(target=metrics.render, args=("", "gzip", NOW_MS + n)) for n in range(20)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(reads) == 1
    metrics.render("", "", NOW_MS + 19 + KEPT_MS)
    assert len(reads) == 2


def test_of_10000_lagging_partitions_the_worst_are_shown(engine: Engine, metrics: Metrics) -> None:
    bind(engine)
    stalled(engine, 10_000)
    found = page(metrics)
    assert len(of_the_store(found)) == 2_000
    lags = by(found, "kafka_txn_partition_lso_lag_records", "partition")
    assert set(lags) == {str(n) for n in range(10_000 - len(lags) + 1, 10_001)}
    assert one(found, "partition_last_stable_offset", topic="t0", partition="10000") == 100
    assert one(found, "partition_high_watermark", topic="t0", partition="10000") == 10_100
    assert lags["10000"] == 10_000
    since = one(found, "partition_lso_last_advance_timestamp_seconds", topic="t0", partition="10000")
    assert since == NOW_MS / 1000 - 10_000
    shown = sum(name.startswith("kafka_txn_partition_") for name, _ in found)
    assert one(found, "series_dropped") == 40_000 - shown - (6 - sum("coordinator_" in name for name, _ in found))
    assert one(found, "partitions_blocked") == 10_000
    assert by(found, "kafka_txn_partitions", "judged") == {"yes": 0, "no": 10_000}


def test_partitions_that_answer_are_judged_as_long_as_they_are_sampled(
    cluster: WithPartitions, shown: Callable[[int], Samples]
) -> None:
    cluster.look(
        *(moving_partition(n) for n in range(3)), unanswered_partition("no leader", 3), trouble="1 does not answer"
    )
    fresh, stale = shown(10_000), shown(31_000)
    assert by(fresh, "kafka_txn_partitions", "judged") == {"yes": 3, "no": 1}
    assert one(fresh, "source_coverage_ratio", source="partitions") == 0.75
    assert one(fresh, "pipeline_last_success_timestamp_seconds", source="partitions") == 0, (
        "one partition does not answer"
    )
    assert by(stale, "kafka_txn_partitions", "judged") == {"yes": 0, "no": 4}
    assert one(stale, "source_coverage_ratio", source="partitions") == 0
    cluster.look(moving_partition(3, at_ms=SEEN_MS + 1), at_ms=SEEN_MS + 1)
    well = shown(1)
    assert one(well, "pipeline_last_success_timestamp_seconds", source="partitions") == (SEEN_MS + 1) / 1000
    assert by(well, "kafka_txn_partitions_blocked", "cluster") == {"orders": 0}


def test_the_50_transactions_that_hang_longest_are_named(
    cluster: WithPartitions, shown: Callable[[int], Samples]
) -> None:
    assert one(shown(0), "hanging_transactions") == 0
    seen = [hanging_finding(0, name=b'p"\xff', owner="team-a")]
    cluster.see(*seen)
    cluster.see(
        *seen,
        *(hanging_finding(n, name=None) for n in range(1, 60)),
        hanging_finding(60, confirmed=False),
        now_ms=SEEN_MS + 1,
    )
    found = shown(1)
    assert one(found, "hanging_transactions") == 60
    infos = [dict(labels) for name, labels in found if name == "kafka_txn_hanging_info"]
    assert len(infos) == 50
    (longest,) = (info for info in infos if info["partition"] == "0")
    assert longest.pop("finding").isalnum()
    assert longest == {
        "cluster": "orders",
        "topic": "orders",
        "partition": "0",
        "transactional_id": 'p"\\x{ff}',
        "owner": "team-a",
    }


def test_a_mute_shows_until_its_end(cluster: WithPartitions, shown: Callable[[int], Samples]) -> None:
    """A rule mutes the finding on partition 0, and an operator mutes the one on partition 1."""
    cluster.see(
        *(hanging_finding(n, muted_until_ms=until) for n, until in ((0, SEEN_MS + 5_000), (1, None), (2, None)))
    )
    with cluster.engine.begin() as connection:
        by_partition = {
            finding.subject.partition: finding.id for finding in longest_open(connection, cluster.id, Kind.HANGING, 3)
        }
        wish = Wish(by_partition[1], None, None, SEEN_MS + 9_000, "known")
        set_mute(connection, cluster.id, wish, AuditEvent(SEEN_MS, Action.MUTE, Outcome.SET, "ann"))
    first, rule_is_over, all_is_over = (
        by(shown(later_ms), "kafka_txn_hanging_muted_until_timestamp_seconds", "finding")
        for later_ms in (1_000, 5_000, 9_000)
    )
    assert first == {by_partition[0]: SEEN_MS / 1000 + 5, by_partition[1]: SEEN_MS / 1000 + 9}
    assert rule_is_over == {by_partition[1]: SEEN_MS / 1000 + 9}
    assert all_is_over == {}


def test_the_time_to_detection_is_a_histogram(engine: Engine, metrics: Metrics) -> None:
    bind(engine)
    assert one(page(metrics), "detection_seconds_count") == 0
    with engine.begin() as connection:
        for took_ms in (900, 1_000, 2_600):
            count_detection(connection, 1, NOW_MS - took_ms, NOW_MS)
    found = page(Metrics(engine))
    assert one(found, "detection_seconds_count") == 3
    assert one(found, "detection_seconds_sum") == 4.5
    buckets = by(found, "kafka_txn_detection_seconds_bucket", "le")
    assert (buckets["0.5"], buckets["1.0"], buckets["2.0"], buckets["3.0"]) == (0, 2, 2, 3)


def test_the_duration_of_batches_is_a_histogram(engine: Engine, metrics: Metrics) -> None:
    cluster = WithPartitions(str(engine.url))
    assert one(page(metrics), "pipeline_batch_duration_seconds_count", source="partitions") == 0
    cluster.partitions.apply(PartitionsBatch(NOW_MS, (moving_partition(),), ()), NOW_MS)
    for took_ms in (40, 300, 2_000):
        cluster.partitions.apply(PartitionsBatch(NOW_MS, (moving_partition(),), ()), NOW_MS, took_ms)
    cluster.writer.apply(LogBatch((), (), ()), NOW_MS, 70)
    cluster.close()
    found = page(Metrics(engine))
    name = "pipeline_batch_duration_seconds"
    assert one(found, f"{name}_count", source="partitions") == 3
    assert one(found, f"{name}_sum", source="partitions") == 2.34
    within = {le: one(found, f"{name}_bucket", source="partitions", le=le) for le in ("0.05", "0.25", "0.5", "2.5")}
    assert within == {"0.05": 1, "0.25": 1, "0.5": 2, "2.5": 3}
    assert one(found, f"{name}_sum", source=SourceName.TRANSACTION_LOG) == 0.07
