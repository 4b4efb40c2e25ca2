"""Runs a service that can end hanging transactions. The service's store has one hanging transaction. A test sets the
answers of the service's brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from service.api.http.kafka import Kafka
from service.app import create_app
from service.domain.partitions.facts import TopicPartition
from service.domain.transaction_log.states import COMPLETE_ABORT, TOPIC
from service.kafka.cluster import Leader, TopicLayout
from service.kafka.ends import Ends
from service.kafka.leader_check import CheckedPartition
from service.kafka.producers import ActiveProducer
from service.remediation import checks, marker, way_out
from service.store.schema import audit
from tests.helpers.builders.entry_facts import facts_of
from tests.helpers.partitions import END, LSO, PID, WithPartitions, hanging_finding, stalled_partition
from tests.helpers.stores import NOW_MS, Id

EPOCH, COORDINATOR_EPOCH = 3, 6
KEYS: Final = {"ann": "the-key-of-ann-000", "bob": "the-key-of-bob-000"}
PLACE: Final = ("orders", 0)
FENCED: Final = Id(b"pay", COMPLETE_ABORT, producer_id=PID, producer_epoch=EPOCH + 1)
"""The id of the hanging transaction. Its epoch is higher now, so no producer can write under the transaction's
epoch."""


class Sent(NamedTuple):
    node: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool


class Brokers:
    """Stands in for real brokers.

    - `seen`: the partitions as an observation returns them.
    - `before_look`: called before each observation, with its number.
    - `facts`: the facts from which the verdict is derived.
    - `answer`: returns the error code for a marker.
    - `looks`: the number of observations so far; `sent`: the markers that were requested.
    """

    def __init__(self) -> None:
        self.seen: dict[TopicPartition, CheckedPartition] = {PLACE: shows(hanging())}
        self.before_look: Callable[[int], None] = lambda _: None
        self.answer: Callable[[], int] = lambda: 0
        self.facts = facts_of(None, PID, EPOCH, LSO, NOW_MS)
        self.looks = 0
        self.sent: list[Sent] = []

    def log_ends(self, end: int, partition: int = 0, epoch: int = 5) -> None:
        ends = Ends(0, end, end, 0)
        self.seen[TOPIC, partition] = CheckedPartition(TOPIC, partition, "T", NOW_MS, Leader(1, epoch), ends, True, ())

    def observe(self, places: Collection[TopicPartition]) -> dict[TopicPartition, CheckedPartition]:
        self.looks += 1
        self.before_look(self.looks)
        return {place: self.seen[place] for place in places if place in self.seen}

    def end_offsets(self, *_: object) -> None:
        """Does nothing. End offsets are only needed to read the facts, which the test gives in `facts`."""

    def write_marker(self, _: Any, node: int, **about: Any) -> int:
        assert (about.pop("topic"), about.pop("partition")) == PLACE
        self.sent.append(Sent(node, **about))
        return self.answer()

    @property
    def layout(self) -> TopicLayout:
        return TopicLayout(
            TOPIC, "T", {p: partition.leader for (topic, p), partition in self.seen.items() if topic == TOPIC}
        )


class ResolveApi:
    """The REST interface that ends hanging transactions. `client` sends requests to the interface. `cluster` is in the
    store behind the service. `brokers` are the brokers of the service."""

    def __init__(self, cluster: WithPartitions, client: TestClient, brokers: Brokers) -> None:
        self.cluster, self.client, self.brokers = cluster, client, brokers

    def finding(self) -> str:
        (item,) = self.client.get("/api/v1/clusters/orders/findings").json()["items"]
        return str(item["id"])

    def post(self, body: Any = None, finding: str | None = None, key: str | None = KEYS["ann"], **more: Any) -> Any:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        path = f"/api/v1/clusters/orders/findings/{finding or self.finding()}/resolve"
        return self.client.post(path, **({"json": body} if body is not None else {}), headers=headers, **more)

    def execute(self) -> Any:
        return self.post({"dry_run": False})

    def audited(self) -> list[tuple[str, str]]:
        """Returns (operator, outcome) of each row of the table `audit`, in order."""
        with self.cluster.engine.connect() as connection:
            return [(row.operator, row.outcome) for row in connection.execute(select(audit).order_by(audit.c.id))]


def hanging(**more: Any) -> ActiveProducer:
    return ActiveProducer(PID, EPOCH, 4, NOW_MS, COORDINATOR_EPOCH, LSO)._replace(**more)


def shows(*open_: ActiveProducer, described: bool = True) -> CheckedPartition:
    return CheckedPartition(*PLACE, "T", NOW_MS, Leader(2, 9), Ends(0, LSO, END, 0), described, open_)


@contextmanager
def resolve_api(
    url: str, patch: pytest.MonkeyPatch, operators: dict[str, str] | None = KEYS, **finding: Any
) -> Iterator[ResolveApi]:
    """Yields the interface over a store with a confirmed hanging transaction, whose id is fenced. The brokers return
    what they returned when the judge observed the transaction. `finding` sets fields of the finding."""
    cluster, brokers = WithPartitions(url), Brokers()
    cluster.read([FENCED])
    cluster.look(stalled_partition())
    brokers.log_ends(1)
    cluster.see(hanging_finding(**{"decision": "none", "bootstrap": "b:9092", **finding}))
    patch.setattr(way_out, "LeaderCheck", lambda *_: brokers)
    brokers.facts = facts_of(finding.get("decision"), PID, EPOCH, LSO, NOW_MS)
    patch.setattr(checks, "read_facts", lambda *_: brokers.facts)
    patch.setattr(checks, "topic_layout", lambda *_: brokers.layout)
    patch.setattr(checks, "READS_WITHIN_S", 0.2)
    patch.setattr(marker, "write_marker", brokers.write_marker)
    app = create_app(url, "1.2.3", None, operators)
    app.state.txnscope = replace(app.state.txnscope, remediation_kafka=_Connected())
    with TestClient(app, raise_server_exceptions=False) as client:
        yield ResolveApi(cluster, client, brokers)
    cluster.close()


class _Connected(Kafka):
    """A connection without a client. It serves one request at a time, and reports failures as the real connection
    does."""

    def __init__(self) -> None:
        super().__init__(settings=object())  # type: ignore[arg-type]

    def _connected(self, _: Any) -> Any:
        self._cluster_id = "kafka-orders"
        return object()
