"""Minimal applications with transactions. They use librdkafka, which speaks the old protocol, also to 4.x brokers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from tests.helpers.waiting import ANSWER_S, LIMIT_S

NULL_LOGGER = logging.getLogger("librdkafka.silent")
NULL_LOGGER.setLevel(logging.CRITICAL + 1)  # librdkafka logs every refused connection; the tests only check results
NULL_LOGGER.propagate = False


def admin_of(bootstrap: str) -> AdminClient:
    """Returns an admin client. The caller has to keep a reference to the client until all answers have arrived."""
    return AdminClient({"bootstrap.servers": bootstrap, "logger": NULL_LOGGER})


def create_topic(bootstrap: str, topic: str, partitions: int = 3) -> None:
    create_topics(bootstrap, NewTopic(topic, partitions, 1))


def create_topics(bootstrap: str, *topics: NewTopic) -> None:
    """Creates topics. Repeats each request that librdkafka drops. librdkafka drops a request if a starting broker is
    missing in the cluster's metadata for a moment."""
    admin = admin_of(bootstrap)
    wanted, again = {topic.topic: topic for topic in topics}, set[str]()
    give_up = time.monotonic() + LIMIT_S
    while wanted:
        for name, created in admin.create_topics([*wanted.values()]).items():
            try:
                created.result(ANSWER_S)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError._DESTROY_BROKER and time.monotonic() < give_up:
                    again.add(name)
                    continue
                if code != KafkaError.TOPIC_ALREADY_EXISTS or name not in again:
                    raise
            del wanted[name]


def configure_topic(bootstrap: str, topic: str, configs: dict[str, str]) -> None:
    """Sets configs of a topic, and keeps its other configs."""
    entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in configs.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = admin_of(bootstrap)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(ANSWER_S)


def delete_topics(bootstrap: str, *topics: str) -> None:
    admin = admin_of(bootstrap)
    for deleted in admin.delete_topics([*topics]).values():
        deleted.result(ANSWER_S)


def add_partitions(bootstrap: str, topic: str, number: int) -> None:
    """Adds partitions to a topic until it has `number` of them."""
    admin = admin_of(bootstrap)
    admin.create_partitions([NewPartitions(topic, number)])[topic].result(ANSWER_S)


def plain_producer(bootstrap: str, **config: object) -> Producer:
    """Returns a producer without transactions. `config`: further settings, with _ in place of dots."""
    more = {name.replace("_", "."): value for name, value in config.items()}
    return Producer({"bootstrap.servers": bootstrap, "logger": NULL_LOGGER, **more})


def internal_producer(bootstrap: str) -> Producer:
    """Returns a producer with the client id that brokers allow to write to internal topics."""
    return plain_producer(bootstrap, client_id="__admin_client")


def open_producer(bootstrap: str, transactional_id: str, timeout_ms: int = 60_000, codec: str = "none") -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "compression.type": codec,
            "logger": NULL_LOGGER,
        }
    )
    producer.init_transactions(ANSWER_S)
    return producer


def begin(
    bootstrap: str, name: str, topic: str, timeout_ms: int = 60_000, partitions: Iterable[int] = (0,)
) -> Producer:
    """Returns a producer with an open transaction, which has an acknowledged record on each of the partitions. If
    Python frees the producer, the transaction stays open until its timeout."""
    producer = open_producer(bootstrap, name, timeout_ms)
    producer.begin_transaction()
    for partition in partitions:
        producer.produce(topic, b"payload", partition=partition)
    assert producer.flush(ANSWER_S) == 0
    return producer


def transact(producer: Producer, topic: str, commit: bool = True) -> None:
    """Runs a transaction with one record. Repeats the request to end it after retriable errors. If a commit fails with
    an error that requires an abort, aborts the transaction."""
    producer.begin_transaction()
    producer.produce(topic, b"payload")
    producer.flush(ANSWER_S)
    if not _ended(producer.commit_transaction if commit else producer.abort_transaction):
        assert _ended(producer.abort_transaction)


def _ended(end: Callable[[float], None]) -> bool:
    """Returns True if the transaction ended as requested, and False if it has to be aborted (KIP-360)."""
    while True:
        try:
            end(ANSWER_S)
            return True
        except KafkaException as e:
            if e.args[0].txn_requires_abort():
                return False
            if not e.args[0].retriable():
                raise


@contextmanager
def load(bootstrap: str, topic: str, names: list[str], pause_s: float = 0.1) -> Iterator[None]:
    """Runs one thread for each id until the block ends. Each thread repeats two commits and an abort. At the end, each
    thread completes its last transaction."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            producer = open_producer(bootstrap, name)
            turn = 0
            while not stop.wait(pause_s):
                turn += 1
                try:
                    transact(producer, topic, commit=turn % 3 != 0)
                except (
                    KafkaException
                ):  # this error is fatal for the producer; as applications do, continue with a new one
                    producer = open_producer(bootstrap, name)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(LIMIT_S)
    assert not [thread for thread in threads if thread.is_alive()], "a producer thread did not end its transaction"
    for failure in failures:
        raise failure
