"""Tests of end offsets of many partitions, from real brokers that answer, refuse, freeze and die."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.demo.broker import Broker
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout, all_topics
from service.kafka.ends import TIMEOUT_MS, Ends, EndsWatcher
from tests.helpers.brokers import Cluster, connect
from tests.helpers.waiting import ANSWER_S, wait_until, wait_until_equal
from tests.integration.producers import open_producer, transact
from tests.service.kafka.asking import new_topic, open_transaction

pytestmark = pytest.mark.broker

Watched = dict[str, TopicLayout]
WAITS_S = TIMEOUT_MS / 1000
"""Seconds for which a sample waits for a broker that answered before and does not answer now."""
UNKNOWN_TOPIC, FENCED_EPOCH, UNKNOWN_EPOCH = 3, 74, 75


def settled(
    watcher: EndsWatcher, layouts: Watched, *, with_start: bool = False, records: int = 0
) -> dict[tuple[str, int], Ends]:
    """Takes samples until one meets three conditions, and returns this sample: every partition answers, no partition
    has an open transaction, and all partitions together have at least `records` records.

    Markers count as records, because a broker may write a marker after it has answered the commit.
    """

    def is_settled(found: dict[tuple[str, int], Ends]) -> bool:
        is_open = any(e.error or e.last_stable_offset < e.high_watermark for e in found.values())
        return not is_open and sum(e.high_watermark for e in found.values()) >= records

    return wait_until(
        lambda: watcher.sample(layouts, with_start=with_start),
        is_settled,
        f"no open transaction, and {records} records",
    )


def trouble(watcher: EndsWatcher) -> str:
    return watcher.trouble or "none"


def test_an_open_transaction_lies_between_the_lso_and_the_high_watermark(broker: Broker, client: KafkaClient) -> None:
    layouts = {t: new_topic(client, broker.bootstrap, t) for t in ("ends-open", "ends-idle")}
    transact(open_producer(broker.bootstrap, "ends-before"), "ends-open")  # the producer chose the partition
    watcher = EndsWatcher(client)
    before = settled(watcher, layouts, with_start=True, records=2)
    assert [e.log_start for e in before.values()] == [0, 0, 0, 0]
    with open_transaction(broker.bootstrap, "ends-open", "ends-open", partition=1) as producer:
        start = before["ends-open", 1].high_watermark
        now = watcher.sample(layouts, with_start=True)
        assert now["ends-open", 1] == Ends(0, start, start + 1, errors.NONE)
        assert {place: e for place, e in now.items() if place != ("ends-open", 1)} == {
            place: e for place, e in before.items() if place != ("ends-open", 1)
        }
        producer.commit_transaction(ANSWER_S)
        after = settled(watcher, layouts, records=4)
        assert after["ends-open", 1] == Ends(-1, start + 2, start + 2, errors.NONE)
        producer.begin_transaction()


def test_a_refused_partition_has_no_offsets(broker: Broker, client: KafkaClient) -> None:
    good = new_topic(client, broker.bootstrap, "ends-refused", 4)
    watcher = EndsWatcher(client)
    settled(watcher, {"ends-refused": good})
    led = good.leaders[0]
    wrong = good.leaders | {
        1: replace(led, epoch=led.epoch + 5),
        2: replace(led, node=-1),
        3: replace(led, node=led.node + 98),
        77: led,
    }
    missing = TopicLayout("ends-missing", good.topic_id, {0: led})
    found = watcher.sample({"ends-missing": missing, "ends-refused": replace(good, leaders=wrong)}, with_start=True)
    assert found == {
        ("ends-missing", 0): Ends(-1, -1, -1, UNKNOWN_TOPIC),
        ("ends-refused", 0): Ends(0, 0, 0, errors.NONE),
        ("ends-refused", 1): Ends(-1, -1, -1, UNKNOWN_EPOCH),
        ("ends-refused", 2): Ends(-1, -1, -1, errors.LEADER_NOT_AVAILABLE),
        ("ends-refused", 3): Ends(-1, -1, -1, errors.LEADER_NOT_AVAILABLE),
        ("ends-refused", 77): Ends(-1, -1, -1, UNKNOWN_TOPIC),
    }
    assert f"broker {led.node + 98}" in trouble(watcher)
    assert watcher.sample({"ends-refused": good}, with_start=False).keys() == {("ends-refused", p) for p in range(4)}
    assert trouble(watcher) == "none"


def test_partitions_added_during_sampling_are_sampled_too(broker: Broker, client: KafkaClient) -> None:
    layouts: Watched = {"ends-first": new_topic(client, broker.bootstrap, "ends-first", 3)}
    watcher = EndsWatcher(client)
    assert len(settled(watcher, layouts)) == 3
    layouts["ends-added"] = new_topic(client, broker.bootstrap, "ends-added", 40)
    transact(open_producer(broker.bootstrap, "ends-added"), "ends-added")
    found = settled(watcher, layouts, with_start=True, records=2)
    assert list(found) == [("ends-first", p) for p in range(3)] + [("ends-added", p) for p in range(40)]
    assert sum(e.high_watermark for e in found.values()) == 2, "only the record and its marker exist"
    everything = all_topics(client).layouts
    assert "__transaction_state" in everything
    assert watcher.sample(everything, with_start=False).items() >= settled(EndsWatcher(client), layouts).items()
    assert watcher.sample({}, with_start=True) == {}


def sample_and_seconds(watcher: EndsWatcher, layouts: Watched) -> tuple[dict[int, int], float]:
    """Takes a sample. Returns a mapping from leader to error code, and the duration of the sample in seconds."""
    began = time.monotonic()
    found = watcher.sample(layouts, with_start=False)
    seconds = time.monotonic() - began
    return {layouts[topic].leaders[p].node: e.error for (topic, p), e in found.items()}, seconds


@pytest.mark.parametrize("version", ["3.9.2"])
def test_a_broker_that_freezes_or_dies_does_not_hold_up_the_others(version: str, tmp_path: Path) -> None:
    with Cluster(version, tmp_path) as cluster, connect(cluster.bootstrap) as client:
        watcher, other = EndsWatcher(client), EndsWatcher(client)
        layouts = {"ends-frozen": new_topic(client, cluster.bootstrap, "ends-frozen", 3)}
        assert {leader.node for leader in layouts["ends-frozen"].leaders.values()} == {1, 2, 3}
        settled(watcher, layouts)
        silent = errors.LEADER_NOT_AVAILABLE

        cluster.nodes[2].pause()
        # the signal is asynchronous: the broker may answer once more
        codes, seconds = wait_until(
            lambda: sample_and_seconds(watcher, layouts), lambda found: found[0][2] != 0, "broker 2 to stop answering"
        )
        assert codes == {1: errors.NONE, 2: silent, 3: errors.NONE}
        assert seconds < 2 * WAITS_S
        assert "broker 2" in trouble(watcher)
        for again in (watcher, other, watcher):
            codes, seconds = sample_and_seconds(again, layouts)
            assert codes == {1: errors.NONE, 2: silent, 3: errors.NONE}
            assert seconds < WAITS_S, "broker 2 is known to be unresponsive"
            assert "broker 2" in trouble(again)
        cluster.nodes[2].resume()
        wait_until_equal(lambda: answered(watcher, layouts), {errors.NONE}, "the error codes of all leaders")
        assert trouble(watcher) == "none"

        cluster.nodes[3].kill()
        codes, seconds = sample_and_seconds(watcher, layouts)
        assert codes == {1: errors.NONE, 2: errors.NONE, 3: silent}
        assert seconds < WAITS_S
        cluster.nodes[3].start()
        layout = wait_until(
            lambda: all_topics(client).layouts["ends-frozen"],
            lambda layout: {leader.node for leader in layout.leaders.values()} == {1, 2, 3},
            "each broker to lead a partition",
        )
        wait_until_equal(
            lambda: answered(watcher, {"ends-frozen": layout}), {errors.NONE}, "the error codes of all leaders"
        )


def answered(watcher: EndsWatcher, layouts: Watched) -> set[int]:
    return set(sample_and_seconds(watcher, layouts)[0].values())
