"""Explains the bytes of a partition as the service does: once from a store and a simulated broker, and once from
segment files."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from service.api.http.kafka import Kafka
from service.api.schemas.shape import to_json
from service.app import create_app
from service.cli.segments.explanation import explain_segments
from service.domain.partitions.facts import PartitionEnds
from service.domain.reasons.unread import DESCRIBE, NoPermission
from service.domain.transaction_log.facts import LogBatch
from service.kafka.errors import KafkaRefused
from service.kafka.fetch import Fetched
from service.partition_log import piece_of
from service.views.partitions import offsets_reading
from service.wire.batches import Batch, read_batches
from service.wire.columns import decode
from service.wire.log_columns import Chunk
from spark_jobs.fold.rows import batches_from_rows, folded_to_rows, reads_to_rows
from spark_jobs.fold.transaction_log import fold
from spark_jobs.fold.transitions import Scope
from tests.service.store.logs import read

AT_ONCE: Final = 4_000
"""Bytes of one fetch. The number is small, so that reading takes several fetches."""

SAME: Final = ("from", "to", "producer_id", "producer_epoch", "transactional_id", "marker", "marker_offset", "ended_at")
"""Fields of a span that are equal in both explanations. `kind` differs only for a decided transaction without a marker:
the LSO shows that the transaction is still open, and segment files do not contain the LSO."""


class Partition(NamedTuple):
    """Partition 0 of a topic: its bytes, and the LSO of its leader."""

    topic: str
    data: bytes
    batches: list[Batch]
    high_watermark: int
    last_stable_offset: int

    @staticmethod
    def of(topic: str, data: bytes) -> Partition:
        batches = [batch for batch in read_batches(data) if isinstance(batch, Batch)]
        pieces = list(map(piece_of, batches))
        begins: dict[int, int] = {}
        for piece in pieces:
            if piece.is_control:
                begins.pop(piece.producer_id, None)
            elif piece.is_transactional:
                begins.setdefault(piece.producer_id, piece.first)
        end = pieces[-1].next if pieces else 0
        return Partition(topic, data, batches, end, min(begins.values(), default=end))

    def fetched(self, at: int) -> bytes:
        """Returns the answer of the leader: the log from the batch that contains the offset `at`, with at least one
        whole batch."""
        first = self.batches[bisect_right(self.batches, at, key=lambda batch: batch.header.next_offset)]
        return self.data[first.position : first.position + max(AT_ONCE, first.size)]


class _Silent(Kafka):
    """Stands in for the service's connection to Kafka, which is never used here."""

    @contextmanager
    def asking(self, cluster: Any) -> Iterator[Any]:
        yield None


@contextmanager
def service(url: str, now_ms: int) -> Iterator[TestClient]:
    app = create_app(url, "1.2.3", now_ms=lambda: now_ms)
    app.state.txnscope = replace(app.state.txnscope, kafka=_Silent(None))
    with TestClient(app) as client:
        yield client


def live(client: TestClient, partition: Partition, offset: int, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Returns the service's answer about the offsets from `offset` to the end of the partition."""

    def fetch(_: object, place: PartitionEnds, at: int, max_bytes: int) -> Fetched:
        return Fetched(
            partition.topic, 0, 0, partition.high_watermark, partition.last_stable_offset, 0, partition.fetched(at)
        )

    def refuse(*_: object) -> None:
        raise KafkaRefused(NoPermission(partition.topic, (DESCRIBE,)))

    patch.setattr(
        offsets_reading, "find", lambda *_: PartitionEnds(partition.topic, 0, "T", 1, 5, 0, 0, partition.high_watermark)
    )
    patch.setattr(offsets_reading, "_fetch", fetch)
    patch.setattr(offsets_reading, "describe_producers", refuse)
    path = f"/api/v1/clusters/orders/partitions/{partition.topic}/0/offsets/{offset}"
    answer = client.get(path, params={"to": partition.high_watermark})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def from_files(files: Sequence[Path], partition: Partition, offset: int) -> dict[str, Any]:
    """Returns the explanation of the same offsets as `live`, from segment files."""
    explanation, _ = explain_segments(list(map(str, files)), offset, partition.high_watermark, (partition.topic, 0))
    found: dict[str, Any] = json.loads(to_json(explanation))
    return found


def arrived(log: bytes, lo: int, hi: int, partition: int = 0) -> LogBatch:
    """Returns the batch that the driver decodes from these bytes of the transaction log."""
    columns = decode([Chunk(partition, lo, hi, log)])
    rows = [
        *folded_to_rows(fold(columns, Scope(frozenset({partition})))),
        reads_to_rows([read(lo, hi, partition=partition)]),
    ]
    (found,) = batches_from_rows(pa.Table.from_batches(rows))
    return found


def assert_same_spans(live_answer: dict[str, Any], files: dict[str, Any], topic: str) -> None:
    assert [[span[name] for name in SAME] for span in live_answer["spans"]] == [
        [span[name] for name in SAME] for span in files["spans"]
    ], topic
    for span, other in zip(live_answer["spans"], files["spans"], strict=True):
        is_decided = (span["kind"], other["kind"]) == ("open", "unknown") and "decision" in other
        assert span["kind"] == other["kind"] or is_decided, (topic, span, other)


def same_causes(live_answer: dict[str, Any], files: dict[str, Any], topic: str) -> Iterator[str | None]:
    """Asserts that both explanations give equal causes, and yields the causes. Their confidence must be equal as well,
    except for commits: the store counts ordinary commits by minute, so only the log shows how certain they are. Leaves
    out spans with a decision about a missing marker. Also leaves out spans with a manual marker: only the store
    recognizes one, because only the store has every decision of a period."""
    for span, other in zip(live_answer["spans"], files["spans"], strict=True):
        if "decision" in span or "decision" in other or span.get("by_hand"):
            continue
        assert span["cause"] == other["cause"], (topic, span, other)
        if span["cause"] != "commit":
            assert span["confidence"] == other["confidence"], (topic, span, other)
        yield span["cause"]
