"""Tests explanations of offsets in real logs, with a store that has the transactions of these logs. An explanation
names the producers of the records, and the outcomes of the transactions."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec
from fastapi.testclient import TestClient
from sqlalchemy import update

from deploy.demo.broker import Broker
from service.app import create_app
from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind
from service.domain.partitions.offset_spans import SpanBuilder
from service.domain.transaction_log import states
from service.kafka.cluster import cluster_id
from service.kafka.markers import write_marker
from service.kafka.settings import ClientSettings
from service.store.schema import clusters
from service.views.partitions.offsets_reading import Bounds, find, read
from tests.helpers import acls
from tests.helpers.acls import BrokerWithAcls
from tests.helpers.brokers import VERSIONS, Described, connect, describe_transaction
from tests.helpers.findings import WithFindings, observe
from tests.helpers.servers import serving_app
from tests.helpers.terminal import command_line
from tests.helpers.waiting import ANSWER_S, LIMIT_S, OPEN_MS, wait_until
from tests.integration.group_lab import write
from tests.integration.producers import admin_of, create_topic, open_producer, plain_producer
from tests.service.store.histories import aborted, committed
from tests.service.store.logs import batch, entry
from tests.service.store.logs import read as span

pytestmark = pytest.mark.broker


class Story(NamedTuple):
    """A partition of a running broker. SPANS describes its content."""

    broker: Broker
    topic: str
    ids: dict[str, Described]

    @property
    def kafka(self) -> ClientSettings:
        return ClientSettings.load(self.broker.bootstrap, None)


SPANS = [
    "0-2 committed paid COMMIT@3",
    "3-3 marker paid COMMIT@3",
    "4-5 non_transactional",
    "6-6 aborted doomed ABORT@9",
    "7-7 committed paid COMMIT@10",
    "8-8 aborted doomed ABORT@9",
    "9-9 marker doomed ABORT@9",
    "10-10 marker paid COMMIT@10",
    "11-11 aborted by-hand ABORT@12",
    "12-12 marker by-hand ABORT@12",
    "13-13 open stuck",
    "14-15 open late",
]


@pytest.fixture(scope="module", params=VERSIONS)
def story(request: pytest.FixtureRequest, brokers: Callable[[str], Broker]) -> Iterator[Story]:
    broker = brokers(request.param)
    topic = f"explain-{request.param}"
    create_topic(broker.bootstrap, topic, 1)
    names = ("paid", "doomed", "by-hand", "stuck", "late")
    paid, doomed, by_hand, stuck, late = producers = [
        open_producer(broker.bootstrap, f"explain-{n}", OPEN_MS) for n in names
    ]
    plain = plain_producer(broker.bootstrap, enable_idempotence=False)
    paid.begin_transaction()
    write(paid, topic, 3)
    paid.commit_transaction(ANSWER_S)
    wait_for_end(broker, topic, 4)
    write(plain, topic, 2)
    paid.begin_transaction()
    doomed.begin_transaction()
    for one in (doomed, paid, doomed):
        write(one, topic, 1)
    doomed.abort_transaction(ANSWER_S)
    wait_for_end(broker, topic, 10)
    paid.commit_transaction(ANSWER_S)
    wait_for_end(broker, topic, 11)
    by_hand.begin_transaction()
    write(by_hand, topic, 1)
    whose = describe_transaction(broker.bootstrap, "explain-by-hand")
    with connect(broker.bootstrap) as client:
        code = write_marker(
            client,
            1,
            topic=topic,
            partition=0,
            producer_id=whose.producer_id,
            producer_epoch=whose.producer_epoch,
            coordinator_epoch=0,
            commit=False,
        )
    assert code == 0
    for one, records in ((stuck, 1), (late, 2)):
        one.begin_transaction()
        write(one, topic, records)
    ids = {name: describe_transaction(broker.bootstrap, f"explain-{name}") for name in names}
    yield Story(broker, topic, ids)
    del producers


def wait_for_end(broker: Broker, topic: str, end: int) -> None:
    """Waits until partition 0 ends at or above `end`. The wait is needed because EndTxn is answered before the markers
    are written."""
    admin, place = admin_of(broker.bootstrap), TopicPartition(topic, 0)
    wait_until(
        lambda: admin.list_offsets({place: OffsetSpec.latest()})[place].result(ANSWER_S).offset,
        lambda offset: offset >= end,
        f"{topic}-0 to end at or above {end}, after the marker",
    )


@pytest.fixture
def cluster(story: Story, tmp_path: Path) -> Iterator[WithFindings]:
    """Yields a store that has the cluster id of the broker, but no data about the transactions yet."""
    now_ms = time.time_ns() // 1_000_000
    cluster = WithFindings(f"sqlite:///{tmp_path / 'store.db'}", started_ms=now_ms - 3_600_000)
    with connect(story.broker.bootstrap) as client, cluster.engine.begin() as connection:
        connection.execute(update(clusters).values(kafka_cluster_id=cluster_id(client)))
    yield cluster
    cluster.close()


@pytest.fixture
def client(story: Story, cluster: WithFindings) -> Iterator[TestClient]:
    with TestClient(create_app(cluster.url, "1.2.3", story.kafka), raise_server_exceptions=False) as client:
        yield client


def ask(client: TestClient, story: Story, offset: int, to: int | None = None) -> Any:
    path = f"/api/v1/clusters/orders/partitions/{story.topic}/0/offsets/{offset}"
    return client.get(path, params={} if to is None else {"to": to}).json()


def lines(story: Story, body: Any) -> list[str]:
    """Returns the spans in the form of SPANS, with this test's short names of the producers."""
    names = {described.producer_id: name for name, described in story.ids.items()}
    reported = []
    for one in body["spans"]:
        marker = one["marker"] and f"{one['marker']}@{one['marker_offset']}"
        words = (f"{one['from']}-{one['to'] - 1}", one["kind"], names.get(one["producer_id"]), marker)
        reported.append(" ".join(filter(None, words)))
    return reported


