"""Tests of findings about a real broker's transactions: every problem has its finding, and there are no other
findings."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from service.domain.findings.churn import MIN_STARTS, RANDOM_IDS, START_MS
from service.domain.findings.kinds import Kind, Resolution
from service.store.schema import findings
from tests.conftest import MakeBroker
from tests.helpers.brokers import describe_transaction, on
from tests.helpers.waiting import ANSWER_S, OPEN_MS, wait_for, wait_until, wait_until_equal
from tests.integration.application import Ingest, running
from tests.integration.producers import begin, create_topic, load, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TOPIC = "orders"
SCAN_MS = 500
EXPIRE_MS = 25_000
VICTIMS = 6
PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": SCAN_MS,
    "transactional.id.expiration.ms": EXPIRE_MS,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 1_000,
}
RULES = ({"prefix": "batch-", "long_after": "3s", "owner": "reports"},)


def time_out_together(bootstrap: str, name: str) -> list[str]:
    names = [f"{name}-{n}" for n in range(VICTIMS)]
    left_open = [begin(bootstrap, name, TOPIC, 2_000) for name in names]
    wait_until_equal(
        lambda: {describe_transaction(bootstrap, name).state for name in names},
        {"CompleteAbort"},
        f"the states of the ids that begin with {name}",
    )
    del left_open
    return names


def found(app: Ingest, kind: str) -> Any:
    """Returns the only finding of the kind, or None."""
    app.is_running()
    rows = app.findings(kind)
    assert len(rows) <= 1, rows
    return rows[0] if rows else None


def wait_for_finding(app: Ingest, kind: str, is_so: Callable[[Any], bool] = lambda _: True) -> Any:
    return wait_until(
        lambda: found(app, kind), lambda row: row is not None and is_so(row), f"the expected {kind}; {app.log}"
    )


@on("3.9.2")
def test_every_trouble_has_a_finding_and_nothing_else_has(
    version: str, make_broker: MakeBroker, tmp_path: Path
) -> None:
    bootstrap = make_broker(version, **PROPERTIES).bootstrap
    create_topic(bootstrap, TOPIC)
    time_out_together(bootstrap, "before-our-time")
    with running(Ingest(bootstrap, tmp_path, rules=RULES)) as app:
        app.wait_until_read()
        with load(bootstrap, TOPIC, ["healthy"], 0.5):  # this runs continuously, because the id would expire otherwise
            long_one = begin(bootstrap, "batch-1", TOPIC, OPEN_MS)
            victims = time_out_together(bootstrap, "outage")
            outage = wait_for_finding(app, Kind.CORRELATED_TIMEOUTS, lambda row: row.count == len(victims))
            assert all(name in outage.evidence[0][2] for name in victims)
            assert "before-our-time" not in str(outage.evidence)

            for _ in range(4):
                loser = begin(bootstrap, "fought-over", TOPIC)
            transact(open_producer(bootstrap, "fought-over"), TOPIC)
            with pytest.raises(KafkaException):
                loser.commit_transaction(ANSWER_S)
            conflict = wait_for_finding(app, Kind.FENCING_CONFLICT, lambda row: row.count >= 4)
            assert (conflict.transactional_id, conflict.severity) == (b"fought-over", "warning")

            def restart() -> Any:
                """Runs a transaction under a new random id, as an application does that takes a new id at each start.
                Returns the finding of this churn, or None."""
                transact(open_producer(bootstrap, f"report-{uuid.uuid4()}"), TOPIC)
                time.sleep(MIN_STARTS * START_MS / 1_000 / RANDOM_IDS)
                return found(app, Kind.CHURN)

            # on a busy machine, a transaction may be complete only after the next restart, which then does not count
            churn = wait_until(restart, lambda row: row is not None, f"{Kind.CHURN}; {app.log}")
            assert churn.prefix == "report-"

            long_running = wait_for_finding(app, Kind.LONG_RUNNING)
            assert (long_running.transactional_id, long_running.severity) == (b"batch-1", "warning")
            assert long_running.owner == "reports"
            assert long_running.self_heals_at_ms is not None
            long_one.commit_transaction(ANSWER_S)
            wait_for_finding(app, Kind.LONG_RUNNING, lambda row: row.resolution == Resolution.HEALED)

            wait_for(lambda: app.findings(Kind.EXPIRED), f"an id that expired; {app.log}")
            rows = app.rows(findings)
            expected = {Kind.CORRELATED_TIMEOUTS, Kind.FENCING_CONFLICT, Kind.CHURN, Kind.LONG_RUNNING, Kind.EXPIRED}
            assert {row.kind for row in rows} - {Kind.EXPIRING} == expected
            assert not [row for row in rows if row.transactional_id == b"healthy"]
