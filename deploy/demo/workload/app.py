"""The base of every application of the workload: a name, a pace, and a step of work that leaves no transaction open."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar, NamedTuple

from confluent_kafka import Producer

from deploy.demo.workload import clients
from deploy.demo.workload.bookkeeping import Book, Participant
from deploy.demo.workload.clients import PATIENCE_S, Refused, retry, send


class AppContext(NamedTuple):
    """The settings that all applications share.

    `prefix` goes before every topic, group and transactional.id. `timeout_ms` is the transaction timeout of the
    applications whose transactions time out. `stop` ends every wait.
    """

    bootstrap: str
    seed: int
    prefix: str
    timeout_ms: int
    stop: threading.Event


class App(ABC):
    """An application, in one thread. Its random choices come from a generator of its own, so that they do not depend on
    the other threads."""

    name: ClassVar[str]
    example_name: ClassVar[str]
    """A transactional.id that exists from the first step on, without the prefix."""
    shows: ClassVar[str]
    """A line for people that says what the page of the application's example id shows."""
    topics: ClassVar[dict[str, int]]
    """A mapping from the name of each topic, without the prefix, to its number of partitions."""
    pause_s: ClassVar[float]
    """Seconds between two steps in `Workload.run_until`."""

    def __init__(self, context: AppContext) -> None:
        self.context = context
        self.book = Book(self.name)
        self.choices = random.Random(f"{context.seed}/{self.name}")

    @property
    def example(self) -> str:
        return self.named(self.example_name)

    @abstractmethod
    def step(self) -> None:
        """Does some work. When the step returns, every transaction that it began has ended. Raises Stopped."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Leaves the consumer group, if the application has one, and closes the connections."""

    @cached_property
    def producer(self) -> Producer:
        """Returns the producer of `example`. Starts it at the first call."""
        return self.start(self.example)

    def start(self, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
        """Starts a producer. If the id has an open transaction, returns once the coordinator has aborted it and its
        markers are written. Raises KafkaException, Stopped."""
        started = clients.producer(self.context.bootstrap, transactional_id, timeout_ms)
        retry(self.context.stop, started.init_transactions)
        self.book.initialised(transactional_id)
        return started

    def begin(self, producer: Producer, transactional_id: str, records: Iterable[tuple[Participant, bytes]]) -> None:
        """Begins a transaction and sends the records. If a record is refused, aborts the transaction and begins a new
        one. A broker refuses records that arrive just when its guard against hanging transactions is switched on again
        (INVALID_TXN_STATE; see `verification_off`). Raises KafkaException, Refused, Stopped, Undelivered."""
        records = list(records)
        give_up = time.monotonic() + PATIENCE_S
        while True:
            producer.begin_transaction()
            self.book.began(transactional_id, [participant for participant, _ in records])
            try:
                return send(producer, records, self.context.stop)
            except Refused:
                if time.monotonic() > give_up:
                    raise
            self.end(producer, transactional_id, commit=False)

    def end(self, producer: Producer, transactional_id: str, *, commit: bool) -> None:
        """Ends the open transaction, and records its end. Raises KafkaException, Stopped."""
        if commit:
            retry(self.context.stop, producer.commit_transaction)
            self.book.committed(transactional_id)
        else:
            retry(self.context.stop, producer.abort_transaction)
            self.book.aborted(transactional_id, "client")

    def named(self, name: str) -> str:
        return self.context.prefix + name