def test_every_span_and_every_single_offset_is_explained(story: Story, client: TestClient) -> None:
    body = ask(client, story, 0, 99)
    assert lines(story, body) == SPANS
    assert body["truncated_at"] is None
    assert {span["cause"] for span in body["spans"]} == {None}, "without data in the store there are no causes"
    for offset in range(16):
        (whole,) = [text for text in SPANS if fits(text, offset)]
        kind = whole.partition(" ")[2]
        assert lines(story, ask(client, story, offset)) == [f"{offset}-{offset} {kind}"]


def fits(text: str, offset: int) -> bool:
    first, last = map(int, text.split(" ")[0].split("-"))
    return first <= offset <= last


def store_the_log(cluster: WithFindings, story: Story, markers: dict[int, int]) -> int:
    """Stores the transaction log of the story, as if it were read to its end 20 s after the last marker. `markers`: a
    mapping from offset to the time of the marker there. Returns the time at which the log was read."""
    log = [entry(0, states.EMPTY, b"explain-paid", pid=story.ids["paid"].producer_id, at_ms=markers[3] - 600_000)]
    for name, at_ms, end in (("paid", markers[3], committed), ("doomed", markers[9], aborted)):
        log += end(len(log), at_ms + 5, f"explain-{name}".encode(), pid=story.ids[name].producer_id)
    log += committed(len(log), markers[10] + 5, b"explain-paid", pid=story.ids["paid"].producer_id)
    for name in ("by-hand", "stuck", "late"):
        raw, pid = f"explain-{name}".encode(), story.ids[name].producer_id
        log.append(entry(len(log), states.ONGOING, raw, pid=pid, start_ms=markers[12] - 50, at_ms=markers[12] - 50))
    now_ms = markers[12] + 20_000
    cluster.writer.apply(batch(log, span(0, len(log))), now_ms)
    return now_ms


