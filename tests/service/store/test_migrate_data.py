"""Stores of earlier versions come to head with all they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic import command
from sqlalchemy import Engine, inspect

from service.domain.findings.finding import Finding, Observation, Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.lifecycle import RoundResult, reconcile
from service.domain.reasons.decided import Contradiction
from service.domain.reasons.hanging import HangCause, HangReason
from service.domain.reasons.unread import DESCRIBE, READ, ErrorText, NoPermission
from service.domain.worlds.verdict import Decided
from service.store import clusters, lease
from service.store.engine import open_engine
from service.store.migrate import config, upgrade
from service.store.queries import clusters as read_clusters
from service.store.queries import partitions
from service.store.writers.findings import FindingWriter, load
from tests.service.store.logs import NOW_MS

_OLD = """INSERT INTO findings (cluster_id, id, kind, severity, status, confidence, transactional_id, opened_at_ms,
 confirmed_at_ms, last_seen_ms, count, reopened, summary, advice, evidence, counted_to) VALUES
 (1, 'f1', 'overdue_transaction', 'warning', 'confirmed', 'certain', {id}, {at}, {at}, {at}, 1, {false}, 'late', 'wait',
 '[[5, "log", "fact"]]', -1)"""


@pytest.fixture
def at_0003(empty_url: str) -> Iterator[Engine]:
    """With a cluster, and a finding of an earlier version."""
    engine = open_engine(empty_url)
    with engine.begin() as connection:
        command.upgrade(config(connection), "0003")
    assert clusters.bind(engine, "orders", "kafka", NOW_MS) == 1
    is_sqlite = engine.dialect.name == "sqlite"
    values = {"id": "X'706179'" if is_sqlite else "'\\x706179'", "at": NOW_MS, "false": "0" if is_sqlite else "false"}
    with engine.begin() as connection:
        connection.exec_driver_sql(_OLD.format(**values).replace("%", "%%"))
    yield engine
    engine.dispose()


def stored(engine: Engine) -> list[Finding]:
    with engine.connect() as connection:
        return list(load(connection, 1, NOW_MS).values())


def test_a_finding_of_an_earlier_version_is_read_and_goes_on(at_0003: Engine) -> None:
    upgrade(at_0003)
    (old,) = stored(at_0003)
    assert (old.id, old.subject.transactional_id, old.evidence[0].text) == ("f1", b"pay", "fact")
    assert (old.decision, old.command, old.blocked_groups) == (None, None, ())
    seen = Observation(Kind.OVERDUE, Severity.WARNING, Subject(transactional_id=b"pay"), "late", "wait", ())
    seen = seen._replace(
        blocked_groups=("readers", "billing"), decision=Decided.ABORT, command="kafka-transactions.sh abort"
    )
    changes = reconcile({(old.kind, old.subject): old}, RoundResult((seen,), frozenset()), NOW_MS, "kafka")
    held = lease.acquire(at_0003, 1, "driver", NOW_MS)
    assert held is not None
    FindingWriter(at_0003, held).save(changes, NOW_MS)
    (new,) = stored(at_0003)
    assert (new.id, new.decision, new.command) == ("f1", "abort", "kafka-transactions.sh abort")
    assert new.blocked_groups == ("readers", "billing")


_DENIED = "no permission on topic vault: grant DESCRIBE and READ on it"
_PARTITION = """INSERT INTO data_partitions (cluster_id, topic, partition, topic_id, leader, leader_epoch, log_start,
 last_stable_offset, high_watermark, looked_at_ms, stalled_since_ms, is_gone, answered_at_ms, why, read_why) VALUES
 (1, 'vault', {number}, 'T', 1, 5, -1, -1, -1, {at}, {at}, {false}, NULL, {why}, {read_why})"""


def test_sentences_of_an_earlier_version_become_reasons(at_0003: Engine) -> None:
    is_sqlite = at_0003.dialect.name == "sqlite"
    same = {"at": NOW_MS, "false": "0" if is_sqlite else "false"}
    with at_0003.begin() as connection:
        command.upgrade(config(connection), "0009")
        for row in (
            _PARTITION.format(number=0, why=f"'{_DENIED}'", read_why="NULL", **same),
            _PARTITION.format(number=1, why="'no leader'", read_why=f"'not all: {_DENIED}'", **same),
            f"INSERT INTO source_status VALUES (1, 'partitions', {NOW_MS}, '1 of 2 partitions: {_DENIED} (1)')",
            f"UPDATE findings SET kind = 'coverage_gap', summary = 'vault cannot be read: {_DENIED}'",
        ):
            connection.exec_driver_sql(row)
    upgrade(at_0003)
    with at_0003.connect() as connection:
        denied, silent = partitions.stalled(connection, 1)
        status = read_clusters.statuses(connection, 1)["partitions"]
        assert partitions.is_some_broker_unresponsive(connection, 1), "the one that has no permission is not silent"
    missing = NoPermission("vault", (DESCRIBE, READ))
    assert (denied.why, denied.read_why) == (missing, None)
    assert (silent.why, silent.read_why) == (ErrorText("no leader"), missing)
    assert status.error == missing
    (gap,) = stored(at_0003)
    assert gap.reason == missing


def test_a_summary_becomes_a_title_and_a_detail(at_0003: Engine) -> None:
    with at_0003.begin() as connection:
        connection.exec_driver_sql("UPDATE findings SET summary = 'pay is overdue. It blocks orders-0; and more'")
    upgrade(at_0003)
    (found,) = stored(at_0003)
    assert (found.title, found.detail) == ("pay is overdue", "It blocks orders-0; and more")


_HANGS = json.dumps(
    {
        "code": "hangs",
        "cause": "no_marker",
        "log_start": 0,
        "may_skip_markers": True,
        "decided_by": {"code": "told", "text": "both contradict each other"},
        "is_behind": True,
    }
)


@pytest.mark.parametrize("reason", [None, _HANGS], ids=["before reasons", "with a reason"])
def test_what_contradicts_a_decision_keeps_it_unknown(at_0003: Engine, reason: str | None) -> None:
    with at_0003.begin() as connection:
        command.upgrade(config(connection), "0010")
        said = "two readings contradict each other: first it was committed; now it was not; or never seen"
        table = sa.table("findings", *map(sa.column, ("contradiction", "reason")))
        connection.execute(table.update().values(contradiction=said, reason=reason))
    upgrade(at_0003)
    (found,) = stored(at_0003)
    first, now = ErrorText("it was committed"), ErrorText("it was not; or never seen")
    assert found.contradiction == Contradiction(first, now)
    assert isinstance(found.reason, HangReason)
    assert found.reason.cause == (HangCause.NOT_KNOWN if reason is None else HangCause.NO_MARKER)
    with at_0003.begin() as connection:
        command.downgrade(config(connection), "0010")
    upgrade(at_0003)
    assert stored(at_0003)[0].contradiction == Contradiction(first, now)


def test_the_way_back_leaves_what_the_earlier_version_had(at_0003: Engine) -> None:
    upgrade(at_0003)
    with at_0003.begin() as connection:
        command.downgrade(config(connection), "0003")
        assert connection.exec_driver_sql("SELECT id, count FROM findings").all() == [("f1", 1)]
    upgrade(at_0003)
    assert [one.id for one in stored(at_0003)] == ["f1"]


def test_a_store_can_go_back_to_before_there_was_a_ledger(engine: Engine) -> None:
    assert clusters.bind(engine, "orders", "kafka", NOW_MS) == 1
    tables = {"partition_markers", "partition_minutes"}
    with engine.begin() as connection:
        command.downgrade(config(connection), "0004")
        assert tables.isdisjoint(inspect(connection).get_table_names())
    upgrade(engine)
    with engine.connect() as connection:
        assert tables <= set(inspect(connection).get_table_names())
    assert clusters.bind(engine, "orders", "kafka", NOW_MS) == 1
