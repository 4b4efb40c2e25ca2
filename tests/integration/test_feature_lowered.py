"""Tests a transaction of a TV2 client during which the feature transaction.version is lowered. The end of the
transaction stays pending in the memory of its coordinator. For all other ids, the coordinator works."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from deploy.demo.workload.clients import Stopped
from deploy.demo.workload.raw_producer import Connection, RawProducer, Refused
from service.domain.findings.kinds import Kind, Status
from service.store.rows.findings import finding_of
from tests.conftest import MakeBroker
from tests.helpers.waiting import ANSWER_S, wait_for, wait_until_equal
from tests.integration.application import Ingest, running
from tests.integration.producers import create_topic, load

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

TIMEOUT_MS = 40_000
PROPERTIES = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


def test_a_lowered_feature_gets_the_advice_for_a_single_stuck_id(make_broker: MakeBroker, tmp_path: Path) -> None:
    """Of the versions that the suite runs by default, only 4.3.1 has the feature transaction.version."""
    broker = make_broker("4.3.1", **PROPERTIES)
    create_topic(broker.bootstrap, "orders")
    with running(Ingest(broker.bootstrap, tmp_path)) as app:
        stop = threading.Event()
        with Connection(broker.bootstrap, stop) as connection:
            held_up = RawProducer(connection, "held-up")
            held_up.init(TIMEOUT_MS)
            held_up.produce("orders", 0, [b"x"])
            where = ("--bootstrap-server", broker.bootstrap)
            broker.tool(
                "org.apache.kafka.tools.FeatureCommand", *where, "downgrade", "--feature", "transaction.version=0"
            )
            stop.set()  # limits the client to one attempt
            with suppress(Refused, Stopped):
                held_up.end(commit=True)
        with load(broker.bootstrap, "orders", ["neighbour"], 0.5):
            (row,) = wait_for(
                lambda: app.findings(Kind.OVERDUE, status=Status.CONFIRMED), f"the overdue transaction; {app.log}"
            )
            assert row.transactional_id == b"held-up"

            def advice() -> str:
                return "".join(
                    finding_of(row).observation.advice for row in app.findings(Kind.OVERDUE, status=Status.CONFIRMED)
                )

            wait_for(
                lambda: "A record of another id was written to __transaction_state-0" in advice(),
                "the advice to mention the other id",
            )
            wait_for(
                lambda: "transaction.version 2, and version 0 is finalized now" in advice(),
                "the advice to mention the lowered feature",
            )
            for blamed in ("min.insync.replicas", "clock", "Causes"):
                assert blamed not in advice()
        broker.stop()  # like a move of the leadership, a restart makes the coordinator reload the log
        broker.start()
        wait_until_equal(lambda: app.state("held-up"), "CompleteAbort", "the state of held-up", ANSWER_S)
        wait_for(lambda: app.findings(Kind.OVERDUE, status=Status.RESOLVED), "the end of the finding")
