"""The same bytes, explained live and from segment files: the same spans, causes and sums, over drawn histories with
skipped, lost and repeated markers; and what is said of records without a marker is what really was decided."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from service.api.http.kafka import Kafka
from service.api.routes import offsets_reading
from service.api.routes.offsets_reading import Place
from service.api.schemas.shape import to_json
from service.app import create_app
from service.cli.segments.explanation import explain_segments
from service.domain.reasons.unread import DESCRIBE, NoPermission
from service.domain.transaction_log.facts import LogBatch
from service.domain.transaction_log.states import EXPIRED
from service.kafka.errors import KafkaRefused
from service.kafka.fetch import FetchedAt
from service.kafka.metadata import Leader
from service.wire.columns import Chunk, decode
from spark_jobs.fold.rows import batches_from_rows, folded_to_rows, reads_to_rows
from spark_jobs.fold.transaction_log import fold
from spark_jobs.fold.transitions import Scope
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.batches import ABORT, COMMIT, TRANSACTIONAL, Rec, batch, control_batch
from tests.helpers.stores import SeededCluster
from tests.service.store.logs import read
from tests.worlds.cluster import JUDGED, Batch, Cluster, LogRecord, Protocol
from tests.worlds.history import STEPS, Run, Tally
from tests.worlds.observer import Observer

HISTORIES: Final = 200
BEGAN_MS: Final = 1_790_000_000_000
APART_MS: Final = 1_500_000
NO_CLOCK: Final = property(lambda self: 0, lambda self, value: None)


class _OneClock(Cluster):
    """A cluster whose brokers and clients have the same time."""

    coordinator_skew_ms = leader_skew_ms = client_skew_ms = NO_CLOCK


class _Unjudged(Run):
    """A history in which nothing is judged."""

    def judge(self) -> None:
        pass


class History(NamedTuple):
    """The bytes of a drawn history. `log`: of the transaction log, from offset `lo` on; `data`: of the partition."""

    cluster: Cluster
    topic: str
    log: bytes
    lo: int
    data: list[bytes]
    last_stable_offset: int

    def fetched(self, offset: int) -> bytes:
        return b"".join(self.data[offset : offset + 7])


class Told(NamedTuple):
    """A history from an offset on, explained live and from files."""

    history: History
    live: dict[str, Any]
    files: dict[str, Any]


def history_of(seed: int, lo: int) -> History:
    random = Random(seed)
    cluster = _OneClock(random, random.choice(list(Protocol)), can_skip=random.random() < 0.5)
    cluster.now_ms = BEGAN_MS + seed * APART_MS
    run = _Unjudged(cluster, Observer(cluster), random, Tally())
    for _ in range(STEPS):
        run.step()
    own = seed * 100_000
    log = b"".join(_record(one, seed, lo, own) for one in cluster.log if not one.is_removed)
    data = [_batch(one, own) for one in cluster.data]
    return History(cluster, f"y{seed}", log, lo, data, _last_stable_offset(cluster.data))


def _record(one: LogRecord, seed: int, lo: int, own: int) -> bytes:
    topics = [(f"y{seed}" if name == JUDGED else "other", [0]) for name in sorted(one.partitions)]
    previous = one.previous_producer_id
    data = (
        build.value(
            producer_id=own + one.producer_id,
            producer_epoch=one.producer_epoch,
            status=one.state,
            topics=topics,
            last_update_ms=one.timestamp_ms,
            start_ms=one.start_ms,
            tagged=build.tags(None if previous < 0 else own + previous, None, one.version or None),
        )
        if one.state != EXPIRED
        else None
    )
    return build.transition(f"{one.key}-{seed}", lo + one.offset, timestamp_ms=one.timestamp_ms, data=data)


def _batch(one: Batch, own: int) -> bytes:
    if one.is_marker:
        kind = COMMIT if one.is_commit else ABORT
        return control_batch(
            kind, one.offset, producer_id=own + one.producer_id, producer_epoch=one.epoch, timestamp_ms=one.timestamp_ms
        )
    has_producer = one.producer_id >= 0
    return batch(
        [Rec(b"k", b"v")],
        one.offset,
        timestamp_ms=one.timestamp_ms,
        attributes=TRANSACTIONAL if has_producer else 0,
        producer_id=own + one.producer_id if has_producer else -1,
        producer_epoch=one.epoch,
        base_sequence=one.sequence,
    )


def _last_stable_offset(data: Sequence[Batch]) -> int:
    begins: dict[int, int] = {}
    for one in data:
        if one.is_marker:
            begins.pop(one.producer_id, None)
        elif one.producer_id >= 0:
            begins.setdefault(one.producer_id, one.offset)
    return min(begins.values(), default=len(data))


class _Silent(Kafka):
    """Lends a client that is never asked: what it would answer is played by the test."""

    @contextmanager
    def asking(self, cluster: Any) -> Iterator[Any]:
        yield None


def applied(log: bytes, lo: int, hi: int) -> LogBatch:
    """Returns what executors hand to the driver of these bytes."""
    columns = decode([Chunk(0, lo, hi, log)])
    rows = [*folded_to_rows(fold(columns, Scope(frozenset({0})))), reads_to_rows([read(lo, hi)])]
    (found,) = batches_from_rows(pa.Table.from_batches(rows))
    return found


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Told]]:
    """Each history from its beginning and from another offset, explained live and from files."""
    folder = tmp_path_factory.mktemp("explained")
    cluster = SeededCluster(f"sqlite:///{folder / 'store.db'}", started_ms=BEGAN_MS)
    now_ms, histories, lo = BEGAN_MS + (HISTORIES + 1) * APART_MS, [], 0
    for seed in range(HISTORIES):
        one = history_of(seed, lo)
        hi = lo + len(one.cluster.log)
        cluster.writer.apply(applied(one.log, lo, hi), now_ms)
        histories.append(one)
        lo = hi
    with pytest.MonkeyPatch.context() as patch:
        app = create_app(cluster.url, "1.2.3", now_ms=lambda: now_ms)
        app.state.kafka = _Silent(None)
        with TestClient(app) as client:
            yield [
                Told(one, _live(client, one, offset, patch), _from_files(folder, one, offset))
                for one in histories
                for offset in {0, Random(one.topic).randrange(len(one.data) or 1)}
                if one.data
            ]
    cluster.close()


def _live(client: TestClient, one: History, offset: int, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    def fetch(_: object, place: Place, at: int, max_bytes: int) -> FetchedAt:
        return FetchedAt(one.topic, 0, 0, len(one.data), one.last_stable_offset, 0, one.fetched(at))

    def refuse(*_: object) -> None:
        raise KafkaRefused(NoPermission(one.topic, (DESCRIBE,)))

    patch.setattr(offsets_reading, "find", lambda *_: Place(one.topic, 0, Leader(1, 5), 0, len(one.data)))
    patch.setattr(offsets_reading, "_fetch", fetch)
    patch.setattr(offsets_reading, "describe_producers", refuse)
    path = f"/api/v1/clusters/orders/partitions/{one.topic}/0/offsets/{offset}"
    answer = client.get(path, params={"to": len(one.data)})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def _from_files(folder: Path, one: History, offset: int) -> dict[str, Any]:
    files = []
    for name, content in ((f"{one.topic}-0", b"".join(one.data)), (f"__transaction_state-0/{one.topic}", one.log)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        files.append(folder / name / f"{0:020}.log")
        files[-1].write_bytes(content)
    explanation, _ = explain_segments(list(map(str, files)), offset, len(one.data), None)
    found: dict[str, Any] = json.loads(to_json(explanation))
    return found


SAME: Final = ("from", "to", "producer_id", "producer_epoch", "transactional_id", "marker", "marker_offset", "ended_at")


def test_spans_are_the_same(told: list[Told]) -> None:
    for one, live, files in told:
        assert [[span[name] for name in SAME] for span in live["spans"]] == [
            [span[name] for name in SAME] for span in files["spans"]
        ], one.topic
        for span, other in zip(live["spans"], files["spans"], strict=True):
            is_decided = (span["kind"], other["kind"]) == ("open", "unknown") and "decision" in other
            assert span["kind"] == other["kind"] or is_decided, (one.topic, span, other)


def test_causes_are_the_same(told: list[Told]) -> None:
    """But for two: the store counts ordinary commits by minute, so how sure they are is known from the log alone; and
    only the store has every decision of a period, so that it knows a marker by hand."""
    compared: Counter[str] = Counter()
    for one, live, files in told:
        for span, other in zip(live["spans"], files["spans"], strict=True):
            if "decision" in span or "decision" in other or span.get("by_hand"):
                continue
            assert span["cause"] == other["cause"], (one.topic, span, other)
            if span["cause"] != "commit":
                assert span["confidence"] == other["confidence"], (one.topic, span, other)
            compared[span["cause"]] += 1
    assert min(compared[cause] for cause in ("commit", "client_abort", "timeout", "fenced")) > 10, compared


def test_sums_are_the_same(told: list[Told]) -> None:
    compared: Counter[str] = Counter()
    for one, live, files in told:
        if live["spans"][0]["from"] > one.last_stable_offset:
            assert live["only_aborted"] is None, "consumers of committed records are not there yet"
            continue
        run, other = live["only_aborted"], files["only_aborted"]
        if run is not None and other is not None and run["ended_by"] == "open":
            assert other["ended_by"] in ("open", "unknown"), (one.topic, run, other)
            other = other | {"ended_by": "open"}
        assert run == other, one.topic
        compared["none" if run is None else run["ended_by"]] += 1
    assert min(compared[ended_by] for ended_by in ("none", "open", "readable")) > 3, compared


def test_what_is_said_of_a_missing_marker_is_true(told: list[Told]) -> None:
    said: Counter[str] = Counter()
    for one, live, files in told:
        for answer in (live, files):
            for span in answer["spans"]:
                if (decision := span.get("decision")) is None or decision["may_be_other"]:
                    continue
                batches = one.cluster.data[span["from"] : span["to"]]
                is_commit = decision["marker"] == "COMMIT"
                is_true = decision["marker"] is None or all(
                    (one_.txn is not None and one_.txn.is_commit == is_commit)
                    or (one_.fate == is_commit and decision["confidence"] != "certain")
                    for one_ in batches
                )
                said[decision["confidence"]] += 1
                assert is_true, (one.topic, span)
    assert min(said["certain"], said["likely"]) > 5, said
