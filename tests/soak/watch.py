"""Samples the application's answers and the real leaders, to see which partitions are judged and which transactions
hang."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any, Final, NamedTuple

from service.kafka.client import KafkaClient
from service.kafka.cluster import all_topics
from service.kafka.errors import KafkaFailure
from tests.benchmarks.watched import Watched
from tests.helpers.brokers import Cluster, connect
from tests.soak.clients import Key

EVERY_S: Final = 0.5
FRESH_S: Final = 10.0
"""Maximum age in seconds of the data of an answer. Verdicts in an older answer do not count."""

Place = tuple[str, int]


class Sample(NamedTuple):
    """One sample of the answers.

    - `as_of_s`: the time of the data in the answers; 0 without an answer or without data.
    - `lit`: the number of judged partitions whose leader is up.
    - `dark`: the partitions that are not judged although their leader is up, each with the reason.
    - `unknown`: the number of unknown partitions in the answer about the cluster; -1 without an answer.
    """

    at_s: float
    as_of_s: float
    lit: int
    dark: dict[Place, str]
    away: frozenset[int]
    unknown: int


@dataclass
class Seen:
    """The samples so far.

    - `found`: the time at which each confirmed entry was first seen, keyed by topic, partition, producer id and start
      offset.
    - `said`: what the application answered about the entry at that time, under the same key.
    - `dropped`: the time at which the entry was first missing in the answers again, under the same key.
    """

    samples: list[Sample] = field(default_factory=list)
    found: dict[Key, float] = field(default_factory=dict)
    said: dict[Key, Any] = field(default_factory=dict)
    dropped: dict[Key, float] = field(default_factory=dict)

    def share(self) -> float:
        """Returns the share of partition-seconds in which partitions were judged, for partitions whose leader was
        up."""
        lit = sum(sample.lit for sample in self.samples)
        return lit / max(lit + sum(len(sample.dark) for sample in self.samples), 1)

    def judged_again_s(self, after_s: float) -> float | None:
        """Returns the seconds from `after_s` until the first sample in which no broker was away and all partitions were
        judged, by data from `after_s` or later. Returns None if there is no such sample."""
        good = (s.at_s for s in self.samples if s.as_of_s >= after_s and not s.dark and not s.away)
        return next((at - after_s for at in good), None)

    def reasons(self) -> Counter[str]:
        """Returns, for each reason, how often it prevented a verdict. Each partition counts once in each sample."""
        return Counter(why for sample in self.samples for why in sample.dark.values())


class Watching:
    """Takes samples until the `with` block ends. `away` returns the brokers that are known not to answer; `topics` is a
    pattern of the watched topics."""

    def __init__(
        self, watched: Watched, cluster: Cluster, away: Callable[[], frozenset[int]], topics: str = "*"
    ) -> None:
        self._rest, self._away = watched.rest(), away
        self._leaders = _Leaders(cluster, away, topics)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seen = Seen()

    def __enter__(self) -> Watching:
        self._leaders.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self._leaders.stop()
        self._rest.close()

    def _run(self) -> None:
        next_s = time.monotonic()
        while not self._stop.is_set():
            before = self._away()
            body = self._rest.get("/partitions", limit=200)
            reported = self._rest.get("")
            hanging = self._rest.get("/hanging", limit=200)
            now = time.time()
            if leaders := self._leaders.now:
                self.seen.samples.append(_sample(body, reported, leaders, before | self._away(), now))
            self._take(hanging, now)
            next_s = max(next_s + EVERY_S, time.monotonic())
            self._stop.wait(next_s - time.monotonic())

    def _take(self, hanging: Any, now: float) -> None:
        if hanging is None:
            return
        here = set()
        for one in hanging["items"]:
            on = one["subject"]
            key = on["topic"], on["partition"], on["producer_id"], on["start_offset"]
            here.add(key)
            if key not in self.seen.found:
                self.seen.found[key], self.seen.said[key] = now, one
        for key in self.seen.found.keys() - here:
            self.seen.dropped.setdefault(key, now)


def as_of_s(body: Any) -> float:
    """Returns the time of the data in an answer, or 0 if there were never any data."""
    return 0.0 if body["as_of"] is None else datetime.fromisoformat(body["as_of"]).timestamp()


def _sample(body: Any, reported: Any, leaders: dict[Place, int], away: frozenset[int], now: float) -> Sample:
    as_of = 0.0 if body is None else as_of_s(body)
    items = {} if body is None else {(one["topic"], one["partition"]): one for one in body["items"]}
    dark: dict[Place, str] = {}
    up = [place for place, node in leaders.items() if node not in away]
    for place in up:
        one = items.get(place)
        if now - as_of > FRESH_S:
            dark[place] = "no recent answer"
        elif one is None:
            dark[place] = "not listed"
        elif not one["judged"]:
            dark[place] = one["why"]
    unknown = -1 if reported is None else reported["partitions"]["unknown"]
    return Sample(now, as_of, len(up) - len(dark), dark, away, unknown)


class _Leaders:
    """Requests the leaders of all partitions of the watched topics again and again, from the first broker that is not
    away. `now` is the newest answer. Each answer is a new mapping."""

    def __init__(self, cluster: Cluster, away: Callable[[], frozenset[int]], topics: str) -> None:
        self._cluster, self._away, self._topics = cluster, away, topics
        self._clients: dict[int, KafkaClient] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.now: dict[Place, int] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        for client in self._clients.values():
            client.close()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S / 2):
            node = min(self._cluster.nodes.keys() - self._away())
            try:
                if node not in self._clients:
                    self._clients[node] = connect(self._cluster.nodes[node].bootstrap)
                layouts = all_topics(self._clients[node], node).layouts
            except KafkaFailure:
                if node in self._clients:
                    self._clients.pop(node).close()
                continue
            self.now = {
                (name, p): leader.node
                for name, of in layouts.items()
                if fnmatchcase(name, self._topics)
                for p, leader in of.leaders.items()
            }
