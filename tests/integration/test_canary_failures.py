"""Tests the canary on three real brokers: a failing coordinator is named within 15 s, and no other coordinator is
named."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from service.kafka.canary_topic import Replicas, read_replicas
from service.kafka.permissions import controller_clock
from service.kafka.settings import ClientSettings
from tests.helpers.brokers import Cluster, connect, elect
from tests.helpers.waiting import LIMIT_S, wait_until
from tests.integration.canary_lab import NAMED_WITHIN_S, TOPIC, Watched, running_canary, store_of
from tests.integration.producers import open_producer

pytestmark = [pytest.mark.broker, pytest.mark.alone, pytest.mark.in_turns]

LOG = "__transaction_state"
ALL = (1, 2, 3)
VERSION = "4.3.1"
EVERY_MS = 10_000
SMALL = "size=96m"
"""Mount option with the size of a small file system. A broker without data fits into it."""


class Lab:
    """A cluster with a canary whose rounds are 10 s apart, as by default."""

    def __init__(self, cluster: Cluster, watched: Watched) -> None:
        self.cluster, self.watched = cluster, watched

    def replicas(self, bootstrap: str | None = None) -> Replicas:
        with connect(bootstrap or self.cluster.bootstrap) as client:
            return read_replicas(client, [LOG, TOPIC])

    def led_by(self, broker: int) -> list[int]:
        return [topic.partition for topic in self.replicas().topics[LOG] if topic.leader == broker]

    def follower(self) -> int:
        """Returns a broker that is not the active controller. A fault of the controller would also cause an election,
        which is a second disturbance."""
        with connect(self.cluster.bootstrap) as client:
            clock = controller_clock(client, 1)
        assert clock is not None
        return next(broker for broker in ALL if broker != clock.node)

    def is_named(self, wanted: dict[int, set[str]]) -> None:
        """Waits up to 15 s until exactly the coordinators in `wanted` are named, each with one of the errors that
        `wanted` has for it. Then waits until each other coordinator has finished one more round. Fails if any other
        coordinator is named meanwhile."""
        seen: dict[int, set[str]] = {}

        def failing() -> dict[int, str]:
            now = self.watched.failing()
            for broker, error in now.items():
                seen.setdefault(broker, set()).add(error)
            return now

        wait_until(
            failing,
            lambda now: now.keys() == wanted.keys() and all(now[broker] in wanted[broker] for broker in wanted),
            f"{wanted} to be named",
            NAMED_WITHIN_S,
        )
        assert seen.keys() <= wanted.keys(), seen
        others = [broker for broker in ALL if broker not in wanted]
        before = self.watched.coordinators()
        wait_until(
            lambda: (failing(), self.watched.coordinators())[1],
            lambda now: all(now[broker].rounds > before[broker].rounds for broker in others),
            f"another round of each of the brokers {others}",
        )
        assert seen.keys() <= wanted.keys(), seen

    def settle(self) -> None:
        """Makes each broker lead a partition of the transaction log and one of the canary's topic. Waits until the
        canary has probed each broker once more."""
        order = {at: [*ALL[at:], *ALL[:at]] for at in range(len(ALL))}

        def seen_after_election() -> list[Replicas]:
            """Elects the leaders, and returns the answers of all brokers. One call may not be enough: a restarted
            broker is elected only when it is in sync, and a broker that was frozen may still return the old state."""
            with connect(self.cluster.bootstrap) as client:
                elect(client, {LOG: order, TOPIC: order})
            return [self.replicas(node.bootstrap) for node in self.cluster.nodes.values()]

        wait_until(
            seen_after_election,
            lambda seen: all(map(_is_whole, seen)),
            "all replicas to be in sync, and a partition for each leader",
        )
        self.watched.wait_for_rounds(1, *ALL)


def _is_whole(now: Replicas) -> bool:
    return all(
        {one.leader for one in now.topics[topic]} == {*ALL} and all(one.in_sync == 3 for one in now.topics[topic])
        for topic in (LOG, TOPIC)
    )


@contextmanager
def lab_of(cluster: Cluster, directory: Path) -> Iterator[Lab]:
    open_producer(cluster.bootstrap, "creates the transaction log")
    settings = ClientSettings.load(cluster.bootstrap, None)
    with store_of(cluster.bootstrap, directory) as watched, running_canary(watched, settings, every_ms=EVERY_MS):
        watched.wait(lambda found: found.keys() == {*ALL}, "all coordinators to be probed")
        yield Lab(cluster, watched)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("canary")
    with Cluster(VERSION, directory / "kafka") as cluster, lab_of(cluster, directory) as lab:
        yield lab


@pytest.fixture
def lab(shared: Lab) -> Lab:
    shared.settle()
    return shared


def test_a_frozen_coordinator_is_named_and_no_other_one(lab: Lab) -> None:
    frozen = lab.follower()
    lab.cluster.nodes[frozen].pause()
    try:
        lab.is_named({frozen: {"BROKER_NOT_AVAILABLE", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION"}})
    finally:
        lab.cluster.nodes[frozen].resume()


def test_a_coordinator_whose_log_lost_its_replicas_is_named_with_the_cause(lab: Lab) -> None:
    lost = lab.follower()
    alone = next(broker for broker in ALL if broker != lost)
    (partition,) = lab.led_by(alone)
    with connect(lab.cluster.bootstrap) as client:
        elect(client, {LOG: {partition: [alone, lost]}})
    wait_until(lambda: lab.led_by(alone), lambda led: partition in led, "the partition to keep its leader")
    lab.watched.wait_for_rounds(1, *ALL)
    lab.cluster.nodes[lost].kill()
    try:
        lab.is_named(
            {
                alone: {"NOT_ENOUGH_REPLICAS"},
                lost: {"BROKER_NOT_AVAILABLE", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION"},
            }
        )
    finally:
        lab.cluster.nodes[lost].start()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yields the directory of broker 3, which is a small file system of its own."""
    folder = tmp_path / "kafka" / "node-3"
    folder.mkdir(parents=True)
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", SMALL, "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_broker_whose_disk_is_full_is_named_and_no_other_one(small_disk: Path, tmp_path: Path) -> None:
    """The full disk has the broker's only log directory, so the broker ends itself."""
    with Cluster(VERSION, tmp_path / "kafka") as cluster, lab_of(cluster, tmp_path) as lab:
        lab.settle()
        with (small_disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * 65_536)
        lab.is_named({3: {"BROKER_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION"}})
        wait_until(cluster.nodes[3].poll, lambda code: code is not None, "the broker to end itself", LIMIT_S)
