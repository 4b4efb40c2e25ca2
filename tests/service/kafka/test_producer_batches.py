"""Reads the markers and batches of a producer id, and tells where offsets are missing. A log in memory answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.kafka import fetch
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader
from service.kafka.fetch import Fetched, PartitionFetch
from service.kafka.log_range import BatchesRead, batches_between
from tests.helpers.builders.batches import COMMIT, TRANSACTIONAL, Rec, batch, control_batch

PID = 7


def data(offset: int, last: int | None = None, epoch: int = 0, producer_id: int = PID) -> bytes:
    return batch(
        [Rec(b"key", b"value", 0)],
        offset,
        last_offset_delta=(offset if last is None else last) - offset,
        leader_epoch=5,
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def marker(offset: int) -> bytes:
    return control_batch(COMMIT, offset, producer_id=PID, producer_epoch=0)


def read(patch: pytest.MonkeyPatch, batches: dict[int, bytes], lo: int, hi: int) -> BatchesRead:
    """`batches`: by their last offset; what is not there was cleaned."""

    def fetched(
        _client: object, _node: int, _topic: str, wanted: Sequence[PartitionFetch], *_: int, **__: int
    ) -> list[Fetched]:
        (one,) = wanted
        some = b"".join(held for last, held in sorted(batches.items()) if last >= one.offset)
        return [Fetched(one.partition, 0, 100, 0, some)]

    patch.setattr(fetch, "fetch", fetched)
    client: KafkaClient = object()  # type: ignore[assignment]
    return batches_between(client, "orders", 0, Leader(1, 5), PID, lo, hi)


def test_markers_and_data_of_the_producer_id(monkeypatch: pytest.MonkeyPatch) -> None:
    log = {2: data(0, 2), 3: data(3, producer_id=8), 4: marker(4), 9: data(5, 9, epoch=1)}
    found = read(monkeypatch, log, 0, 10)
    assert [(one.offset, one.is_commit) for one in found.markers] == [(4, True)]
    assert [(one.first, one.last, one.producer_epoch) for one in found.data] == [(0, 2, 0), (5, 9, 1)]
    assert (found.reached, found.is_whole, found.unbroken_from) == (10, True, 0)


@pytest.mark.parametrize(
    ("log", "unbroken_from"),
    [
        ({5: data(5)}, 5),
        ({2: data(0, 2), 5: data(4, 5)}, 4),
        ({5: data(0, 5)}, 1),
        ({1: data(0, 1)}, 9),
    ],
    ids=["nothing before", "a gap", "one that begins before", "nothing but what follows"],
)
def test_what_the_cleaner_took_may_have_been_a_marker(
    monkeypatch: pytest.MonkeyPatch, log: dict[int, bytes], unbroken_from: int
) -> None:
    found = read(monkeypatch, {**log, 9: data(9)}, 1, 6)
    assert (found.reached, found.is_whole) == (6, True)
    assert found.unbroken_from == unbroken_from


def test_what_is_damaged_may_have_been_a_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = bytearray(marker(1))
    broken[-1] ^= 1
    found = read(monkeypatch, {0: data(0), 1: bytes(broken), 5: data(2, 5)}, 0, 6)
    assert (found.markers, found.is_whole, found.unbroken_from) == ((), False, 2)