def test_names_and_causes_come_from_the_coordinators_log(
    story: Story, cluster: WithFindings, client: TestClient
) -> None:
    before = ask(client, story, 0, 99)["spans"]
    markers = {one["marker_offset"]: ms(one["ended_at"]) for one in before if one["kind"] == "marker"}
    now_ms = store_the_log(cluster, story, markers)
    hangs = Subject(story.topic, 0, None, story.ids["stuck"].producer_id, 0, 13)
    cluster.see(observe(Kind.HANGING)._replace(subject=hangs), now_ms=now_ms)
    body = ask(client, story, 0, 99)
    assert lines(story, body) == [text.replace("open stuck", "hanging stuck") for text in SPANS]
    causes = {}
    for one in body["spans"]:
        if one["producer_id"] is not None and one["kind"] != "non_transactional":
            name = one["transactional_id"].removeprefix("explain-")
            assert story.ids[name].producer_id == one["producer_id"]
            assert client.get(one["href"]).json()["transactional_id"] == one["transactional_id"]
            by_hand = " by hand" if one.get("by_hand") else ""
            causes[name, one["kind"]] = one["cause"] and f"{one['cause']} {one['confidence']}{by_hand}"
    assert causes == {
        ("paid", "committed"): "commit likely",
        ("paid", "marker"): "commit likely",
        ("doomed", "aborted"): "client_abort likely",
        ("doomed", "marker"): "client_abort likely",
        ("by-hand", "aborted"): "admin likely by hand",
        ("by-hand", "marker"): "admin likely by hand",
        ("stuck", "hanging"): None,
        ("late", "open"): None,
    }


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_deleted_records_are_a_gap(brokers: Callable[[str], Broker], tmp_path: Path) -> None:
    broker = brokers("4.3.1")
    create_topic(broker.bootstrap, "explain-deleted", 1)
    write(plain_producer(broker.bootstrap), "explain-deleted", 5)
    admin = admin_of(broker.bootstrap)
    (deleted,) = admin.delete_records([TopicPartition("explain-deleted", 0, 3)]).values()
    deleted.result(ANSWER_S)
    for offset, to, expected in (
        (0, 5, [(0, 3, "gap"), (3, 5, "non_transactional")]),
        (1, 2, [(1, 2, "gap")]),
        (4, 9, [(4, 5, "non_transactional")]),
    ):
        with connect(broker.bootstrap) as client:
            walk = SpanBuilder(offset, to)
            assert read(client, find(client, "explain-deleted", 0, offset), walk) is None
        assert [(span.first, span.next, span.kind) for span in walk.spans({})] == expected


def test_a_run_of_aborted_records_extends_beyond_the_requested_range(story: Story, client: TestClient) -> None:
    body = ask(client, story, 8)
    assert [(span["from"], span["to"]) for span in body["spans"]] == [(8, 9)]
    run = body["only_aborted"]
    assert (run["from"], run["to"], run["records"], run["transactions"]) == (8, 13, 2, 2)
    assert (run["ended_by"], run["first_readable"]) == ("open", None), (
        "the run ends at the LSO, where an open transaction begins"
    )
    assert ask(client, story, 0)["only_aborted"] is None


def test_the_limit_of_bytes_ends_a_run_of_aborted_records(story: Story) -> None:
    with connect(story.broker.bootstrap) as client:
        walk = SpanBuilder(8, 9)
        bounds = Bounds(bytes=150, seconds=5, first_bytes=1, next_bytes=1)
        assert read(client, find(client, story.topic, 0, 8), walk, bounds) is None, (
            "the bound does not cut the requested span"
        )
    assert walk.only_aborted is not None
    assert (walk.only_aborted.ended_by, walk.only_aborted.to < 13) == ("bound", True)


def test_reading_is_bounded_and_the_leader_reports_open_transactions(story: Story) -> None:
    """The bounds allow one or two batches. The outcome is then unknown, unless it can be proven without reading
    further."""
    one_batch = Bounds(bytes=1, seconds=5, first_bytes=1, next_bytes=1)
    two_batches = Bounds(bytes=150, seconds=5, first_bytes=1, next_bytes=1)
    with connect(story.broker.bootstrap) as client:

        def stopped(offset: int, to: int, bounds: Bounds) -> tuple[int | None, list[str]]:
            walk = SpanBuilder(offset, to)
            at = read(client, find(client, story.topic, 0, offset), walk, bounds)
            return at, [f"{span.first}-{span.next - 1} {span.kind}" for span in walk.spans({})]

        at, spans = stopped(0, 1, one_batch)
        assert (at in (1, 2, 3), spans) == (True, ["0-0 unknown"]), (
            "the marker of this transaction lies beyond the batch that was read"
        )
        at, spans = stopped(4, 99, one_batch)
        assert (at in (5, 6), spans) == (True, [f"4-{(at or 0) - 1} non_transactional"])
        assert stopped(13, 14, one_batch) == (14, ["13-13 open"]), (
            "the open transaction begins at the LSO, which proves the outcome"
        )
        assert stopped(14, 15, two_batches) == (None, ["14-14 open"]), "the leader reports this transaction as open"
        assert stopped(14, 15, Bounds(seconds=0)) == (14, [])


@pytest.mark.parametrize(
    ("place", "status", "kind", "words"),
    [
        ("nowhere/0/offsets/1", 404, "no-such-partition", "the cluster has no topic 'nowhere'"),
        ("{topic}/7/offsets/1", 404, "no-such-partition", "topic '{topic}' has no partition 7, only partition 0"),
        ("{topic}/0/offsets/16", 404, "no-such-offset", "{topic}-0 has no offset 16 yet: its log ends at 16"),
        ("{topic}/0/offsets/5?to=5", 422, "bad-parameter", "to: has to be above the offset 5"),
    ],
)
def test_a_bad_partition_or_offset_is_refused_with_a_reason(
    story: Story, client: TestClient, place: str, status: int, kind: str, words: str
) -> None:
    answer = client.get(f"/api/v1/clusters/orders/partitions/{place.format(topic=story.topic)}")
    assert (answer.status_code, answer.json()["type"]) == (status, f"urn:txnscope:{kind}")
    assert answer.json()["detail"] == words.format(topic=story.topic)


