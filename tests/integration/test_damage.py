"""Tests of damaged bytes. Data that are damaged in transit are fetched again. A batch that is damaged on disk is stored
as raw bytes, and skipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.protocol.consumer import FetchResponse

from service.domain.transaction_log.states import TOPIC
from service.store.schema import rejects
from service.wire.batches import Batch, read_batches
from tests.conftest import MakeBroker
from tests.helpers.proxies import Proxies, TornAnswer
from tests.helpers.waiting import wait_for
from tests.integration.application import ingesting
from tests.integration.producers import create_topic, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]


class Harm:
    """Flips a bit in the first fetch response that contains `flipped`. Sends only the first half of the first fetch
    response that contains `cut`, and ends the connection."""

    def __init__(self, flipped: bytes, cut: bytes) -> None:
        self._flipped, self._cut = flipped, cut
        self.answers_with = {flipped: 0, cut: 0}

    def __call__(self, api_key: int, _version: int, answer: bytes) -> bytes:
        if api_key != FetchResponse.API_KEY:
            return answer
        for text in self.answers_with:
            self.answers_with[text] += text in answer
        if self._flipped in answer and self.answers_with[self._flipped] == 1:
            return answer.replace(self._flipped, bytes([self._flipped[0] ^ 1]) + self._flipped[1:], 1)
        if self._cut in answer and self.answers_with[self._cut] == 1:
            raise TornAnswer
        return answer


def test_answers_damaged_on_the_network_are_fetched_again(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker("4.3.1", **{"transaction.state.log.num.partitions": 1})
    harm = Harm(flipped=b"damp-1", cut=b"torn-2")
    with Proxies({1: broker.bootstrap}, rewrite=harm) as proxies:
        create_topic(broker.bootstrap, "suffering")
        with ingesting(proxies.bootstrap, tmp_path) as app:
            transact(open_producer(broker.bootstrap, "damp-1"), "suffering")
            app.wait_for_counts({"damp-1": (1, 0)})
            transact(open_producer(broker.bootstrap, "torn-2"), "suffering")
            app.wait_for_counts({"damp-1": (1, 0), "torn-2": (1, 0)})
            assert min(harm.answers_with.values()) >= 2
            assert (app.rejects(), app.gaps()) == ([], [])
            assert "reading stopped" not in app.log.read_text()


def test_a_batch_broken_on_disk_is_kept_raw_and_reading_continues(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker("3.9.2", **{"transaction.state.log.num.partitions": 1})
    create_topic(broker.bootstrap, "rotten")
    for name in ("before", "rotten", "behind"):
        transact(open_producer(broker.bootstrap, name), "rotten")
    broker.stop()
    offset, raw = break_last_batch(broker.data / f"{TOPIC}-0" / f"{0:020}.log", b"rotten")
    broker.start()
    with ingesting(broker.bootstrap, tmp_path) as app:
        transact(open_producer(broker.bootstrap, "after"), "rotten")
        app.wait_for_counts({"before": (0, 0), "rotten": (0, 0), "behind": (0, 0), "after": (1, 0)})
        kept = [(r.offset, r.reason, r.transactional_id, r.key, r.value) for r in app.rows(rejects)]
        assert kept == [(offset, "bad_crc", None, None, raw)]
        assert {name: stored.state for name, stored in app.ids().items() if name != "rotten"} == {
            "before": "CompleteCommit",
            "behind": "CompleteCommit",
            "after": "CompleteCommit",
        }
        assert app.gaps() == []


def test_a_partition_that_the_broker_cannot_read_holds_up_no_other(make_broker: MakeBroker, tmp_path: Path) -> None:
    """A batch on disk gets the length 0. The broker then finds no offset after this batch. Every fetch of the partition
    fails until retention removes the batch."""
    broker = make_broker("4.3.1", **{"transaction.state.log.num.partitions": 2})
    create_topic(broker.bootstrap, "poisoned")
    names = [f"id-{n}" for n in range(8)]
    for name in names:
        transact(open_producer(broker.bootstrap, name), "poisoned")
    segments = {p: broker.data / f"{TOPIC}-{p}" / f"{0:020}.log" for p in (0, 1)}
    bad = next(p for p, segment in segments.items() if names[0].encode() in segment.read_bytes())
    healthy = [name for name in names if name.encode() in segments[1 - bad].read_bytes()]
    assert healthy
    _, second, *_ = [batch for batch in read_batches(segments[bad].read_bytes()) if isinstance(batch, Batch)]
    with segments[bad].open(
        "r+b"
    ) as file:  # done while the broker runs, because a broker does not start with such a file
        file.seek(second.position + 8)
        file.write(bytes(4))
    with ingesting(broker.bootstrap, tmp_path) as app:
        wait_for(lambda: set(healthy) <= app.ids().keys(), "the ids of the other partition")
        transact(open_producer(broker.bootstrap, healthy[0]), "poisoned")
        wait_for(lambda: app.ids()[healthy[0]].commits == 1, "the next commit on the other partition")
        assert f"{TOPIC}-{bad} cannot be read: broker 1 answers a fetch of {TOPIC}-{bad} at offset" in str(
            app.log_trouble()
        )


def break_last_batch(segment: Path, transactional_id: bytes) -> tuple[int, bytes]:
    """Flips a bit in the newest batch that contains the id. Returns the offset of the batch, and its changed bytes.

    The bit is the lowest one of the start time in value v0. The coordinator accepts the changed value when it loads the
    log.
    """
    data = bytearray(segment.read_bytes())
    for batch in read_batches(bytes(data)):
        assert isinstance(batch, Batch)
        if transactional_id in data[batch.position : batch.position + batch.size]:
            newest = batch
    begin, end = newest.position, newest.position + newest.size
    data[end - 2] ^= 1
    segment.write_bytes(data)
    return newest.base_offset, bytes(data[begin:end])
