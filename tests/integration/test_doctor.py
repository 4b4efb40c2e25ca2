"""Tests of `txnscope doctor` on brokers that deny access. The output names every missing permission, and the printed
commands grant exactly the missing ones."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest

from deploy.demo.broker import Broker
from service.cli import main
from service.kafka.client import KafkaClient
from service.kafka.raw import RawRequest
from tests.helpers import acls
from tests.helpers.acls import BrokerWithAcls
from tests.helpers.brokers import WITH_TV2, connect, free_ports, on, second_listener
from tests.helpers.commits import commit_idle
from tests.helpers.waiting import wait_until_equal
from tests.integration.producers import begin, create_topic, load, open_producer, transact
from tests.service.kafka.test_streams_members import text

pytestmark = pytest.mark.broker

LOG, OFFSETS = "__transaction_state", "__consumer_offsets"
NO_LEVEL = "Kafka reports no isolation level of consumer groups"
TOPICS = ("orders", "payments", "vault")
USERS = ["all", "topics", "nolog", "named", "group", "id", "topic", "clock", "wishes", "old"]

Of = Callable[[str], BrokerWithAcls]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Of]:
    """Yields a function that returns the broker of a version. The first call for a version starts the broker. Tests
    share the broker's ids, groups and topics, and only the test of the clock adds an id. Each test has its own user."""
    with ExitStack() as running:

        @cache
        def of(version: str) -> BrokerWithAcls:
            there = running.enter_context(BrokerWithAcls(version, tmp_path_factory.mktemp("guarded"), USERS))
            _furnish(there.admin)
            return there

        yield of


def _furnish(bootstrap: str) -> None:
    for topic in TOPICS:
        create_topic(bootstrap, topic)
    for transactional_id, topic in {"shop-1": "orders", "shop-2": "payments"}.items():
        transact(open_producer(bootstrap, transactional_id), topic)
    begin(bootstrap, "keeper", "vault", timeout_ms=600_000)  # the log contains the partitions of an open transaction
    for group in ("readers", "auditors"):
        commit_idle(bootstrap, group, {("orders", 0): 1})


class Said(NamedTuple):
    code: int
    gaps: dict[str, str]
    text: str
    grants: list[str]

    def verdict(self, what: str) -> list[str]:
        """Returns the columns after the verdict's name in its line: the degree of trust, and the restriction if there
        is one."""
        (line,) = (line for line in self.text.splitlines() if line.startswith(what + "  "))
        return [word for word in re.split(r"\s{2,}", line) if word][1:]


class Doctor:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, guarded: BrokerWithAcls, user: str, *more: str) -> Said:
        where = ["--bootstrap-servers", guarded.bootstrap, "--kafka-config", str(guarded.properties(user))]
        code = main(["doctor", *where, *more])
        captured = self._capsys.readouterr()
        assert captured.err == ""
        text, _, _resolve = captured.out.partition("\nneeded only for `txnscope resolve")
        gaps: dict[str, str] = {}
        for what, output in re.findall(r"^gap +([^:]+): (.*)$", text, re.MULTILINE):
            gaps[what] = f"{gaps[what]}; {output}" if what in gaps else output
        return Said(code, gaps, captured.out, re.findall(r"^kafka-acls\.sh .*$", text, re.MULTILINE))


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(capsys)


def allow_all(guarded: BrokerWithAcls, user: str, *, may_read: bool = True) -> None:
    """Grants the user every permission that doctor checks. If `may_read` is False, leaves out READ on topics."""
    if may_read:
        guarded.allow(user, acls.topic(), "READ")
    guarded.allow(user, acls.group(), "DESCRIBE")
    guarded.allow(user, acls.transactional_id(), "DESCRIBE")
    guarded.allow(user, acls.cluster(), "DESCRIBE", "DESCRIBE_CONFIGS")


def granted(said: Said) -> list[str]:
    """Returns the operations and resources that the printed commands grant."""
    return [line.partition("--allow-principal ")[2].partition(" ")[2] for line in said.grants]


