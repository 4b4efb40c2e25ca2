"""Runs transactions on a real broker: a steady load, and single commits. For a single commit, measures the delay until
REST counts it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from deploy.demo.broker import Broker
from tests.benchmarks.loading import Load, loading
from tests.benchmarks.prepared_broker import bench_broker
from tests.benchmarks.watched import Rest
from tests.helpers.waiting import LIMIT_S
from tests.integration.producers import create_topic, open_producer, transact

TOPIC = "payments"
POLL_S = 0.02


@contextmanager
def payments_broker(properties: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """Runs a broker that is a Kafka cluster of its own, with the topic TOPIC and a transaction log."""
    with bench_broker(properties) as broker:
        create_topic(broker.bootstrap, TOPIC, partitions=10)
        open_producer(broker.bootstrap, "creates-the-log")
        yield broker


def paying(bootstrap: str, rate: int, ids: int) -> AbstractContextManager[Load]:
    """Commits `rate` transactions/s with `ids` ids, in a process of its own, until the block ends."""
    return loading("tests.benchmarks.load", bootstrap, TOPIC, rate, ids)


class Probe:
    """A producer with a transactional.id of its own. Its commits are awaited one by one."""

    def __init__(self, bootstrap: str, rest: Rest) -> None:
        self._name, self._rest = f"probe-{time.time_ns()}", rest
        self._producer = open_producer(bootstrap, self._name)
        self._commits = 0

    def commit(self) -> float:
        """Commits once. Returns the seconds from the return of the commit until REST counts it. Raises RuntimeError at
        the time limit."""
        transact(self._producer, TOPIC)
        committed = time.monotonic()
        self._commits += 1
        while self._seen() < self._commits:
            if time.monotonic() - committed > LIMIT_S:
                raise RuntimeError(f"commit {self._commits} of {self._name} was not counted within {LIMIT_S:.0f} s")
            time.sleep(POLL_S)
        return time.monotonic() - committed

    def close(self) -> None:
        self._rest.close()

    def _seen(self) -> int:
        answer = self._rest.get("/transaction", id=self._name)
        return 0 if answer is None else int(answer["counts"]["commits"])
