"""Tests that the same bytes get the same explanation live and from segment files, over random histories with skipped,
lost and repeated markers. Spans, causes and sums are equal. Statements about records without a marker agree with the
true decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from service.domain.transaction_log.states import EXPIRED
from service.wire.batches import Batch as ReadBatch
from service.wire.batches import read_batches
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.batches import ABORT, COMMIT, TRANSACTIONAL, Rec, batch, control_batch
from tests.helpers.paths import GOLDEN
from tests.helpers.stores import SeededCluster
from tests.worlds.cluster import JUDGED, Batch, Cluster, LogRecord, Protocol
from tests.worlds.explained import Partition, arrived, assert_same_spans, from_files, live, same_causes, service
from tests.worlds.history import STEPS, Run, Tally
from tests.worlds.observer import Observer

HISTORIES: Final = 200
BEGAN_MS: Final = 1_790_000_000_000
APART_MS: Final = 1_500_000
NO_CLOCK: Final = property(lambda self: 0, lambda self, value: None)


class _OneClock(Cluster):
    """A cluster whose brokers and clients have equal clocks."""

    coordinator_skew_ms = leader_skew_ms = client_skew_ms = NO_CLOCK


class _Unjudged(Run):
    def judge(self) -> None:
        pass


class History(NamedTuple):
    """A random history. `log`: bytes of the transaction log."""

    cluster: Cluster
    partition: Partition
    log: bytes


class Told(NamedTuple):
    """The explanations of a history from some offset on: one by the service, one from segment files."""

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
    log = b"".join(_record(record, seed, lo, own) for record in cluster.log if not record.is_removed)
    data = b"".join(_batch(batch, own) for batch in cluster.data)
    return History(cluster, Partition.of(f"y{seed}", data), log)


def _record(record: LogRecord, seed: int, lo: int, own: int) -> bytes:
    topics = [(f"y{seed}" if name == JUDGED else "other", [0]) for name in sorted(record.partitions)]
    previous = record.previous_producer_id
    data = (
        build.value(
            producer_id=own + record.producer_id,
            producer_epoch=record.producer_epoch,
            status=record.state,
            topics=topics,
            last_update_ms=record.timestamp_ms,
            start_ms=record.start_ms,
            tagged=build.tags(None if previous < 0 else own + previous, None, record.version or None),
        )
        if record.state != EXPIRED
        else None
    )
    return build.transition(f"{record.key}-{seed}", lo + record.offset, timestamp_ms=record.timestamp_ms, data=data)


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


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Told]]:
    """Yields the explanations of each history, live and from files, from its beginning and from a random offset. Leaves
    out histories without batches."""
    folder = tmp_path_factory.mktemp("explained")
    cluster = SeededCluster(f"sqlite:///{folder / 'store.db'}", started_ms=BEGAN_MS)
    now_ms, histories, lo = BEGAN_MS + (HISTORIES + 1) * APART_MS, [], 0
    for seed in range(HISTORIES):
        history = history_of(seed, lo)
        hi = lo + len(history.cluster.log)
        cluster.writer.apply(arrived(history.log, lo, hi), now_ms)
        lo = hi
        if history.cluster.data:
            histories.append(history)
    found = []
    with pytest.MonkeyPatch.context() as patch, service(cluster.url, now_ms) as client:
        for history in histories:
            files = _files(folder, history)
            for offset in {0, Random(history.partition.topic).randrange(len(history.cluster.data))}:
                answers = live(client, history.partition, offset, patch), from_files(files, history.partition, offset)
                found.append(Told(history, *answers))
    yield found
    cluster.close()


def _files(folder: Path, history: History) -> list[Path]:
    files = []
    for name, content in (
        (history.partition.topic, history.partition.data),
        (f"{history.partition.topic}-log", history.log),
    ):
        (folder / name).mkdir()
        files.append(folder / name / f"{0:020}.log")
        files[-1].write_bytes(content)
    return files


def test_spans_equal_those_read_from_the_files(reported: list[Told]) -> None:
    for history, of_service, of_files in reported:
        assert_same_spans(of_service, of_files, history.partition.topic)


def test_causes_equal_those_read_from_the_files(reported: list[Told]) -> None:
    compared: Counter[str | None] = Counter()
    for history, of_service, of_files in reported:
        compared.update(same_causes(of_service, of_files, history.partition.topic))
    assert min(compared[cause] for cause in ("commit", "client_abort", "timeout", "fenced")) > 10, compared


def test_runs_of_aborted_records_equal_those_read_from_the_files(reported: list[Told]) -> None:
    compared: Counter[str] = Counter()
    for history, of_service, of_files in reported:
        if of_service["spans"][0]["from"] > history.partition.last_stable_offset:
            assert of_service["only_aborted"] is None, (
                "above the LSO there is no run of aborted records: consumers of committed records stop at the LSO"
            )
            continue
        run, other = of_service["only_aborted"], of_files["only_aborted"]
        if run is not None and other is not None and run["ended_by"] == "open":
            assert other["ended_by"] in ("open", "unknown"), (history.partition.topic, run, other)
            other = other | {"ended_by": "open"}
        assert run == other, history.partition.topic
        compared["none" if run is None else run["ended_by"]] += 1
    assert min(compared[ended_by] for ended_by in ("none", "open", "readable")) > 3, compared


def test_the_decision_about_a_missing_marker_is_true(reported: list[Told]) -> None:
    said: Counter[str] = Counter()
    for history, of_service, of_files in reported:
        for answer in (of_service, of_files):
            for span in answer["spans"]:
                if (decision := span.get("decision")) is None or decision["may_be_other"]:
                    continue
                batches = history.cluster.data[span["from"] : span["to"]]
                is_commit = decision["marker"] == "COMMIT"
                is_true = decision["marker"] is None or all(
                    (one_.txn is not None and one_.txn.is_commit == is_commit)
                    or (one_.fate == is_commit and decision["confidence"] != "certain")
                    for one_ in batches
                )
                said[decision["confidence"]] += 1
                assert is_true, (history.partition.topic, span)
    assert min(said["certain"], said["likely"]) > 5, said


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_explanations_of_logs_of_real_brokers_are_the_same(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = GOLDEN / version / "main"
    logs = sorted(group.glob("__transaction_state-*"))
    segments = {int(log.name.rpartition("-")[2]): (log / f"{0:020}.log").read_bytes() for log in logs}
    newest = [batch for data in segments.values() for batch in read_batches(data) if isinstance(batch, ReadBatch)]
    times = [batch.header.max_timestamp_ms for batch in newest]
    now_ms = max(times) + 60_000
    url = f"sqlite:///{tmp_path / 'store.db'}"
    cluster = SeededCluster(url, partitions=max(segments) + 1, started_ms=min(times))
    for number, data in segments.items():
        ends = [batch.header.next_offset for batch in read_batches(data) if isinstance(batch, ReadBatch)]
        cluster.writer.apply(arrived(data, 0, ends[-1], number), now_ms)
    compared: Counter[str | None] = Counter()
    with service(url, now_ms) as client:
        for segment in sorted(group.glob("[a-z]*-0/*.log")):
            partition = Partition.of(segment.parent.name.removesuffix("-0"), segment.read_bytes())
            first = next(iter(read_batches(partition.data))).base_offset
            answers = live(client, partition, first, monkeypatch), from_files([segment, *logs], partition, first)
            assert_same_spans(*answers, partition.topic)
            compared.update(same_causes(*answers, partition.topic))
    cluster.close()
    assert compared["commit"] > 5 < compared["client_abort"], compared


def test_a_run_of_20_000_aborted_records_has_the_same_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum covers 1,030 transactions, which are more than the spans of one answer."""
    log, data, offset = b"", b"", 0
    states_of_one = ((build.ONGOING, 0), (build.PREPARE_ABORT, 50), (build.COMPLETE_ABORT, 60))
    for number in range(1_030):
        at_ms, producer_id = BEGAN_MS + number * 200, 7 + number % 2
        for step, (status, after_ms) in enumerate(states_of_one):
            value = build.value(
                producer_id=producer_id,
                producer_epoch=0,
                status=status,
                topics=[] if status == build.COMPLETE_ABORT else [("long", [0])],
                last_update_ms=at_ms + after_ms,
                start_ms=at_ms,
            )
            name = "xy"[number % 2]
            log += build.transition(name, 3 * number + step, timestamp_ms=at_ms + after_ms, data=value)
        own = {"producer_id": producer_id, "producer_epoch": 0}
        records = [Rec(b"k", b"v", delta) for delta in range(20)]
        data += batch(records, offset, timestamp_ms=at_ms, attributes=TRANSACTIONAL, base_sequence=0, **own)  # type: ignore[arg-type]
        data += control_batch(ABORT, offset + 20, timestamp_ms=at_ms + 55, **own)
        offset += 21
    data += batch([Rec(b"k", b"v")], offset)
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}", started_ms=BEGAN_MS)
    now_ms = BEGAN_MS + 1_030 * 200 + 60_000
    cluster.writer.apply(arrived(log, 0, 3 * 1_030), now_ms)
    history = History(Cluster(Random(0), Protocol.OLD, can_skip=False), Partition.of("long", data), log)
    with service(cluster.url, now_ms) as client:
        of_service = live(client, history.partition, 0, monkeypatch)
    of_files = from_files(_files(tmp_path, history), history.partition, 0)
    cluster.close()
    assert of_service["only_aborted"] == of_files["only_aborted"]
    run = of_service["only_aborted"]
    assert (run["to"], run["records"], run["transactions"], run["ended_by"]) == (21_630, 20_600, 1_030, "readable")
    assert [(owner["transactional_id"], owner["transactions"]) for owner in run["owners"]] == [("x", 515), ("y", 515)]
    assert_same_spans(of_service, of_files, "long")
    assert of_service["truncated_at"] == of_files["truncated_at"] == 21_000
