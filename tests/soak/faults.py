"""Causes faults of brokers as in production. Brokers freeze, slow down, restart, die, lose the leadership of
partitions, and are upgraded."""

from __future__ import annotations

import random
import time
from collections.abc import Collection
from typing import Final, NamedTuple

from service.domain.transaction_log.states import TOPIC
from service.kafka.cluster import all_topics
from service.kafka.errors import KafkaFailure
from tests.helpers.brokers import Cluster, connect, elect
from tests.helpers.waiting import ANSWER_S, wait_for
from tests.integration.producers import admin_of
from tests.soak.clients import TOPICS

SESSION_S: Final = 6.0
PROPERTIES: Final = {"broker.session.timeout.ms": f"{SESSION_S * 1000:.0f}", "broker.heartbeat.interval.ms": "500"}

FROZEN: Final = "frozen, others lead"
HICCUP: Final = "frozen, it leads on"
LIMPING: Final = "slow markers"
COORDINATORS: Final = "coordinators move"
LEADERS: Final = "leaders move"
RESTARTED: Final = "restarted"
KILLED: Final = "killed"
UPGRADED: Final = "upgraded"
FEATURES: Final = "features of the new version"
ROLL: Final = (UPGRADED, UPGRADED, UPGRADED, FEATURES)
"""The steps of a rolling upgrade: first each broker, then the features that need all brokers upgraded (TV2)."""
KINDS: Final = (FROZEN, COORDINATORS, KILLED, HICCUP, LEADERS, LIMPING, RESTARTED)

_PULSES, _STOPPED_S, _GOING_S = 12, 0.6, 0.4


class Done(NamedTuple):
    """A fault that has ended. `node` is the broker that the fault hit, or None if leaders moved or features were
    upgraded. Times are those of time.time()."""

    kind: str
    node: int | None
    began_s: float
    ended_s: float


class Faults:
    """Causes faults, one at a time. `away` has the brokers that do not answer now. `roll_to` is the version to which
    brokers are upgraded."""

    def __init__(self, cluster: Cluster, seed: int, roll_to: str | None = None) -> None:
        self._cluster, self._chance, self._roll_to = cluster, random.Random(seed), roll_to
        self.away: frozenset[int] = frozenset()
        self.done: list[Done] = []

    def do(self, kind: str) -> Done:
        """Causes a fault of this kind. Returns the fault when it has ended; replicas may still have to catch up then
        (`settle`)."""
        began = time.time()
        node = self._victim(kind)
        if kind == FEATURES:
            self._upgrade_features()
        elif node is None:
            self._move([TOPIC] if kind == COORDINATORS else TOPICS)
        else:
            self._harm(kind, node)
        self.done.append(Done(kind, node, began, time.time()))
        return self.done[-1]

    def settle(self) -> None:
        """Waits until all replicas are in sync again."""
        admin = admin_of(self._cluster.bootstrap)

        def whole() -> bool:
            topics = admin.list_topics(timeout=ANSWER_S).topics.values()
            return all(len(p.isrs) == len(p.replicas) for topic in topics for p in topic.partitions.values())

        wait_for(whole, "all replicas in sync")

    def _victim(self, kind: str) -> int | None:
        if kind in (COORDINATORS, LEADERS, FEATURES):
            return None
        if kind == UPGRADED:
            return min(node for node, broker in self._cluster.nodes.items() if broker.version != self._roll_to)
        with connect(self._cluster.bootstrap) as client:
            leading = {leader.node for leader in all_topics(client).layouts[TOPIC].leaders.values()}
        return self._chance.choice(sorted(leading))

    def _harm(self, kind: str, node: int) -> None:
        broker = self._cluster.nodes[node]
        if kind == LIMPING:
            for _ in range(_PULSES):
                self._freeze(node, _STOPPED_S)
                time.sleep(_GOING_S)
        elif kind in (FROZEN, HICCUP):
            self._freeze(node, SESSION_S * 2 if kind == FROZEN else SESSION_S * 0.7)
        else:
            self.away = frozenset({node})
            if kind == KILLED:
                broker.kill()
                time.sleep(SESSION_S + 2)
            else:
                broker.stop()
            if kind == UPGRADED and self._roll_to is not None:
                broker.version = self._roll_to
            broker.start()
            self.away = frozenset()

    def _upgrade_features(self) -> None:
        release = str(self._roll_to).rpartition(".")[0]
        broker = next(iter(self._cluster.nodes.values()))
        where = ("--bootstrap-server", self._cluster.bootstrap)
        broker.tool("org.apache.kafka.tools.FeatureCommand", *where, "upgrade", "--release-version", release)

    def _freeze(self, node: int, seconds: float) -> None:
        broker = self._cluster.nodes[node]
        self.away = frozenset({node})
        broker.pause()
        try:
            time.sleep(seconds)
        finally:
            broker.resume()
            self.away = frozenset()

    def _move(self, topics: Collection[str]) -> None:
        """Makes the next replica of each partition of the topics the leader, as an operator does to move load."""
        admin = admin_of(self._cluster.bootstrap)
        reported = admin.list_topics(timeout=ANSWER_S).topics
        order = {
            name: {p.id: [*p.replicas[1:], p.replicas[0]] for p in reported[name].partitions.values()}
            for name in topics
        }

        def moved() -> bool:
            try:
                with connect(self._cluster.bootstrap) as client:
                    elect(client, order)
                    now = all_topics(client).layouts
            except KafkaFailure:
                return False
            return all(now[name].leaders[p].node == to[0] for name, some in order.items() for p, to in some.items())

        wait_for(moved, f"other leaders of {', '.join(topics)}")