def test_brokers_of_another_cluster_are_not_asked(story: Story, cluster: WithFindings, client: TestClient) -> None:
    with cluster.engine.begin() as connection:
        connection.execute(update(clusters).values(kafka_cluster_id="another"))
    answer = client.get(f"/api/v1/clusters/orders/partitions/{story.topic}/0/offsets/0")
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith(
        "no brokers are configured for cluster 'orders': the configured brokers belong to"
    )


def test_a_missing_permission_is_named(cluster: WithFindings, tmp_path: Path) -> None:
    with BrokerWithAcls("4.3.1", tmp_path, ["ann"]) as guarded:
        for topic in ("hidden", "unread"):
            create_topic(guarded.admin, topic, 1)
            write(plain_producer(guarded.admin), topic, 1)
        guarded.allow("ann", acls.topic("unread"), "DESCRIBE")
        app = create_app(cluster.url, "1.2.3", ClientSettings.load(guarded.bootstrap, guarded.properties("ann")))
        with connect(guarded.admin) as client, cluster.engine.begin() as connection:
            connection.execute(update(clusters).values(kafka_cluster_id=cluster_id(client)))
        with TestClient(app) as asking:
            for topic, grant in (("hidden", "DESCRIBE and READ"), ("unread", "READ")):
                answer = asking.get(f"/api/v1/clusters/orders/partitions/{topic}/0/offsets/0")
                assert (answer.status_code, answer.json()["type"]) == (502, "urn:txnscope:kafka-refused")
                assert answer.json()["detail"] == f"no permission on topic {topic}: grant {grant} on it"


def test_requests_of_many_threads_at_once_are_answered(story: Story, client: TestClient) -> None:
    answers: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(lines(story, ask(client, story, 0, 99)))) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert answers == [SPANS] * 12


def test_a_connection_that_was_cut_is_opened_again(story: Story, cluster: WithFindings) -> None:
    app = create_app(cluster.url, "1.2.3", story.kafka)
    with TestClient(app) as client:
        assert lines(story, ask(client, story, 4)) == ["4-4 non_transactional"]
        app.state.txnscope.kafka._other._client._client.close()
        assert lines(story, ask(client, story, 4)) == ["4-4 non_transactional"]


def test_the_command_line_explains_offsets_over_rest(
    story: Story, cluster: WithFindings, client: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    spans = ask(client, story, 0, 99)["spans"]
    store_the_log(cluster, story, {s["marker_offset"]: ms(s["ended_at"]) for s in spans if s["kind"] == "marker"})
    with serving_app(create_app(cluster.url, "1.2.3", story.kafka)) as url:
        run = partial(command_line(url, capsys), "explain")
        code, out, err = run(f"{story.topic}-0@6", "--to", "8")
        assert (code, err) == (0, "")
        table, run_of_aborted, why, of_commit = out.split("\n\n")
        assert " ".join(run_of_aborted.split()) == (
            "Only aborted records from 6 to 6: 1 transaction of explain-doomed, 1 record; the first readable record is"
            " at 7."
        )
        heads, mine, other = [re.split(r"  +", line) for line in table.splitlines()]
        assert heads == ["OFFSETS", "KIND", "PRODUCER ID", "TRANSACTIONAL.ID", "MARKER", "ENDED", "CAUSE"]
        assert (mine[:2], mine[3:5], mine[6]) == (
            ["6", "aborted"],
            ["explain-doomed", "ABORT at 9"],
            "client abort (likely)",
        )
        assert (other[:2], other[3:5]) == (["7", "committed"], ["explain-paid", "COMMIT at 10"])
        assert why.startswith("Aborted by its own client:")
        assert of_commit.startswith("Its records are certainly committed")
        code, out, err = run(f"{story.topic}-0@13", "--json")
        assert (code, json.loads(out)["spans"][0]["kind"]) == (0, "open")
        assert run(f"{story.topic}-0@99")[::2] == (
            2,
            f"txnscope explain: {story.topic}-0 has no offset 99 yet: its log ends at 16\n",
        )
        assert run("nowhere-0@1")[::2] == (2, "txnscope explain: the cluster has no topic 'nowhere'\n")
