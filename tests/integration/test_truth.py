"""Tests that state, producer id, epoch, partitions and outcomes of every id agree with the workload's own account and
with the answers of Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.demo.broker import Broker
from deploy.demo.workload.workload import Workload
from tests.helpers.brokers import describe_transaction, on_broker, transactional_ids
from tests.helpers.waiting import ANSWER_S, OPEN_MS
from tests.integration.application import ingesting
from tests.integration.kafka_tools import completed
from tests.integration.producers import begin, create_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@on_broker("4.3.1")
def test_the_store_says_what_the_applications_did_and_what_kafka_answers(
    broker: Broker, broker_431: Broker, tmp_path: Path
) -> None:
    """The clients are librdkafka (old protocol) and, if the cluster supports it, a TV2 client. 3.9.2 writes value v0 to
    the log, and 4.3.1 writes v1."""
    prefix = "truth-"
    with ingesting(broker.bootstrap, tmp_path) as app:
        record = Workload(broker.bootstrap, seed=11, prefix=prefix).run(rounds=6)
        create_topic(broker.bootstrap, "truth-open")
        still_open = begin(broker.bootstrap, "truth-open", "truth-open", OPEN_MS, partitions=(2,))
        app.wait_until_read()
        stored = {name: row for name, row in app.ids().items() if name.startswith(prefix)}

        assert {name: (row.commits, row.aborts) for name, row in stored.items() if name != "truth-open"} == {
            name: (account.commits, sum(account.aborts)) for name, account in record.items()
        }
        assert stored.keys() == {name for name in transactional_ids(broker.bootstrap) if name.startswith(prefix)}
        for name, row in stored.items():
            reported = describe_transaction(broker.bootstrap, name)
            assert (row.state, row.producer_id, row.producer_epoch, row.partitions) == (
                reported.state,
                reported.producer_id,
                reported.producer_epoch,
                reported.partitions,
            ), name
        assert stored["truth-open"].partitions == {("truth-open", 2)}

        # under TV2, an abort without records leaves a CompleteAbort record that ends no transaction
        truth = completed(broker_431, broker.bootstrap)
        for name, account in record.items():
            assert truth[name] == (account.commits, sum(account.aborts) + account.empty_aborts), name
        assert app.rejects() == []
        still_open.abort_transaction(ANSWER_S)


@on_broker("3.9.2")
def test_history_before_the_first_start_is_state_but_not_counted(broker: Broker, tmp_path: Path) -> None:
    """Transactions after the first start are counted exactly."""
    record = Workload(broker.bootstrap, seed=12, prefix="history-").run(rounds=2)
    with ingesting(broker.bootstrap, tmp_path) as app:
        app.wait_until_read()
        before = {name: row for name, row in app.ids().items() if name in record}
        assert before.keys() == record.keys()
        assert all((row.commits, row.aborts) == (0, 0) for row in before.values())
        more = Workload(broker.bootstrap, seed=12, prefix="history-").run(rounds=2)
        app.wait_until_read()
        assert {name: (row.commits, row.aborts) for name, row in app.ids().items() if name in more} == {
            name: (account.commits, sum(account.aborts)) for name, account in more.items()
        }
