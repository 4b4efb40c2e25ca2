"""Tests that the workload's own record of its transactions agrees with Kafka. Other tests compare txnscope with this
record."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from deploy.demo.broker import Broker
from deploy.demo.workload import shipping as shipping_app
from deploy.demo.workload.app import AppContext
from deploy.demo.workload.bookkeeping import Aborts, Book, WorkloadRecord, merged
from deploy.demo.workload.clients import create_topics, partition_count, producer
from deploy.demo.workload.plain_applications import IMPORTS, ORDER_PARTITIONS, Imports, Orders
from deploy.demo.workload.shipping import Shipping
from deploy.demo.workload.workload import Workload, WorkloadError
from tests.conftest import MakeBroker
from tests.helpers.brokers import connect, describe_transaction, transactional_ids
from tests.helpers.waiting import LIMIT_S, wait_for, wait_until_equal
from tests.integration.kafka_tools import completed
from tests.integration.producers import configure_topic, create_topic

ROUNDS = 3


def a_prefix() -> str:
    return f"{uuid4().hex[:8]}-"


def commits(record: WorkloadRecord) -> int:
    return sum(account.commits for account in record.values())


def test_a_book_counts_by_kind_and_knows_the_last_state() -> None:
    book = Book("shop")
    book.initialised("a")
    book.began("a", [("t", 1)])
    book.committed("a")
    book.began("a", [("t", 0), ("t", 1)])
    assert book.accounts()["a"].state is None
    book.aborted("a", "timeout")
    book.aborted_nothing("b")
    record = merged([book])
    assert record["a"] == ("shop", 1, Aborts(timeout=1), 0, (("t", 0), ("t", 1)), "CompleteAbort")
    assert sum(record["b"].aborts) == 0


@pytest.mark.broker
@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_the_record_of_the_workload_equals_what_kafka_reports(
    version: str, request: pytest.FixtureRequest, broker_431: Broker
) -> None:
    broker = request.getfixturevalue(f"broker_{version.replace('.', '')}")
    prefix = a_prefix()
    record = Workload(broker.bootstrap, 7, prefix=prefix).run(ROUNDS)

    states = {i: state for i, state in transactional_ids(broker.bootstrap).items() if i.startswith(prefix)}
    assert states == {i: account.state for i, account in record.items()}
    assert {i for i, a in record.items() if describe_transaction(broker.bootstrap, i).state != a.state} == set()
    reported = {i: ends for i, ends in completed(broker_431, broker.bootstrap).items() if i.startswith(prefix)}
    assert reported == {i: (a.commits, sum(a.aborts) + a.empty_aborts) for i, a in record.items()}

    apps = {account.app for account in record.values()}
    assert apps == {"orders", "payments", "shipping", "reports", "inventory", "imports"} | (
        {"audit"} if version == "4.3.1" else set()
    )
    assert record[f"{prefix}nightly-report"].aborts == Aborts(timeout=ROUNDS)
    assert record[f"{prefix}inventory"].aborts == Aborts(fenced=ROUNDS)
    assert "__consumer_offsets" in {topic for topic, _ in record[f"{prefix}shipping-1"].participants}


@pytest.mark.broker
def test_the_seed_alone_decides_what_happens(broker_431: Broker) -> None:
    prefix = a_prefix()

    def record(seed: int) -> WorkloadRecord:
        return Workload(broker_431.bootstrap, seed, prefix=prefix).run(ROUNDS)

    first = record(7)
    assert record(7) == first
    assert record(8) != first


@pytest.mark.broker
def test_the_workload_stops_without_waiting_for_a_transaction(broker_431: Broker) -> None:
    workload = Workload(broker_431.bootstrap, 7, prefix=a_prefix(), timeout_ms=60_000)
    stop, stopped_after = threading.Event(), -1.0

    def is_amid_work() -> bool:
        book = merged(app.book for app in workload.apps)
        report = next((account for i, account in book.items() if i.endswith("nightly-report")), None)
        return commits(book) > 0 and report is not None and report.state is None and bool(report.participants)

    def stop_later() -> None:
        wait_for(is_amid_work, "the workload to be in the middle of its work")
        stop.set()
        nonlocal stopped_after
        stopped_after = time.monotonic()

    stopping = threading.Thread(target=stop_later)
    stopping.start()
    record = workload.run_until(stop)
    stopping.join(LIMIT_S)
    assert 0 < time.monotonic() - stopped_after < 30, (
        "the workload must not wait for the report, whose transaction lasts a minute"
    )
    assert commits(record) > 0
    report = next(account for i, account in record.items() if i.endswith("nightly-report"))
    assert report.state is None  # in the middle of a transaction, tests must not rely on a state


@pytest.mark.broker
def test_counts_stay_exact_when_the_broker_restarts(make_broker: MakeBroker, broker_431: Broker) -> None:
    """Runs on a version that is not in SKIPS_THE_LOST. On those versions, the coordinator may skip the markers of
    committed orders while the only broker restarts. These orders then hang, and their reader waits for ever."""
    broker = make_broker("3.9.2")
    records: list[WorkloadRecord] = []
    workload = Workload(broker.bootstrap, 7, timeout_ms=5_000)
    run = threading.Thread(target=lambda: records.append(workload.run(2)))
    run.start()
    wait_for(lambda: commits(merged(app.book for app in workload.apps)) > 4 or not run.is_alive(), "some commits")
    broker.kill()
    broker.start()
    run.join()
    reported = completed(broker_431, broker.bootstrap)
    assert reported == {i: (a.commits, sum(a.aborts) + a.empty_aborts) for i, a in records[0].items()}


@pytest.mark.broker
def test_a_transaction_with_a_refused_record_is_aborted_and_repeated(broker_431: Broker) -> None:
    """Brokers refuse records while their verification guard is switched on again. Such a refusal once ended the demo.
    Here, the broker refuses a record because of its size."""
    app = Imports(AppContext(broker_431.bootstrap, 7, a_prefix(), 1_000, threading.Event()))
    bootstrap, topic, name = broker_431.bootstrap, app.context.prefix + IMPORTS, app.example
    create_topic(bootstrap, topic)
    configure_topic(bootstrap, topic, {"max.message.bytes": "200"})  # a marker has 78 bytes
    refused = producer(bootstrap, name)
    refused.init_transactions(LIMIT_S)
    app.book.initialised(name)
    with ThreadPoolExecutor() as pool:
        begun = pool.submit(app.begin, refused, name, [((topic, 0), bytes(300))])
        wait_for(lambda: app.book.accounts()[name].aborts.client or begun.done(), "an aborted transaction")
        configure_topic(bootstrap, topic, {"max.message.bytes": "1000"})
        begun.result(LIMIT_S)
    refused.commit_transaction(LIMIT_S)
    app.book.committed(name)
    account = app.book.accounts()[name]
    wait_until_equal(lambda: describe_transaction(bootstrap, name).state, account.state, "the state of the id")
    assert completed(broker_431, bootstrap)[name] == (1, account.aborts.client)


class Dropped:
    """A consumer that does not know yet that its group has removed it."""

    def __init__(self, consumer: Any) -> None:
        self._known = consumer.consumer_group_metadata()
        consumer.close()

    def consumer_group_metadata(self) -> Any:
        return self._known

    def seek(self, _place: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE, "staged: no partition is assigned"))


class CommitsNoOffsets:
    """A producer whose commits of offsets fail with `error`."""

    def __init__(self, real: Producer, error: KafkaError) -> None:
        self._real, self._error = real, error

    def send_offsets_to_transaction(self, *_arguments: Any) -> None:
        raise KafkaException(self._error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.mark.broker
@pytest.mark.parametrize(
    "error",
    [
        None,
        KafkaError(KafkaError.INVALID_TXN_STATE, "staged: the producer refuses further work", fatal=True),
        KafkaError(KafkaError._TIMED_OUT, "staged: no answer", retriable=True),
    ],
    ids=["it works", "it dies", "no answer"],
)
def test_orders_of_a_dropped_consumer_are_shipped_later(
    broker_431: Broker, monkeypatch: pytest.MonkeyPatch, error: KafkaError | None
) -> None:
    """The group has removed a consumer, as it does if a broker failure is longer than the session timeout. A new
    consumer ships the orders later, even if the producer also failed to commit the offsets."""
    monkeypatch.setattr(shipping_app, "OFFSETS_PATIENCE_S", 0.0)
    context = AppContext(broker_431.bootstrap, 5, a_prefix(), 1_000, threading.Event())
    create_topics(context.bootstrap, {context.prefix + name: count for name, count in Shipping.topics.items()})
    orders, shipping = Orders(context), Shipping(context)
    orders.step()
    read = shipping._read(ORDER_PARTITIONS)
    if error is not None:
        shipping.producer = cast("Producer", CommitsNoOffsets(shipping.producer, error))
    shipping._consumer = Dropped(shipping._consumer)
    shipping._ship(read, commit=True)
    account = merged([shipping.book])[shipping.example]
    assert (account.state, account.aborts) == ("CompleteAbort", Aborts(client=1, fenced=int(error is not None)))
    again = Shipping(context)
    again.step()
    again.close()
    assert commits(merged([again.book])) == 1


@pytest.mark.broker
def test_orders_of_an_aborted_transaction_are_read_again(broker_431: Broker) -> None:
    """Stages a transaction that times out while the broker restarts. The consumer stays in its group."""
    context = AppContext(broker_431.bootstrap, 5, a_prefix(), 1_000, threading.Event())
    create_topics(context.bootstrap, {context.prefix + name: count for name, count in Shipping.topics.items()})
    orders, shipping = Orders(context), Shipping(context)
    orders.step()
    read = shipping._read(ORDER_PARTITIONS)
    error = KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, "staged", txn_requires_abort=True)
    real, shipping.producer = shipping.producer, cast("Producer", CommitsNoOffsets(shipping.producer, error))
    shipping._ship(read, commit=True)
    shipping.producer = real
    again = shipping._read(ORDER_PARTITIONS)
    assert {(one.partition(), one.offset()) for one in again} == {(one.partition(), one.offset()) for one in read}
    shipping.close()


@pytest.mark.broker
def test_partitions_are_requested_until_the_broker_is_back(make_broker: MakeBroker) -> None:
    broker = make_broker("3.9.2")
    create_topic(broker.bootstrap, "shop", partitions=5)
    broker.kill()
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(partition_count, broker.bootstrap, "shop", threading.Event())
        with pytest.raises(TimeoutError):
            asked.result(3)
        broker.start()
        assert asked.result(LIMIT_S) == 5


@pytest.mark.broker
def test_a_failing_application_is_named(broker_431: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload(broker_431.bootstrap, 7, prefix=a_prefix())
    workload.prepare()
    orders = next(app for app in workload.apps if app.name == "orders")
    monkeypatch.setattr(orders, "step", lambda: connect("127.0.0.1:1"))
    with pytest.raises(WorkloadError, match=r"orders: KafkaUnavailable: .*127\.0\.0\.1:1"):
        workload.run(ROUNDS)
