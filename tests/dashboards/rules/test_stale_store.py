"""Tests that KafkaTxnPipelineStale fires on the metrics of a real service whenever nothing new is read, whatever the
reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as parse

from dashboards.rules.build import RULES
from dashboards.rules.pipeline import STALE_NAME
from service.domain.reasons.unread import ErrorText
from service.domain.transaction_log.facts import LogBatch
from service.metrics.page import Metrics
from service.store import lease
from service.store.engine import open_reader
from tests.dashboards.rules.files import FOLDER, run
from tests.helpers.partitions import WithPartitions, moving_partition
from tests.helpers.stores import NOW_MS

MINUTE_MS: Final = 60_000
MINUTES: Final = 6
FIRES_AT: Final = 3
"""Minutes from the last read until the alert fires. Data are stale after 30 s, the alert waits for 2 more minutes, and
the rule is evaluated once a minute."""

ERROR: Final = "no broker of kafka:9092 answers"
METRICS: Final = ("kafka_txn_pipeline_last_success_timestamp_seconds", "kafka_txn_source_coverage_ratio")
BOTH: Final = frozenset({"partitions", "transaction_state"})
Series = dict[tuple[str, str], list[float]]
Minute = Callable[[WithPartitions, int], None]


def _dies(cluster: WithPartitions, at_ms: int) -> None:
    """Acts as a driver or a JVM that has died: nothing is written any more."""


def _is_stopped(cluster: WithPartitions, at_ms: int) -> None:
    lease.release(cluster.engine, cluster.lease)


def _renews_only(cluster: WithPartitions, at_ms: int) -> None:
    """Acts as an application that is stuck or starved without being noticed: the lease is renewed, but nothing is
    read."""
    lease.renew(cluster.engine, cluster.lease, at_ms)


def _fails(cluster: WithPartitions, at_ms: int) -> None:
    lease.renew(cluster.engine, cluster.lease, at_ms)
    cluster.writer.apply(_nothing(ERROR), at_ms)


def _log_stalls(cluster: WithPartitions, at_ms: int) -> None:
    cluster.look(at_ms=at_ms, is_full=False)


def _partitions_stall(cluster: WithPartitions, at_ms: int) -> None:
    cluster.read(now_ms=at_ms)


def _reads(cluster: WithPartitions, at_ms: int) -> None:
    cluster.read(now_ms=at_ms)
    cluster.look(moving_partition(at_ms=at_ms), at_ms=at_ms)


def _nothing(trouble: str) -> LogBatch:
    return LogBatch((), (), (), ErrorText(trouble), (), ())


def stored(cluster: WithPartitions) -> None:
    _reads(cluster, NOW_MS)
    lease.renew(cluster.engine, cluster.lease, NOW_MS)


pytestmark = pytest.mark.cluster(stored=stored)


@pytest.mark.parametrize(
    ("minute", "stale"),
    [
        (_dies, BOTH),
        (_is_stopped, BOTH),
        (_renews_only, BOTH),
        (_fails, BOTH),
        (_log_stalls, {"transaction_state"}),
        (_partitions_stall, {"partitions"}),
        (_reads, frozenset()),
    ],
)
def test_the_alert_fires_for_each_source_that_is_not_read(
    cluster: WithPartitions, tmp_path: Path, minute: Minute, stale: frozenset[str]
) -> None:
    series = scraped(cluster, minute)
    assert firing(series, tmp_path, FIRES_AT - 1) == set()
    assert firing(series, tmp_path, FIRES_AT) == stale


def test_metrics_of_a_store_that_nobody_writes_are_old_with_no_coverage(cluster: WithPartitions) -> None:
    reader = open_reader(cluster.url)
    found = exported(Metrics(reader), NOW_MS + 2 * MINUTE_MS + 1)
    reader.dispose()
    assert found == {(METRICS[0], source): NOW_MS / 1000 for source in BOTH} | {
        (METRICS[1], source): 0 for source in BOTH
    }


def scraped(cluster: WithPartitions, minute: Minute) -> Series:
    """Returns the series of MINUTES scrapes, one a minute, beginning at the time of the last read. Calls `minute`
    before each scrape except the first."""
    series: Series = {}
    reader = open_reader(cluster.url)
    metrics = Metrics(reader)
    for number in range(MINUTES):
        now_ms = NOW_MS + number * MINUTE_MS
        if number:
            minute(cluster, now_ms)
        for (name, source), value in exported(metrics, now_ms).items():
            # the clock of promtool begins at 0, which means "never read", so the last read is at 1 minute
            shown = value - NOW_MS / 1000 + 60 if name == METRICS[0] else value
            series.setdefault((name, source), []).append(round(shown, 3))
    reader.dispose()
    return series


def firing(series: Series, folder: Path, after: int) -> set[str]:
    """Returns the sources for which promtool reports a firing alert, `after` minutes after the last read."""
    return {source for source in BOTH if not _is_silent(series, folder, source, after)}


def _is_silent(series: Series, folder: Path, source: str, after: int) -> bool:
    given = [
        {
            "series": f'{name}{{cluster="orders",source="{source}"}}',
            "values": "_ " + " ".join(str(value) for value in series[name, source]),
        }
        for name in METRICS
    ]
    expects = [{"eval_time": f"{after + 1}m", "alertname": STALE_NAME, "exp_alerts": []}]
    path = folder / "stale.test.yml"
    tests = [{"interval": "1m", "input_series": given, "alert_rule_test": expects}]
    document = {"rule_files": [str(FOLDER / RULES)], "evaluation_interval": "1m", "tests": tests}
    path.write_text(yaml.safe_dump(document), "utf-8")
    done = run("promtool", "test", "rules", path)
    reported = done.stdout + done.stderr
    assert done.returncode == 0 or f'alertname="{STALE_NAME}"' in reported, reported
    return done.returncode == 0


def exported(metrics: Metrics, now_ms: int) -> dict[tuple[str, str], float]:
    body, _ = metrics.render("", "", now_ms)
    return {
        (sample.name, sample.labels["source"]): sample.value
        for family in parse(body.decode())
        for sample in family.samples
        if sample.name in METRICS
    }
