"""Tests of the pipeline page, which shows whether the data behind the other pages are complete and fresh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.domain.doctor.acls import grant_of
from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind
from service.domain.reasons.unread import DESCRIBE, READ
from service.domain.transaction_log.facts import Gap, LogBatch, RangeRead, Reject
from service.store import clusters
from service.store.writers.findings import FindingWriter
from service.views import words
from service.views.cluster.description import Broker
from service.views.grants import bootstrap_of, lines_of
from service.web.cluster.pipeline import PARTITIONS_SHOWN
from tests.helpers.findings import observe
from tests.helpers.partitions import (
    WithPartitions,
    entry,
    moving_partition,
    read,
    stalled_partition,
    unanswered_partition,
)
from tests.helpers.reasons import denied
from tests.helpers.stores import DESCRIPTION, NOW_MS, Id
from tests.service.web.page_text import page_of, shows
from tests.service.web.stories import reading_for_the_first_time

PATH = "/clusters/orders/pipeline"
DENIED = denied("hr.payroll", DESCRIBE, READ)
ALL_CONFIGS = {
    name: {"value": value, "source": "broker"}
    for name, value in {
        "transactional.id.expiration.ms": "604800000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "3600000",
        "transaction.max.timeout.ms": "900000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    }.items()
}


def described(url: str, **more: Any) -> WithPartitions:
    cluster = WithPartitions(url, **more)
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION | {"configs": ALL_CONFIGS}, NOW_MS)
    return cluster


pytestmark = pytest.mark.cluster(of=described)


def test_verdicts_can_be_trusted_when_all_sources_are_current(cluster: WithPartitions) -> None:
    cluster.read([Id(b"a")])
    cluster.look(moving_partition(), moving_partition(1))
    page = page_of(cluster.url, PATH, now_ms=NOW_MS + 1_200)
    assert shows(page.texts["verdict"], "Verdicts can be trusted. ", "No source is late.", "100.0 % of 2 partitions")
    assert page.rows("unknown-") == []
    source = page.texts["source-transaction_state"]
    assert shows(source, "__transaction_state", "current", "1.2 s 0 ", "1 of 1 partition")
    assert "state, cause, timeouts, expiry" in source
    assert "2 of 2 partitions" in page.texts["source-partitions"]
    assert "nothing to read" in page.texts["source-groups"]
    assert "4 of 4 configs" in page.texts["source-configs"]
    assert "assumed" not in page.texts["configs"]
    assert "transactional.id.expiration.ms 7 d" in page.texts["configs"]
    assert "All are read to their end." in page.texts["coordinators"]


def test_each_unknown_has_the_command_that_grants_its_permission(cluster: WithPartitions) -> None:
    cluster.read([Id(b"a")])
    cluster.look(moving_partition(), *(unanswered_partition(DENIED, n, "hr.payroll") for n in range(6)))
    cluster.see(observe(Kind.COVERAGE_GAP, subject=Subject(group="hr sync"), log_partition=None))
    page = page_of(cluster.url, PATH)
    partitions, group = page.rows("unknown-")
    assert shows(page.texts["verdict"], "can be trusted", "6 partitions", "14.3 % of 7 partitions")
    assert shows(partitions, "hr.payroll-0, hr.payroll-1", "hanging, blocked, waiting groups", str(DENIED))
    assert page.texts["grant-1-1"] == (
        "kafka-acls.sh --bootstrap-server broker-1:9092 --command-config admin.properties --add"
        " --allow-principal 'User:<your principal>' --operation Read --topic hr.payroll"
    )
    assert shows(group, "consumer group", "hr sync", "no permission")
    assert page.texts["grant-2-1"].endswith("--operation Describe --group 'hr sync'")
    assert "1 denied" in page.texts["source-groups"]


def test_assumed_configs_are_marked_and_can_be_granted(tmp_path: Path) -> None:
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'store.db'}")
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)
    cluster.read([Id(b"a")])
    cluster.look(moving_partition())
    page = page_of(cluster.url, PATH)
    cluster.close()
    (configs,) = page.rows("unknown-")
    assert "assumed" in configs
    assert page.texts["grant-1-1"].endswith("--operation DescribeConfigs --cluster")
    assert "transaction.max.timeout.ms 15 m assumed" in page.texts["configs"]
    assert "transactional.id.expiration.ms 1 h transaction" in page.texts["configs"], (
        "a value that a broker reported is not marked as assumed"
    )
    assert "3 assumed" in page.texts["source-configs"]


@pytest.mark.parametrize(
    ("age_ms", "title", "state"),
    [
        (6_000, "Verdicts can be trusted", "late"),
        (45_000, "Verdicts are the last known ones: data is 45 s old", "old: last known"),
        (180_000, "No verdict can be trusted: nothing new for 3 m", "stopped: unknown"),
    ],
)
def test_an_old_source_weakens_the_verdict(cluster: WithPartitions, age_ms: int, title: str, state: str) -> None:
    """The verdict depends on the transaction log and on the data partitions, so one old source is enough to weaken the
    verdict."""
    cluster.look(moving_partition())
    cluster.read([Id(b"a")], now_ms=NOW_MS + age_ms)
    page = page_of(cluster.url, PATH, now_ms=NOW_MS + age_ms)
    assert page.texts["verdict"].startswith(title)
    assert state in page.texts["source-partitions"]
    assert " current " in page.texts["source-transaction_state"]
    if state == "late":
        assert "Data partitions: late." in page.texts["verdict"]
        return
    facts = ("the data partitions", f"14:13:50 ({words.duration(age_ms)})", "no streaming application")
    assert shows(page.texts["verdict"], *facts)
    assert "could be judged then" in page.texts["verdict"]
    assert shows(page.texts["source-partitions"], "14:13:50", "no streaming application")


def test_a_failing_source_shows_its_error(cluster: WithPartitions) -> None:
    cluster.read([Id(b"a")])
    cluster.look(moving_partition())
    cluster.read(trouble="broker 2 does not answer")
    page = page_of(cluster.url, PATH)
    assert "failing broker 2 does not answer" in page.texts["source-transaction_state"]
    (row,) = page.rows("unknown-")
    assert shows(row, "source transaction_state", "state, cause, timeouts, expiry, blockers", "broker 2 does not")


def test_nothing_can_be_judged_before_the_first_read(cluster: WithPartitions) -> None:
    page = page_of(cluster.url, PATH)
    assert page.texts["verdict"].startswith("Nothing can be judged yet")
    assert "never read never unknown" in page.texts["source-partitions"]
    assert "not read yet never" in page.texts["source-groups"]


def test_nothing_can_be_judged_during_the_first_read_of_the_log(tmp_path: Path) -> None:
    cluster = reading_for_the_first_time(f"sqlite:///{tmp_path / 'store.db'}", Id(b"a"))
    page = page_of(cluster.url, PATH)
    cluster.close()
    assert shows(page.texts["verdict"], "Nothing can be judged yet", "25 %")
    assert page.texts["cell-0"] == "0 lag 3"


def test_coordinators_are_shown_as_cells_and_as_a_table(url: str) -> None:
    cluster = described(url, partitions=4)
    for number in range(3):
        cluster.read([Id(b"a%d" % number)], partition=number, behind=240 if number == 1 else 0)
    cluster.look(moving_partition())
    reject = Reject(2, 0, 1, "unknown_version", b"billing", b"k", b"v" * 90)
    span = RangeRead(2, "T", 0, 1, 2, 1, 5, 0, 2, NOW_MS, 1, 100, None)
    cluster.writer.apply(LogBatch((span,), (), (reject,), None, (), ()), NOW_MS)
    page = page_of(cluster.url, PATH)
    cluster.close()
    cells = [page.texts[f"cell-{number}"] for number in range(4)]
    assert cells == ["0 b1", "1 lag 240", "2 1 raw", "3 not read"]
    assert shows(page.texts["coordinators"], "1 (lag 240)", "2 (1 raw)", "3 (not read)")
    assert page.texts["coordinator-1"].startswith("1 1 1 0 1 241 240 0.0 s ago")
    assert "__transaction_state-2@1 unknown version, 91 B kept" in page.texts["rejects"]


def test_gaps_are_shown_with_their_offsets_and_reason(cluster: WithPartitions) -> None:
    cluster.read([Id(b"a")], gap=Gap(0, 4_210, "retention"))
    cluster.look(moving_partition())
    page = page_of(cluster.url, PATH)
    reported = page.texts["rejects"].replace("\N{EN DASH}", " ")
    assert shows(
        reported, "0 rejects, 1 gap", "__transaction_state-0@0 4,210", "the records were deleted before they were"
    )
    assert len(page.rows("unknown-")) == 1


def test_thousands_of_reasons_are_not_all_listed(cluster: WithPartitions) -> None:
    cluster.read()
    over = PARTITIONS_SHOWN + 5
    cluster.look(*(fact for n in range(over) for fact in (stalled_partition(n), read(entry(n), partition=n))))
    page = page_of(cluster.url, PATH)
    assert len(page.rows("unknown-")) == PARTITIONS_SHOWN
    assert "5 more partitions" in page.texts["unknown"]
    assert "three confirmation steps" in page.rows("unknown-")[0]


def test_conditions_without_a_finding_are_listed_among_thousands_of_partitions(cluster: WithPartitions) -> None:
    cluster.read()
    over = PARTITIONS_SHOWN + 5
    cluster.look(*(fact for n in range(over) for fact in (stalled_partition(n), read(entry(n), partition=n))))
    FindingWriter(cluster.engine, cluster.lease).save_truncated({Kind.OVERDUE: 7})
    rows = page_of(cluster.url, PATH).rows("unknown-")
    assert len(rows) == PARTITIONS_SHOWN + 1
    assert shows(
        rows[-1], "7 overdue_transaction", "findings about them", "got no finding", "when there are fewer of them"
    )


def test_commands_appear_only_where_a_permission_can_be_granted() -> None:
    assert lines_of(grant_of(denied("t")), None) == []
    assert lines_of(None, "b:9092") == []
    (line,) = lines_of(grant_of(denied("t", DESCRIBE)), "b:9092")
    assert line.endswith("--operation Describe --topic t")
    assert bootstrap_of([]) is None
    assert bootstrap_of([Broker(id=1, host="::1", port=9, release=None)]) == "[::1]:9"