@on("4.3.1")
def test_a_principal_with_all_permissions_gets_certain_verdicts_only(version: str, guarded: Of, doctor: Doctor) -> None:
    there = guarded(version)
    allow_all(there, "all")
    said = doctor(there, "all")
    assert (said.code, said.gaps, said.grants) == (0, {}, [])
    assert "as User:all\n" in said.text
    assert said.verdict("hanging transactions") == ["certain"]
    assert {line.split()[-1] for line in said.text.splitlines() if "  certain" in line} == {"certain"}
    assert f"Kafka {version.rpartition('.')[0]} (" in said.text
    assert f"transaction.version {2 if version in WITH_TV2 else 0}" in said.text
    assert re.search(rf"^tried on +Kafka {re.escape(version)} on ", said.text, re.MULTILINE)
    assert re.search(r"clock: controller 1: .* ms (ahead of|behind) this machine's", said.text)
    # doctor only states that markers need other permissions
    mentioned = "needed only for `txnscope resolve --execute`, which writes markers; it is not granted:\nkafka-acls.sh"
    assert mentioned in said.text
    assert said.text.rstrip().endswith("--operation Alter --cluster")


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_the_printed_grants_are_all_that_is_missing(version: str, guarded: Of, doctor: Doctor) -> None:
    there = guarded(version)
    there.allow("topics", acls.topic(), "DESCRIBE")
    said = doctor(there, "topics")
    assert said.code == 1
    assert said.gaps.keys() == {"ACLs", "configs", LOG, "DescribeProducers", "ListTransactions", "groups"}
    assert "READ is denied on 5 of 5 topics" in said.gaps["DescribeProducers"]
    assert "transaction.max.timeout.ms=900000" in said.gaps["configs"]
    assert said.verdict("blocked partitions") == ["certain"]
    assert said.verdict("hanging transactions") == ["not at all", f"READ on {LOG} is denied"]
    assert granted(said) == [
        "--operation Describe --operation DescribeConfigs --cluster",
        "--operation Read --topic '*'",
        "--operation Describe --transactional-id '*'",
        "--operation Describe --group '*'",
    ]
    for line in said.grants:
        there.run(line)
    assert doctor(there, "topics")[:2] == (0, {})


def test_hanging_transactions_are_at_most_likely_without_the_log(guarded: Of, doctor: Doctor) -> None:
    there = guarded("4.3.1")
    allow_all(there, "nolog")
    there.deny("nolog", acls.topic(LOG), "READ")
    said = doctor(there, "nolog")
    assert said.code == 1
    assert said.gaps[LOG] == "5 partitions, READ is denied"
    trust, but = said.verdict("hanging transactions")
    assert trust == "likely"
    assert but.startswith(f"READ on {LOG} is denied, so only from answers to DescribeTransactions")
    assert said.verdict("blocked partitions") == ["certain"]
    assert said.verdict("blocked groups") == ["likely", NO_LEVEL]
    assert granted(said) == [f"--operation Read --topic {LOG}"]


def test_one_topic_that_may_not_be_read_is_named_and_granted_alone(guarded: Of, doctor: Doctor) -> None:
    there = guarded("3.9.2")
    allow_all(there, "named", may_read=False)
    there.allow("named", acls.topic(), "DESCRIBE")
    for topic in (LOG, OFFSETS, "orders", "vault"):
        there.allow("named", acls.topic(topic), "READ")
    said = doctor(there, "named")
    assert (said.code, said.gaps) == (1, {"DescribeProducers": "READ is denied on 1 of 5 topics: payments"})
    assert said.verdict("hanging transactions") == ["certain", "not at all on payments (READ is denied)"]
    assert granted(said) == ["--operation Read --topic payments"]
    there.run(said.grants[0])
    assert doctor(there, "named")[:2] == (0, {})


def test_one_group_that_may_not_be_described_is_named(guarded: Of, doctor: Doctor) -> None:
    there = guarded("4.3.1")
    allow_all(there, "group")
    there.deny("group", acls.group("auditors"), "DESCRIBE")
    said = doctor(there, "group")
    assert (said.code, said.gaps) == (1, {"groups": "DESCRIBE is denied on 1 of 2: auditors"})
    assert said.verdict("blocked groups") == ["likely", f"{NO_LEVEL}; not at all on auditors (DESCRIBE is denied)"]
    assert said.verdict("hanging transactions") == ["certain"]
    assert granted(said) == ["--operation Describe --group auditors"]


def test_a_share_group_whose_level_may_not_be_read_is_named(tmp_path: Path, doctor: Doctor) -> None:
    with BrokerWithAcls("4.3.1", tmp_path, ["share"]) as there:
        _furnish(there.admin)
        allow_all(there, "share")
        with connect(there.admin) as client:
            wait_until_equal(
                lambda: share_heartbeat(client, "workers", "orders"),
                0,
                "the error code of the request to join the share group",
            )
        said = doctor(there, "share")
        assert said.code == 1
        assert said.gaps["groups"].startswith("share groups are not judged: workers (")
        assert said.verdict("blocked groups") == ["likely", f"{NO_LEVEL}; share groups are not judged: workers"]
        assert granted(said) == ["--operation DescribeConfigs --group workers"]
        there.run(said.grants[0])
        said = doctor(there, "share")
        assert (said.gaps, said.verdict("blocked groups")) == ({}, ["likely", NO_LEVEL])


