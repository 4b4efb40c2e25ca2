"""Runs healthy clients, one thread each: of the old and the new protocol, with short and long transactions, and some
that write before AddPartitionsToTxn.

`python -m tests.soak.clients BOOTSTRAP HOLD_S HANGS` works until its standard input ends. It then prints the number of
transactions by kind of client, and the writes that clients abandoned. The clients are a separate process
(`tests.soak.working`), so that they can be ended even while they wait for a broker.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import NewTopic

from deploy.demo.workload.old_producer import OldProducer
from deploy.demo.workload.raw_producer import Connection, RawProducer, Refused, transaction_version
from tests.helpers.waiting import LIMIT_S
from tests.integration.producers import create_topics, open_producer, transact
from tests.lab.asking import open_on
from tests.lab.hangs import old_producer

CLASSIC: Final = "soak-classic"
MODERN: Final = "soak-modern"
EARLY: Final = "soak-early"
HELD: Final = "soak-held"
HANGS: Final = "soak-hangs"
TOPICS: Final = (CLASSIC, MODERN, EARLY, HELD, HANGS)
TOPICS_GLOB: Final = "soak-*"
LONG: Final = "long"
PARTITIONS: Final = 6
HELD_OPEN: Final = (0, 1, 2, 3)
"""Partitions of HELD on which the long transaction is open. On these partitions, entries of other transactions lie
above the LSO."""

Key = tuple[str, int, int, int]
"""An open entry: topic, partition, producer id, start offset."""

_EACH: Final = 3
_PAIRS: Final = [[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2]]
_TIMEOUT_MS: Final = 120_000
_TV2: Final = 2
_AGAIN: Final = frozenset({19, 20})
"""Error codes after which a write is repeated: NOT_ENOUGH_REPLICAS and NOT_ENOUGH_REPLICAS_AFTER_APPEND. A leader also
returns NOT_ENOUGH_REPLICAS while it cannot add the partition to the transaction."""


def prepare_topics(bootstrap: str, hangs: int) -> None:
    """Creates the topics. Each partition has more than one replica, so that it keeps a leader while one broker is away.
    Without a leader, Kafka 4.3.1 would skip the marker for the partition (KAFKA-20734), and the transaction would hang.

    Partitions of the topics EARLY and HELD have only two replicas. While a broker is frozen, a write to a partition
    without a replica on that broker does not wait for the broker. AddPartitionsToTxn does, because the transaction log
    has a replica on every broker.
    """
    two = {"min.insync.replicas": "1"}
    new = [NewTopic(name, PARTITIONS, 3) for name in (CLASSIC, MODERN)]
    new += [NewTopic(name, PARTITIONS, replica_assignment=_PAIRS, config=two) for name in (EARLY, HELD)]
    new += [NewTopic(HANGS, hangs, 3)]
    create_topics(bootstrap, *new)


class Clients:
    """Clients that work until the `with` block ends, and then finish their transactions.

    - `done`: a mapping from kind of client to the number of its transactions.
    - `abandoned`: writes before AddPartitionsToTxn that are still open in Kafka, although their client was refused and
      has begun again. These entries hang until a later transaction of the id adopts them.

    `on_failure` is called with the exception of a client that cannot continue. Clients of the new protocol work only if
    the cluster has TV2.
    """

    def __init__(
        self, bootstrap: str, *, hold_s: float, hangs: int, on_failure: Callable[[BaseException], None]
    ) -> None:
        self._bootstrap, self._hold_s, self._on_failure = bootstrap, hold_s, on_failure
        self._stop, self._never = threading.Event(), threading.Event()
        with self._connection() as connection:
            self._is_modern = transaction_version(connection) >= _TV2
        self.done: Counter[str] = Counter()
        self.abandoned: list[Key] = []
        work: list[tuple[Callable[..., None], tuple[object, ...]]] = [(self._long, ())]
        for n in range(_EACH):
            work.append((self._classic, (f"classic-{n}",)))
            if self._is_modern:
                work.append((self._modern, (f"modern-{n}",)))
            work.append((self._early, (f"early-{n}", EARLY, range(PARTITIONS))))
            work.append((self._early, (f"early-held-{n}", HELD, range(PARTITIONS))))
        work.append((self._early, ("early-behind", HANGS, range(hangs))))
        self._threads = [threading.Thread(target=self._run, args=one, daemon=True) for one in work]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(LIMIT_S)

    def _run(self, work: Callable[..., None], arguments: tuple[object, ...]) -> None:
        try:
            work(*arguments)
        except BaseException as e:
            self._on_failure(e)

    def _connection(self) -> Connection:
        """Returns a connection that `_stop` does not interrupt, because a client finishes its transaction before it
        stops."""
        return Connection(self._bootstrap, self._never)

    def _classic(self, name: str) -> None:
        """Runs a client of librdkafka, which adds each partition to the transaction before the first write to the
        partition."""
        producer: Producer | None = None
        turn = 0
        while not self._stop.wait(0.05):
            turn += 1
            try:
                producer = producer or open_producer(self._bootstrap, name, _TIMEOUT_MS)
                transact(producer, CLASSIC, commit=turn % 4 != 0)
                self.done["classic"] += 1
            except KafkaException:  # this error is fatal for the producer; as applications do, continue with a new one
                producer = None

    def _modern(self, name: str) -> None:
        """Runs a TV2 client: leaders add the partitions, and every end of a transaction raises the epoch."""
        chance = random.Random(name)
        with self._connection() as connection:
            producer = RawProducer(connection, name)
            producer.init(_TIMEOUT_MS)
            while not self._stop.wait(0.1):
                try:
                    for partition in chance.sample(range(PARTITIONS), 2):
                        _write(producer, MODERN, partition)
                    producer.end(commit=chance.random() < 0.7)
                    self.done["modern"] += 1
                except Refused:
                    self.done["modern, begun again"] += 1
                    producer.init(_TIMEOUT_MS)

    def _early(self, name: str, topic: str, partitions: Sequence[int]) -> None:
        """Runs a client of the old protocol that writes a moment before it sends AddPartitionsToTxn."""
        chance = random.Random(name)
        with self._connection() as connection:
            producer = old_producer(connection, name, _TIMEOUT_MS)
            while not self._stop.wait(chance.uniform(0.05, 0.3)):
                partition = chance.choice(partitions)
                try:
                    self._early_once(producer, topic, partition, chance)
                    self.done["early"] += 1
                except Refused as e:
                    sys.stderr.write(f"{name} begins again: {e}\n")
                    self.done["early, begun again"] += 1
                    producer = old_producer(connection, name, _TIMEOUT_MS)
                    self.abandoned += [
                        (topic, partition, one.producer_id, one.start_offset)
                        for one in open_on(connection, topic, partition)
                        if one.producer_id == producer.producer_id
                    ]

    def _early_once(self, producer: OldProducer, topic: str, partition: int, chance: random.Random) -> None:
        producer.produce(topic, partition, [b"early"], retry_on=_AGAIN)
        time.sleep(chance.uniform(0.02, 0.3))
        producer.add(topic, partition)
        producer.produce(topic, partition, [b"in time"], retry_on=_AGAIN)
        producer.end(commit=chance.random() < 0.7)

    def _long(self) -> None:
        """Runs a client like Flink's sink, whose transaction is open from one checkpoint to the next."""
        with self._connection() as connection:
            producer = RawProducer(connection, LONG) if self._is_modern else OldProducer(connection, LONG)
            producer.init(900_000)
            while not self._stop.is_set():
                try:
                    self._hold(producer)
                    producer.end(commit=True)
                    self.done[LONG] += 1
                except Refused:
                    self.done["long, begun again"] += 1
                    producer.init(900_000)

    def _hold(self, producer: RawProducer | OldProducer) -> None:
        until = time.monotonic() + self._hold_s
        if isinstance(producer, OldProducer):
            producer.add(HELD, *HELD_OPEN)
        turn = 0
        while True:
            _write(producer, HELD, HELD_OPEN[turn % len(HELD_OPEN)])
            turn += 1
            if self._stop.wait(0.2) or time.monotonic() > until:
                return


def _write(producer: RawProducer | OldProducer, topic: str, partition: int) -> None:
    give_up = time.monotonic() + LIMIT_S
    while True:
        try:
            producer.produce(topic, partition, [b"payload"])
        except Refused as e:
            if e.code not in _AGAIN or time.monotonic() > give_up:
                raise
            time.sleep(0.05)
        else:
            return


def _end(e: BaseException) -> None:
    """Ends the whole process at once, because a soak without one of its clients proves nothing."""
    traceback.print_exception(e)
    os._exit(1)


def main() -> None:
    bootstrap, hold_s, hangs = sys.argv[1:]
    with Clients(bootstrap, hold_s=float(hold_s), hangs=int(hangs), on_failure=_end) as clients:
        sys.stdin.read()
    sys.stdout.write(json.dumps({"done": clients.done, "abandoned": clients.abandoned}))


if __name__ == "__main__":
    main()
