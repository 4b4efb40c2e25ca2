"""Tests of the whole application with brokers that have no `__transaction_state`, but speak the protocol of Kafka.
Available facts are shown. Every other fact is shown as unknown, with a reason. No invalid timestamp is shown as an
age."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from deploy.demo.broker import Broker
from deploy.demo.workload.raw_producer import Connection
from service.cli import main
from service.domain.findings.kinds import Kind, Status
from service.domain.source_state import SourceName
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.states import FIRST_TIME_MS
from service.store.schema import findings
from tests.helpers.brokers import free_port, on
from tests.helpers.other_brokers import SINCE_START_MS, OtherBrokers
from tests.helpers.waiting import OPEN_MS, wait_until
from tests.integration.application import Ingest
from tests.integration.hang_lab import CLUSTER, HangLab, command_of, watching
from tests.integration.producers import create_topic
from tests.lab.hangs import UNGUARDED, commit_one, late_write, old_producer

pytestmark = pytest.mark.broker

NO_LOG = "the brokers list no topic __transaction_state"


class Other(NamedTuple):
    """Brokers behind a proxy at `bootstrap`. `answers` sets how the proxy changes their answers. Workloads use
    `connection`, which bypasses the proxy."""

    answers: OtherBrokers
    broker: Broker
    bootstrap: str
    connection: Connection


@pytest.fixture
def other(version: str, tmp_path: Path) -> Iterator[Other]:
    answers = OtherBrokers()
    with (
        Broker(version, free_port(), tmp_path / "kafka", UNGUARDED) as broker,
        answers.proxies({1: broker.bootstrap}) as proxies,
        Connection(broker.bootstrap, threading.Event()) as connection,
    ):
        yield Other(answers, broker, proxies.bootstrap, connection)


def watched(other: Other, directory: Path) -> AbstractContextManager[HangLab]:
    return watching(Ingest(other.bootstrap, directory, name=CLUSTER), other.broker, other.connection)


def log_source(lab: HangLab) -> Any:
    return next(source for source in lab.get("")["sources"] if source["source"] == SourceName.TRANSACTION_LOG)


def wait_until_unjudged(lab: HangLab, topic: str) -> Any:
    return wait_until(lambda: lab.partition(topic), lambda one: not one["judged"], f"{topic} to be not judged")


def page(lab: HangLab, path: str = "") -> str:
    answer = lab.rest.get(f"/clusters/{CLUSTER}{path}")
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", answer.text))


def assert_no_absurd_times(lab: HangLab, *topics: str) -> None:
    """Asserts that no page, answer or metric has a time from before Kafka had transactions, or an age since such a
    time."""
    pages = [f"/partitions/{topic}/0" for topic in topics]
    for path in ("", "/partitions", "/transactions", "/findings", "/pipeline", *pages):
        answer = lab.rest.get(f"/clusters/{CLUSTER}{path}")
        assert answer.status_code == 200, (path, answer.text)
        assert not re.search(r"19[67]\d-|\d{4,} d ", answer.text), path
    for topic in topics:
        assert "1970-" not in lab.rest.get(f"/api/v1/clusters/{CLUSTER}/partitions/{topic}/0").text
    samples = re.findall(r"^(kafka_txn_\w+_timestamp_seconds)(?:\{.*\})? (\S+)$", lab.rest.get("/metrics").text, re.M)
    assert samples
    assert [sample for sample in samples if 0 < float(sample[1]) < FIRST_TIME_MS / 1000] == []


@pytest.mark.spark
@pytest.mark.in_turns
@on("4.3.1")
def test_hangs_on_a_cluster_without_a_transaction_log_are_likely(version: str, other: Other, tmp_path: Path) -> None:
    answers, connection = other.answers, other.connection
    topics = ("orders", "open", "prepared")
    for topic in topics:
        create_topic(other.broker.bootstrap, topic)
    answers.list_fails = True  # ListTransactions fails, as before the first transaction
    with watched(other, tmp_path) as lab:
        assert log_source(lab)["error"] is None
        assert NO_LOG in lab.app.log.read_text()
        assert lab.get("")["unknown"] == []
        assert "No transactional.id is in use." in page(lab)
        assert "its brokers list no topic __transaction_state and no transactional.id" in page(lab)

        # the workload is healthy; its state is unknown, and no finding is reported
        keeper = old_producer(connection, "keeper", timeout_ms=OPEN_MS)
        # the tested entries must not begin at the log start, because the owner of such an entry is not named
        for topic in topics:
            commit_one(keeper, topic, 0)
        answers.list_fails = False
        source = wait_until(
            lambda: log_source(lab),
            lambda one: one["error"] is not None,
            f"the reason why the log is not read; {lab.app.log}",
        )
        assert source["error"].startswith(f"{NO_LOG}, although they list transactional ids")
        assert (source["stalled_since"], source["caught_up"]) == (None, False)
        assert f"WARNING {NO_LOG}, although they list" in lab.app.log.read_text()
        assert source["as_of"] is not None, (
            "the source must have a time of success, or alerts about a stalled or unread source would fire"
        )
        (unknown,) = lab.get("")["unknown"]
        assert (unknown["kind"], unknown["grant"]) == ("source", None)
        assert "Nothing hangs. Nothing is blocked." in page(lab)
        assert "Names, causes, timeouts and history of transactions are not known" in page(lab)

        # one transaction hangs, one is missing in ListTransactions, one stays in PrepareCommit
        answers.unlisted.add("keeper")
        keeper.add("open", 0)
        keeper.produce("open", 0, [b"still at it"])
        hang = late_write(old_producer(connection, "shop-1"), "orders", 0)
        old_producer(connection, "shop-1")  # the id continues with another epoch
        answers.described_as["shop-2"] = "PrepareCommit"
        late_write(old_producer(connection, "shop-2"), "prepared", 0)

        row = lab.wait_for_finding(Kind.HANGING, lambda one: one.status == Status.CONFIRMED, topic="orders")
        output = (row.transactional_id, row.producer_id, row.producer_epoch, row.start_offset)
        assert output == (b"shop-1", hang.producer_id, hang.producer_epoch, hang.start_offset)
        assert (row.confidence, row.decision, command_of(row)) == (Confidence.LIKELY, "unknown", None)
        assert "1 transaction is likely to hang." in page(lab)
        for topic in ("open", "prepared"):
            blocker = lab.wait_for_blocker(topic, 0, "unknown")
            assert NO_LOG in blocker["why"]
            assert (blocker["last_write_at"], blocker["last_write_raw_ms"]) == (None, SINCE_START_MS)
            assert blocker["first_record_timestamp"] is not None  # this is the timestamp of the batch itself
            unjudged = wait_until_unjudged(lab, topic)
            assert NO_LOG in unjudged["why"]
            lab.assert_nothing_hung(topic)
        assert {row.kind for row in lab.app.rows(findings)} <= {Kind.HANGING}
        assert_no_absurd_times(lab, *topics)


@pytest.mark.spark
@pytest.mark.in_turns
@on("4.3.1")
def test_open_transactions_reveal_ids_that_list_transactions_hides(version: str, other: Other, tmp_path: Path) -> None:
    create_topic(other.broker.bootstrap, "open")
    other.answers.unlisted.add("keeper")
    with watched(other, tmp_path) as lab:
        keeper = old_producer(other.connection, "keeper", timeout_ms=OPEN_MS)
        keeper.add("open", 0)
        keeper.produce("open", 0, [b"still at it"])
        source = wait_until(
            lambda: log_source(lab),
            lambda one: one["error"] is not None,
            f"the reason why the log is not read; {lab.app.log}",
        )
        assert source["error"].startswith(f"{NO_LOG}, although transactions are open")
        assert source["stalled_since"] is None
        blocker = wait_until(
            lambda: lab.partition("open")["blocker"],
            lambda one: NO_LOG in one["why"],
            f"the reason why the blocker is unknown; {lab.app.log}",
        )
        assert blocker["relation"] == "unknown"
        keeper.end(commit=True)
        lab.wait_until_free("open")
        lab.assert_nothing_hung("open")
        # when the topic exists, the log is read as usual
        other.answers.has_log = True
        wait_until(
            lambda: log_source(lab),
            lambda one: one["error"] is None and one["caught_up"],
            "the log to be read to its end",
        )
        assert lab.app.state("keeper") == "CompleteCommit"


def first_lines(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, str], str]:
    """Runs doctor. Returns its exit code, the first lines of its output keyed by label, and its whole output."""
    code = main(["doctor", *more])
    output = capsys.readouterr()
    assert output.err == ""
    text = re.sub(r"\n {8,}", " ", output.out.partition("\n\n")[0])
    rows = [re.split(r" {2,}", line, maxsplit=1) for line in text.splitlines()[1:]]
    return code, dict(rows), output.out


@on("4.3.1")
def test_doctor_first_names_the_kind_of_cluster(version: str, other: Other, capsys: pytest.CaptureFixture[str]) -> None:
    create_topic(other.broker.bootstrap, "orders")
    at = ("--bootstrap-servers", other.bootstrap)
    code, first, _ = first_lines(capsys, *at)
    assert (code, "does not work" in first) == (0, False)
    assert first["this is"].startswith("brokers that speak Kafka's protocol and report no metadata.version")
    assert "there is no __transaction_state" in first["this is"]
    assert "hanging transactions" in first["not known"]
    assert "not tried on brokers of a release that is not known" in first["not known"]

    other.answers.list_fails = True
    code, _, text = first_lines(capsys, *at)
    assert code == 1
    assert "whether transactional ids are used is not known" in text

    other.answers.list_fails = False
    keeper = old_producer(other.connection, "keeper", timeout_ms=OPEN_MS)
    commit_one(keeper, "orders", 0)
    code, first, text = first_lines(capsys, *at)
    assert code == 1
    assert f"{NO_LOG}, although they list transactional ids" in first["this is"]
    assert "hanging transactions (likely at most" in first["works in part"]
    assert "causes and history" in first["does not work"]
    assert "resolve" in first["does not work"]
    assert "kafka-acls.sh" not in text

    other.answers.unlisted.add("keeper")
    keeper.add("orders", 0)
    keeper.produce("orders", 0, [b"still at it"])
    code, first, text = first_lines(capsys, *at)
    assert code == 1
    assert f"{NO_LOG}, although transactions are open" in first["this is"]
    assert "lists 0 ids, although transactions are open on orders" in text

    code, first, _ = first_lines(capsys, "--bootstrap-servers", other.broker.bootstrap)
    assert code == 0
    assert first.keys() == {"this is", "tried on", "there", "works", "works in part"}
    assert first["this is"].startswith(
        f"Kafka {version.rpartition('.')[0]}, because the brokers support metadata.version up to "
    )
    assert "; __transaction_state with" in first["this is"]
    assert first["tried on"].startswith(f"Kafka {version} on ")