def share_heartbeat(client: KafkaClient, group: str, topic: str) -> int:
    """Joins a share group (ShareGroupHeartbeat v1). Returns the error code."""
    member = str(uuid4())
    names = text(group) + text(member)
    body = names + struct.pack(">i", 0) + b"\0" + b"\2" + text(topic) + b"\0"
    answer = client.ask(RawRequest(76, 1, body, is_flexible=True), 1).body
    error: int = struct.unpack_from(">h", answer, 4)[0]  # the error code follows the throttle time
    return error


def test_an_id_that_kafka_hides_is_found_in_the_log(guarded: Of, doctor: Doctor) -> None:
    there = guarded("3.9.2")
    allow_all(there, "id")
    there.deny("id", acls.transactional_id("shop-2"), "DESCRIBE")
    said = doctor(there, "id")
    assert (said.code, list(said.gaps)) == (1, ["ListTransactions"])
    assert said.gaps["ListTransactions"].startswith("lists 2 ids and silently hides 1 id of the log: shop-2.")
    assert said.verdict("hanging transactions") == ["certain"]  # the verdict does not depend on ListTransactions
    assert said.verdict("coordinators' answers") == ["certain", "not at all about shop-2 (DESCRIBE is denied)"]
    assert granted(said) == ["--operation Describe --transactional-id shop-2"]


def test_a_topic_that_kafka_hides_is_found_in_the_log(guarded: Of, doctor: Doctor) -> None:
    there = guarded("4.3.1")
    allow_all(there, "topic")
    there.deny("topic", acls.topic("vault"), "DESCRIBE", "READ")
    said = doctor(there, "topic")
    assert (said.code, said.gaps) == (1, {"coverage": "DESCRIBE is denied (or the topic is deleted): vault"})
    assert said.verdict("hanging transactions") == ["certain", "not on topics without DESCRIBE"]
    assert granted(said) == ["--operation Read --topic vault"]


def test_topics_that_are_not_watched_need_no_permission(guarded: Of, doctor: Doctor) -> None:
    there = guarded("4.3.1")
    allow_all(there, "wishes", may_read=False)
    for topic in (LOG, "orders", "payments"):
        there.allow("wishes", acls.topic(topic), "READ")
    there.allow("wishes", acls.topic("vault"), "DESCRIBE")
    said = doctor(there, "wishes", "--topics", "orders", "payments", "vault", LOG, "--mirrored", "vaul*")
    assert (said.code, said.gaps) == (0, {})
    assert "3 topics with 11 partitions would be watched; 3 partitions of vault (mirrored, never judged)" in said.text
    said = doctor(there, "wishes", "--topics", "orders", "pay*")
    assert (said.code, list(said.gaps)) == (1, ["coverage"])
    assert "topics like pay*" in said.gaps["coverage"]
    assert granted(said) == ["--operation Read --resource-pattern-type prefixed --topic pay"]
    there.run(said.grants[0])
    assert doctor(there, "wishes", "--topics", "orders", "pay*")[:2] == (0, {})


def test_a_clock_is_read_from_records_that_are_being_written(guarded: Of, doctor: Doctor) -> None:
    there = guarded("4.3.1")
    there.allow("clock", acls.topic(), "READ")
    there.allow("clock", acls.transactional_id(), "DESCRIBE")
    with load(there.admin, "orders", ["shop-clock"]):
        said = doctor(there, "clock")
    (line,) = (line for line in said.text.splitlines() if "clock:" in line)
    found = re.search(r"clock: broker 1: (\d+) ms (?:behind|ahead of) .* by a transaction record just written", line)
    assert found is not None, line
    assert int(found[1]) < 5_000, "broker and test share one clock, so the difference must be small"


def test_an_advertised_address_without_a_listener_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bootstrap address answers, but nothing listens at the advertised address, as is common with containers and
    tunnels."""
    port, behind, nobody = free_ports(3)
    with Broker("3.9.2", port, tmp_path / "kafka", second_listener(port, behind, nobody)):
        assert main(["doctor", "--bootstrap-servers", f"127.0.0.1:{behind}"]) == 3
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.count("\n") == 1
        assert f"broker 1 advertises 127.0.0.1:{nobody}" in output.err
        # before the first transaction, and without an authorizer
        assert main(["doctor", "--bootstrap-servers", f"127.0.0.1:{port}"]) == 0
        output = capsys.readouterr()
        assert "__transaction_state: is not listed, nor is any transactional id" in output.out
        assert "the brokers have no authorizer: everybody may do everything" in output.out
        assert "kafka-acls.sh" not in output.out


def test_a_login_that_fails_is_reported_in_one_line(
    guarded: Of, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = guarded("4.3.1")
    wrong = tmp_path / "wrong.properties"
    wrong.touch(0o600)
    wrong.write_text(there.properties("old").read_text().replace("old-secret", "guess"))
    assert main(["doctor", "--bootstrap-servers", there.bootstrap, "--kafka-config", str(wrong)]) == 3
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert "guess" not in output.err
