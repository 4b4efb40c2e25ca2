"""Consumes orders, produces shipments, and commits the offsets of the orders and the records of the shipments in one
transaction."""

from __future__ import annotations

import time
from contextlib import suppress

from confluent_kafka import KafkaException, Message, Producer, TopicPartition

from deploy.demo.workload.app import App, AppContext
from deploy.demo.workload.bookkeeping import Participant
from deploy.demo.workload.clients import PATIENCE_S, consumer, may_pass, partition_count, raise_if_stopped, retry
from deploy.demo.workload.plain_applications import ORDER_PARTITIONS, ORDERS

SHIPMENTS = "shipments"
OFFSETS = "__consumer_offsets"
ABORT_RATE = 0.15
OFFSETS_PATIENCE_S = 60.0
"""Seconds after which an unanswered commit of offsets is given up: the coordinator then aborts the transaction
anyway, by its timeout."""


class NoOrders(Exception):
    """Too few committed orders were read in time."""


class Shipping(App):
    name = "shipping"
    example_name = "shipping-1"
    shows = "consume-process-produce: __consumer_offsets takes part in its transactions"
    topics = {ORDERS: ORDER_PARTITIONS, SHIPMENTS: 2}  # noqa: RUF012
    pause_s = 0.5

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self._consumer = consumer(context.bootstrap, self.named("shipping"))
        self._consumer.subscribe([self.named(ORDERS)])

    def step(self) -> None:
        """Ships as many records of orders as one step of the orders application commits, so that neither application
        waits for long."""
        orders = self._read(ORDER_PARTITIONS)
        if self.choices.random() < ABORT_RATE:
            self._ship(orders, commit=False)  # then ships the same orders again
        self._ship(orders, commit=True)

    def _read(self, count: int) -> list[Message]:
        orders: list[Message] = []
        give_up = time.monotonic() + PATIENCE_S
        while len(orders) < count:
            raise_if_stopped(self.context.stop)
            if time.monotonic() > give_up:
                raise NoOrders(f"{len(orders)} of {count} committed orders in {PATIENCE_S:.0f} s")
            orders += [m for m in self._consumer.consume(count - len(orders), 0.2) if m.error() is None]
        return orders

    def _ship(self, orders: list[Message], *, commit: bool) -> None:
        if not self._fill_or_abort(orders, (self.named(SHIPMENTS), self.choices.randrange(self.topics[SHIPMENTS]))):
            self._read_again(orders)
            return
        self.end(self.producer, self.example, commit=commit)

    def _read_again(self, orders: list[Message]) -> None:
        """Sets the consumer back to the orders, which were not shipped. If the group has removed the consumer, the
        consumer joins the group again and begins at the group's offsets, which are the same place."""
        for order in sorted(orders, key=lambda order: order.offset() or 0, reverse=True):  # to the lowest one at last
            with suppress(KafkaException):
                self._consumer.seek(TopicPartition(order.topic(), order.partition(), order.offset()))

    def _fill_or_abort(self, orders: list[Message], shipments: Participant) -> bool:
        """Begins a transaction with the records and the offsets. Returns True if the transaction is open, False if it
        had to be aborted."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._fill(self.producer, orders, shipments)
                return True
            except KafkaException as e:
                if e.args[0].txn_requires_abort():
                    self.end(self.producer, self.example, commit=False)
                    return False
                if not (e.args[0].fatal() or may_pass(e)) or time.monotonic() > give_up:
                    raise
            # rarely, after a broker failure, the offsets get INVALID_TXN_STATE, which is fatal for a librdkafka
            # producer, or no answer at all: start a new one, which aborts the transaction
            self.producer = self.start(self.example)
            self.book.aborted(self.example, "fenced")

    def _fill(self, instance: Producer, orders: list[Message], shipments: Participant) -> None:
        """Begins a transaction, and adds the records and the offsets to it. The transaction stays open."""
        self.begin(instance, self.example, [(shipments, b"ship " + (order.value() or b"")) for order in orders])
        shipped = [TopicPartition(o.topic(), o.partition(), o.offset() + 1) for o in orders]
        group = self._consumer.consumer_group_metadata()
        send_offsets = instance.send_offsets_to_transaction
        retry(self.context.stop, send_offsets, _last(shipped), group, patience_s=OFFSETS_PATIENCE_S)
        self.book.began(self.example, [(OFFSETS, self._offsets_partition())])

    def _offsets_partition(self) -> int:
        """Returns the partition in which the coordinator keeps the group's offsets
        (GroupMetadataManager.partitionFor)."""
        return abs(java_hash(self.named("shipping"))) % partition_count(
            self.context.bootstrap, OFFSETS, self.context.stop
        )

    def close(self) -> None:
        self._consumer.close()


def _last(offsets: list[TopicPartition]) -> list[TopicPartition]:
    """Returns the highest offset of each partition."""
    highest = {o.partition: o for o in sorted(offsets, key=lambda o: o.offset)}
    return list(highest.values())


def java_hash(text: str) -> int:
    """Returns java.lang.String.hashCode, for characters below U+10000."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
