"""Writes transitions at a steady rate into `__transaction_state`, one record a batch, as coordinators do.

Runs as a process of its own, `python -m tests.benchmarks.log_load BOOTSTRAP RATE IDS`, until its standard input ends.
Then prints how many records, commits and aborts were acknowledged, and in how many seconds. The log is written
directly, because real clients would need more than two cores for 1,700 commits a second, and the coordinators would
need as many again. Readers see the same log as if coordinators had written it.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from deploy.demo.workload.shipping import java_hash
from service.domain.transaction_log.states import TOPIC
from tests.helpers.builders.transaction_log import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    tags,
    transition,
    value,
)

PARTITIONS: Final = 50
ABORTS_EVERY: Final = 50
"""One of every ABORTS_EVERY transactions is aborted."""

_CLIENT: Final = b"__admin_client"  # brokers allow a client with this name to write to internal topics
_PRODUCE, _VERSION = 0, 7
_IN_FLIGHT: Final = 32
_LANES: Final = 3  # the number of overlapping transactions of a partition


class Record(NamedTuple):
    """A record of the transaction log, as a coordinator writes it."""

    transactional_id: str
    state: int
    producer_id: int
    producer_epoch: int
    start_ms: int

    def batch(self, now_ms: int) -> bytes:
        topics = () if self.state in (COMPLETE_COMMIT, COMPLETE_ABORT) else (("orders", [0, 3]),)
        data = value(
            status=self.state,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=topics,
            last_update_ms=now_ms,
            start_ms=self.start_ms,
            tagged=tags(self.producer_id, client_transaction_version=2),
        )
        return transition(self.transactional_id, 0, timestamp_ms=now_ms, data=data)


def transaction(transactional_id: str, producer_id: int, epoch: int, *, aborts: bool = False) -> Iterator[Record]:
    """Yields the three records of a transaction. The caller requests each record when it is due."""
    prepare, complete = (PREPARE_ABORT, COMPLETE_ABORT) if aborts else (PREPARE_COMMIT, COMPLETE_COMMIT)
    start_ms = now()
    yield Record(transactional_id, ONGOING, producer_id, epoch, start_ms)
    yield Record(transactional_id, prepare, producer_id, epoch + 1, start_ms)
    yield Record(transactional_id, complete, producer_id, epoch + 1, start_ms)


def partition_of(transactional_id: str) -> int:
    """Returns the partition of the transaction log to which the id hashes."""
    return (java_hash(transactional_id) & 0x7FFFFFFF) % PARTITIONS


def now() -> int:
    return time.time_ns() // 1_000_000


class LogWriter:
    """A connection to the only broker. One thread may send requests while another thread receives responses."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def send(self, batches: Mapping[int, bytes]) -> None:
        """Sends one ProduceRequest (v7, acks=all) with one batch for each partition in `batches`."""
        head = struct.pack(f">hhih{len(_CLIENT)}s", _PRODUCE, _VERSION, 0, len(_CLIENT), _CLIENT)
        head += struct.pack(f">hhiih{len(TOPIC)}si", -1, -1, 30_000, 1, len(TOPIC), TOPIC.encode(), len(batches))
        parts = [struct.pack(">ii", partition, len(data)) + data for partition, data in batches.items()]
        body = head + b"".join(parts)
        self._socket.sendall(struct.pack(">i", len(body)) + body)

    def wait(self) -> None:
        """Waits until the oldest unacknowledged request is acknowledged. Raises RuntimeError if the broker refuses
        it."""
        (size,) = struct.unpack(">i", self._answers.read(4))
        answer = self._answers.read(size)
        at = 4 + 4 + 2 + len(TOPIC)
        (partitions,) = struct.unpack_from(">i", answer, at)
        for number in range(partitions):
            partition, error = struct.unpack_from(">ih", answer, at + 4 + number * 30)
            if error:
                raise RuntimeError(f"{TOPIC}-{partition}: the broker answers error {error}")

    def write(self, record: Record) -> None:
        """Writes a record, and returns when it is acknowledged."""
        self.send({partition_of(record.transactional_id): record.batch(now())})
        self.wait()

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def ids_by_partition(ids: int) -> list[list[str]]:
    """Returns, for each partition, transactional ids that hash to it. All partitions get the same number of ids."""
    names: list[list[str]] = [[] for _ in range(PARTITIONS)]
    wanted, number = max(ids // PARTITIONS, _LANES), 0
    while any(len(some) < wanted for some in names):
        name = f"load-{number:06d}"
        if len(names[partition_of(name)]) < wanted:
            names[partition_of(name)].append(name)
        number += 1
    return names


def history(names: Sequence[str], first_producer_id: int) -> Iterator[Record]:
    """Yields the records of one partition without end. The ids are divided into groups. The groups take turns record by
    record, so that transactions overlap."""
    lanes = [_lane(names[lane::_LANES], first_producer_id + lane * len(names)) for lane in range(_LANES)]
    while True:
        for lane in lanes:
            yield next(lane)


def _lane(names: Sequence[str], first_producer_id: int) -> Iterator[Record]:
    epoch = 0
    while True:
        for number, name in enumerate(names):
            aborts = (epoch + number) % ABORTS_EVERY == ABORTS_EVERY - 1
            yield from transaction(name, first_producer_id + number, epoch, aborts=aborts)
        epoch += 1


def main(bootstrap: str, rate: float, ids: int) -> None:
    """Writes `rate` records a second until standard input is closed. If the writer falls behind, it catches up as fast
    as the broker allows."""
    writer, stop = LogWriter(bootstrap), threading.Event()
    room = threading.Semaphore(_IN_FLIGHT)
    sent: deque[list[int]] = deque()
    written: Counter[int] = Counter()
    histories = [history(names, 10_000 * (p + 1)) for p, names in enumerate(ids_by_partition(ids))]

    def take_answers() -> None:
        while True:
            while not sent:
                if stop.is_set():
                    return
                time.sleep(0.001)
            writer.wait()
            written.update(sent.popleft())
            room.release()

    def await_end() -> None:
        sys.stdin.read()
        stop.set()

    answers = threading.Thread(target=take_answers)
    began = due = time.monotonic()
    answers.start()
    threading.Thread(target=await_end).start()
    print("started", flush=True)
    while not stop.wait(max(0.0, due - time.monotonic())):
        room.acquire()
        now_ms = now()
        records = [next(history) for history in histories]
        sent.append([record.state for record in records])
        writer.send({partition: record.batch(now_ms) for partition, record in enumerate(records)})
        due += PARTITIONS / rate
    answers.join()
    seconds = time.monotonic() - began
    print(sum(written.values()), written[COMPLETE_COMMIT], written[COMPLETE_ABORT], seconds, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
