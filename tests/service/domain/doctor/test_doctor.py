"""Tests of the lines that `txnscope doctor` prints for given facts, without a broker: gaps, trust and ACLs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import pytest

from service.domain.doctor import acls
from service.domain.doctor.acls import Acl
from service.domain.doctor.cluster_report import (
    BrokerReport,
    ClockReport,
    ClusterReport,
    GroupsReport,
    IdsReport,
    LogReport,
    TopicsReport,
)
from service.domain.doctor.head import head
from service.domain.doctor.lines import GAP, NOTE, lines, to_resolve
from service.domain.doctor.tried_versions import LACKING, NO_GROUPS, SKIPPED_MARKER, Scenario, TriedVersion
from service.domain.doctor.verdicts import CERTAIN, LIKELY, NONE, Verdict, verdicts
from service.domain.reasons.unread import ShareLevelNotReported, ShareOffsetsNotReported, TransactionsSeen
from service.domain.releases import release_of

NO_LEVEL = "Kafka reports no isolation level of consumer groups"
NO_CAUSE = "the transaction log does not show who aborted a transaction"
APIS = {61: 0, 65: 0, 66: 2}
BROKER = BrokerReport(1, "kafka-1", 9092, None, APIS, 30)
TOPICS = TopicsReport(
    globs=("*",),
    partitions={"orders": 3, "payments": 2},
    mirrored=(),
    left_out=(),
    absent=(),
    not_describable=(),
    denied_globs=(),
    readable=("orders", "payments"),
    unreadable=(),
    unanswered=(),
    leaderless=(),
    unanswered_why=None,
)
FINE = ClusterReport(
    bootstrap="kafka-1:9092",
    principal="User:scope",
    cluster_id="abc",
    brokers=(BROKER,),
    features={"transaction.version": 2, "metadata.version": 30},
    assumed_configs=(),
    cluster_operations=frozenset({"DESCRIBE", "DESCRIBE_CONFIGS"}),
    log=LogReport(True, 50, (), True, None, 7, True),
    ids=IdsReport(7, (), False, None),
    topics=TOPICS,
    groups=GroupsReport(4, (), False, None),
    clocks=(),
    newest_record_ms=None,
    has_authorizer=True,
)


def gaps(seen: ClusterReport) -> list[str]:
    return [f"{line.what}: {line.text}" for line in lines(seen) if line.mark == GAP]


def verdict(seen: ClusterReport, what: str) -> Verdict:
    (found,) = (verdict for verdict in verdicts(seen) if verdict.what == what)
    return found


def test_with_every_permission_only_causes_and_blocked_groups_are_not_certain() -> None:
    assert gaps(FINE) == []
    found = {verdict.what: (verdict.trust, verdict.why) for verdict in verdicts(FINE)}
    assert found.pop("blocked groups") == (LIKELY, NO_LEVEL)
    assert found.pop("causes and history") == (LIKELY, NO_CAUSE)
    assert set(found.values()) == {(CERTAIN, "")}


def test_an_unresponsive_broker_is_a_gap_and_named_in_the_verdicts() -> None:
    away = BrokerReport(2, "10.0.0.7", 9093, "timed out", {}, None)
    seen = FINE._replace(brokers=(BROKER, away))
    assert gaps(seen) == [
        "broker 2: does not answer at its advertised address 10.0.0.7:9093: timed out",
    ]
    for what in ("blocked partitions", "hanging transactions", "names of blocking producers", "causes and history"):
        assert "broker 2" in verdict(seen, what).why, what


def test_without_describe_producers_a_hang_is_likely_at_most() -> None:
    old = BROKER._replace(apis={65: 0, 66: 0}, newest_metadata_version=None)
    topics = TOPICS._replace(readable=(), unanswered=("orders", "payments"), unanswered_why="unsupported")
    seen = FINE._replace(brokers=(old,), topics=topics)
    assert any("does not speak DescribeProducers" in gap for gap in gaps(seen))
    assert verdict(seen, "hanging transactions").trust == LIKELY


def test_a_log_that_no_broker_could_describe_is_not_said_to_be_denied() -> None:
    nobody = FINE._replace(log=LogReport(None, 0, (), None, "no broker answers", 0, False))
    assert gaps(nobody) == ["__transaction_state: not known: no broker answers"]
    assert verdict(nobody, "causes and history").why == "__transaction_state could not be read: no broker answers"


def test_without_log_access_a_hang_is_likely_at_most() -> None:
    blind = FINE._replace(log=FINE.log._replace(may_read=False, ids=0, is_whole=False))
    found = verdict(blind, "hanging transactions")
    assert (found.trust, "without the decision (commit or abort)" in found.why) == (LIKELY, True)
    assert "may not be described" not in found.why
    some = verdict(blind._replace(ids=FINE.ids._replace(any_denied=True)), "hanging transactions")
    assert (some.trust, "not for ids without DESCRIBE" in some.why) == (LIKELY, True)
    hidden = verdict(blind._replace(ids=FINE.ids._replace(listed=0, any_denied=True)), "hanging transactions")
    assert (hidden.trust, "READ on __transaction_state is denied" in hidden.why) == (NONE, True)


def test_a_hang_is_likely_at_most_on_topics_without_an_answer() -> None:
    topics = TOPICS._replace(readable=("orders",), unanswered=("payments",), unanswered_why="timed out")
    found = verdict(FINE._replace(topics=topics), "hanging transactions")
    assert (found.trust, "no better than likely on payments" in found.why) == (CERTAIN, True)


def test_unjudged_share_groups_are_named_and_make_blocked_groups_likely() -> None:
    denied = FINE.groups._replace(share_not_judged=("jobs", "workers"), share_why=ShareLevelNotReported())
    seen = FINE._replace(groups=denied)
    (gap,) = gaps(seen)
    assert gap.startswith("groups: share groups are not judged: jobs and workers (the isolation level")
    assert verdict(seen, "blocked groups") == (
        "blocked groups",
        LIKELY,
        f"{NO_LEVEL}; share groups are not judged: jobs and workers",
    )
    assert [acl for line in lines(seen) for acl in line.missing] == [
        Acl("--group", "jobs", "DescribeConfigs"),
        Acl("--group", "workers", "DescribeConfigs"),
    ]
    old = FINE._replace(groups=denied._replace(share_why=ShareOffsetsNotReported()))
    assert [acl for line in lines(old) for acl in line.missing] == []
    assert verdict(old, "blocked groups").trust == LIKELY


def test_groups_below_the_lso_need_read_on_the_topic() -> None:
    seen = FINE._replace(topics=TOPICS._replace(readable=("orders",), unreadable=("payments", "__transaction_state")))
    assert verdict(seen, "blocked groups").why == f"{NO_LEVEL}; only groups at the LSO on payments (READ is denied)"


def test_without_read_on_any_topic_there_is_no_verdict_on_hangs() -> None:
    topics = TOPICS._replace(readable=(), unreadable=("orders", "payments"))
    seen = FINE._replace(topics=topics)
    assert verdict(seen, "hanging transactions") == ("hanging transactions", NONE, "READ is denied on every topic")
    assert verdict(seen, "blocked partitions").trust == CERTAIN


def test_assumed_configs_are_a_gap_and_make_timeouts_likely() -> None:
    seen = FINE._replace(assumed_configs=("transactional.id.expiration.ms",))
    assert verdict(seen, "timeouts and expiry").trust == LIKELY
    assert any("transactional.id.expiration.ms=604800000" in gap for gap in gaps(seen))


def test_partitions_without_leaders_are_gaps() -> None:
    topics = TOPICS._replace(leaderless=(("orders", 2),))
    seen = FINE._replace(topics=topics, log=FINE.log._replace(leaderless=(3,)))
    assert [gap.split(":")[0] for gap in gaps(seen)] == ["__transaction_state", "coverage"]
    assert "__transaction_state-3" in gaps(seen)[0]
    assert "orders-2" in gaps(seen)[1]


def test_a_clock_that_differs_is_reported_as_a_note() -> None:
    seen = FINE._replace(clocks=(ClockReport("broker 1", -95_000, 5, "a record"),))
    (line,) = (line for line in lines(seen) if line.what == "clock")
    assert (line.mark, "1 m 35 s behind" in line.text) == (NOTE, True)
    near = FINE._replace(clocks=(ClockReport("broker 1", 1_400, 900, "a record"),))  # the difference may be 0.5 s
    assert [line.mark for line in lines(near) if line.what == "clock"] != [NOTE]


def test_a_watched_topic_that_does_not_exist_is_a_note_and_no_gap() -> None:
    seen = FINE._replace(topics=TOPICS._replace(globs=("orders", "oders"), absent=("oders",)))
    assert gaps(seen) == []
    assert [line.text for line in lines(seen) if line.mark == NOTE and "oders" in line.text] == [
        "--topics: there is no topic oders"
    ]


@pytest.mark.parametrize(
    ("level", "release"),
    [(33, "4.4"), (31, "4.4"), (30, "4.3"), (29, "4.2"), (25, "4.0"), (21, "3.9"), (20, "3.8"), (7, "3.3"), (1, "3.0")],
)
def test_a_release_follows_from_the_newest_metadata_version(level: int, release: str) -> None:
    assert release_of(level) == release


@pytest.mark.parametrize("level", [None, 0, 34])
def test_a_release_is_not_guessed(level: int | None) -> None:
    assert release_of(level) is None


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ((30, 28), "coordinators of Kafka 4.3.0, 4.3.1 and 4.4.0 skip"),
        ((33, 33), "coordinators of Kafka 4.3.0, 4.3.1 and 4.4.0 skip"),
        ((28, 21), None),
        ((28, 34), "coordinators of Kafka 4.3.0, 4.3.1 and 4.4.0, and maybe of this cluster, skip"),
        ((28, None), "coordinators of Kafka 4.3.0, 4.3.1 and 4.4.0, and maybe of this cluster, skip"),
    ],
)
def test_a_bug_is_named_where_the_brokers_have_it(levels: tuple[int | None, ...], said: str | None) -> None:
    brokers = tuple(BROKER._replace(node=n, newest_metadata_version=level) for n, level in enumerate(levels))
    reported = [line.text for line in lines(FINE._replace(brokers=brokers)) if "KAFKA-20734" in line.text]
    assert [text.partition(" the markers")[0] for text in reported] == ([] if said is None else [said])


def test_markers_need_alter_and_cluster_action_before_38() -> None:
    assert to_resolve(FINE) == ("it is not granted", acls.CLUSTER_ALTER)
    old = FINE._replace(brokers=(BROKER, BROKER._replace(newest_metadata_version=19)), cluster_operations=None)
    assert to_resolve(old) == ("whether it is granted shows only when a marker is written", acls.CLUSTER_ACTION)
    assert to_resolve(FINE._replace(cluster_operations=frozenset({"ALTER", "DESCRIBE"}))) is None
    assert to_resolve(FINE._replace(has_authorizer=False)) is None
    altering = old._replace(cluster_operations=frozenset({"ALTER", "DESCRIBE"}))
    assert to_resolve(altering) == ("it is not granted", acls.CLUSTER_ACTION)
    assert to_resolve(altering._replace(cluster_operations=frozenset({"CLUSTER_ACTION"}))) is None


def test_acl_commands_have_no_duplicates_and_no_grant_within_a_wider_one() -> None:
    wanted = [
        acls.CLUSTER_DESCRIBE,
        acls.topic("__transaction_state", "Read"),
        acls.CLUSTER_CONFIGS,
        acls.topic("*", "Read"),
        acls.topic("*", "Read"),
        Acl("--group", "a b", "Describe"),
        Acl("--group", "c", "Describe"),
    ]
    printed = [shlex.split(line) for line in acls.lines(wanted, "User:scope", "h:1")]
    head = ["kafka-acls.sh", "--bootstrap-server", "h:1", "--command-config", "admin.properties", "--add"]
    assert [words[:8] for words in printed] == [[*head, "--allow-principal", "User:scope"]] * 3
    assert [words[8:] for words in printed] == [
        ["--operation", "Describe", "--operation", "DescribeConfigs", "--cluster"],
        ["--operation", "Read", "--topic", "*"],
        ["--operation", "Describe", "--group", "a b", "--group", "c"],
    ]


def test_an_unknown_principal_is_a_placeholder_in_the_command() -> None:
    (line,) = acls.lines([acls.CLUSTER_ALTER], None, "h:1")
    assert "'User:<your principal>'" in line


@pytest.mark.parametrize(
    ("glob", "resource"),
    [("orders", ("orders", False)), ("orders-*", ("orders-", True)), ("*", ("*", False)), ("*-dlq", ("*", False))],
)
def test_a_pattern_is_granted_as_narrowly_as_kafka_can(glob: str, resource: tuple[str, bool]) -> None:
    acl = acls.pattern(glob, "Read")
    assert (acl.name, acl.is_prefix) == resource


def test_a_few_topics_are_granted_by_name_and_all_topics_by_a_star() -> None:
    names = [f"t-{n}" for n in range(21)]
    assert [acl.name for acl in acls.each_or_all("--topic", names[:3], 30, "Read")] == names[:3]
    assert [acl.name for acl in acls.each_or_all("--topic", names[:3], 3, "Read")] == ["*"]
    assert [acl.name for acl in acls.each_or_all("--topic", names, 1000, "Read")] == ["*"]
    assert [acl.name for acl in acls.each_or_all("--topic", names[:1], 1, "Read")] == names[:1]


NO_LOG = LogReport(False, 0, (), False, None, 0, False)
OTHER = FINE._replace(
    brokers=(BROKER._replace(newest_metadata_version=None),),
    features={},
    log=NO_LOG._replace(seen=TransactionsSeen.LISTED),
)


ALL_ABILITIES = dict.fromkeys([*LACKING, *NO_GROUPS], True)
NEWER = TriedVersion(
    "4.3.1", "2026-11-27", 500, 2, ALL_ABILITIES, {}, {}, {"a.py::test_a": Scenario("passed", 1, (), ())}
)
OLDER = NEWER._replace(version="4.2.1", abilities=dict.fromkeys(ALL_ABILITIES, False) | {"refuses_late_writes": True})


def first_lines(seen: ClusterReport, records: Sequence[TriedVersion] = (NEWER, OLDER)) -> dict[str, str]:
    return dict(head(seen, records))


def test_the_first_lines_report_the_release_and_what_works() -> None:
    seen = FINE._replace(brokers=(BROKER._replace(apis=APIS | {27: 1}),), cluster_operations=frozenset({"ALTER"}))
    reported = first_lines(seen)
    assert reported["this is"] == (
        "Kafka 4.3, because the brokers support metadata.version up to 30; __transaction_state with 50 partitions;"
        " transaction.version 2"
    )
    assert reported["tried on"] == "Kafka 4.3.1 on 2026-11-27: all 1 scenarios passed"
    assert reported.keys() == {"this is", "tried on", "works", "works in part"}
    assert reported["works in part"] == (
        f"causes and history (likely at most: {NO_CAUSE}); blocked groups (likely at most: {NO_LEVEL})"
    )
    assert "hanging transactions" in reported["works"]
    assert "resolve" in reported["works"]
    mixed = seen._replace(brokers=(BROKER, BROKER._replace(newest_metadata_version=28), BROKER))
    assert first_lines(mixed)["this is"].startswith(
        "Kafka 4.2 and 4.3, because the brokers support metadata.version up to 28 and 30;"
    )


def test_resolve_works_only_with_the_permission_to_write_markers() -> None:
    seen = FINE._replace(brokers=(BROKER._replace(apis=APIS | {27: 1}),))
    assert first_lines(seen)["does not work"] == (
        "resolve: writing a missing marker (Alter on the cluster: it is not granted)"
    )
    assert "resolve" in first_lines(seen._replace(cluster_operations=None))["not known"]
    assert "resolve" in first_lines(seen._replace(has_authorizer=False))["works"]


def test_partitions_of_the_log_without_a_leader_leave_producers_without_a_name() -> None:
    seen = FINE._replace(log=FINE.log._replace(leaderless=(3,)))
    for what in ("names of blocking producers", "explain: owner of a record", "causes and history"):
        assert "not for ids of partitions 3 of __transaction_state" in verdict(seen, what).why, what


def test_topics_without_an_answer_are_not_counted_as_allowed() -> None:
    seen = FINE._replace(topics=TOPICS._replace(readable=("orders",), unanswered=("payments",), unanswered_why="x"))
    (allowed,) = (line.text for line in lines(seen) if line.text.startswith("READ is allowed"))
    assert allowed == "READ is allowed on 1 of 2 watched topics"
    assert "payments" in verdict(seen, "names of blocking producers").why


def test_brokers_without_a_transaction_log_are_described_not_guessed() -> None:
    reported = first_lines(OTHER)
    assert reported["this is"] == (
        "brokers that speak Kafka's protocol and report no metadata.version: their software and release are not known;"
        " the brokers list no topic __transaction_state, although they list transactional ids: they do not have it, or"
        " hide it; transaction.version not reported"
    )
    assert "hanging transactions (likely at most: no __transaction_state is listed" in reported["works in part"]
    assert reported["does not work"] == (
        "names of blocking producers, causes and history, timeouts and expiry, resolve: writing a missing marker (no"
        " __transaction_state is listed)"
    )
    (gap,) = gaps(OTHER)
    assert gap.startswith("__transaction_state: the brokers list no topic __transaction_state, although")


def test_before_the_first_transaction_nothing_is_said_to_fail() -> None:
    reported = first_lines(FINE._replace(log=NO_LOG, ids=FINE.ids._replace(listed=0)))
    assert "there is no __transaction_state" in reported["this is"]
    assert "does not work" not in reported
    assert reported["not known"].startswith("hanging transactions, names of blocking producers")


def test_a_list_that_leaves_out_open_transactions_is_a_gap() -> None:
    seen = OTHER._replace(
        log=NO_LOG._replace(seen=TransactionsSeen.OPEN),
        ids=FINE.ids._replace(listed=0),
        topics=TOPICS._replace(with_open=("orders",)),
    )
    assert "ListTransactions: lists 0 ids, although transactions are open on orders" in gaps(seen)[1]
    assert verdict(seen, "coordinators' answers").trust == NONE
    assert verdict(seen, "hanging transactions").trust == NONE, "their owners cannot be asked for"


def test_a_known_release_shows_its_recorded_results_and_differences() -> None:
    (scenario,) = NEWER.scenarios.values()
    skipping = NEWER._replace(
        scenarios={
            "a.py::test_a_late_write": scenario._replace(outcome="failed"),
            "a.py::test_b": scenario._replace(seen=(SKIPPED_MARKER,)),
        }
    )
    reported = first_lines(FINE, [skipping, OLDER])
    assert reported["tried on"] == "Kafka 4.3.1 on 2026-11-27: 1 of 2 scenarios passed; failed: a late write"
    assert reported["there"] == "the marker of a partition without a leader is skipped (KAFKA-20734)"
    older = FINE._replace(brokers=(BROKER._replace(newest_metadata_version=28),))
    assert first_lines(older)["there"] == (
        "offsets committed outside of a transaction are accepted, and hang; kafka-transactions.sh has no"
        " forceTerminateTransaction (starting the application fences its id instead); by default no groups of KIP-848,"
        " KIP-932 and KIP-1071"
    )
    both = FINE._replace(brokers=(BROKER, *older.brokers))
    assert first_lines(both)["tried on"].count("all 1 scenarios passed") == 2
    assert first_lines(both)["there"].startswith("Kafka 4.2.1: offsets committed outside")


@pytest.mark.parametrize(
    ("level", "which"), [(28, "Kafka 4.2"), (34, "brokers of a release that is not known"), (None, "brokers of a")]
)
def test_nothing_is_claimed_about_a_release_without_a_record(level: int | None, which: str) -> None:
    reported = first_lines(FINE._replace(brokers=(BROKER._replace(newest_metadata_version=level),)), [NEWER])
    assert reported["not known"].startswith(f"everything that depends on the release (not tried on {which}")
    assert not reported.keys() & {"tried on", "there"}
