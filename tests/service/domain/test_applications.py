"""Tests that frameworks are recognised by their ids and their behaviour. Other applications are not mistaken for
frameworks."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from service.domain.applications import (
    FLINK_TIMEOUT_MS,
    LEADER,
    NOTHING,
    PER_PARTITION,
    PER_TASK,
    PER_THREAD,
    Application,
    Framework,
    application_of,
    is_two_phase,
    may_be_two_phase,
    sibling_names,
)
from service.domain.id_behaviour import IN_USE, INCREMENTING, INITS_KEPT, POOLING, Behaviour, Init
from service.domain.transaction_log.states import TWO_PHASE_TIMEOUT_MS

# Subtask 0 of a Flink job with one checkpoint a second (Flink 2.2, Kafka 4.3.1). Times are in ms: an exception at
# 4.25 s, kill -9 at 7.8 s, a restart from the last checkpoint at 16.4 s.
INCREMENTING_LOG = """
    flink-0-1  1505 Empty(1,1)   1871 Ongoing(1,1)  2599 PrepareCommit(1,2)  2601 CompleteCommit(1,2)
    flink-0-2  2294 Empty(4,0)   2451 Ongoing(4,0)  3072 PrepareCommit(4,1)  3073 CompleteCommit(4,1)
    flink-0-3  3044 Empty(9,0)   3098 Ongoing(9,0)  4085 PrepareCommit(9,1)  4086 CompleteCommit(9,1)
    flink-0-4  4048 Empty(11,0)  4124 Ongoing(11,0) 4253 PrepareAbort(11,1)  4254 CompleteAbort(11,1) 5612 Empty(11,2)
    flink-0-4  5620 Empty(11,3)  5905 Ongoing(11,3) 6931 PrepareCommit(11,4) 6931 CompleteCommit(11,4)
    flink-0-5  5615 Empty(12,0)  6762 Empty(12,1)   6902 Ongoing(12,1)       7685 PrepareCommit(12,2)
    flink-0-5  7686 CompleteCommit(12,2)
    flink-0-6  7664 Empty(16,0)  16476 Empty(16,1)  16488 Empty(16,2) 17561 Ongoing(16,2) 18378 PrepareCommit(16,3)
    flink-0-6  18382 CompleteCommit(16,3)
    flink-0-7  16482 Empty(18,0) 18006 Empty(18,1)  18195 Ongoing(18,1) 18970 PrepareCommit(18,2)
    flink-0-7  18970 CompleteCommit(18,2)
    flink-0-8  18916 Empty(23,0) 19009 Ongoing(23,0) 19849 PrepareCommit(23,1) 19850 CompleteCommit(23,1)
    flink-0-9  19825 Empty(24,0) 19920 Ongoing(24,0)
"""
POOLING_LOG = """
    flink-0-0  1759 Empty(3,0)   1847 Ongoing(3,0)  2621 PrepareCommit(3,1)  2622 CompleteCommit(3,1)
    flink-0-1  2429 Empty(6,0)   2456 Ongoing(6,0)  3087 PrepareCommit(6,1)  3088 CompleteCommit(6,1)
    flink-0-0  3052 Empty(3,2)   3100 Ongoing(3,2)  4095 PrepareCommit(3,3)  4095 CompleteCommit(3,3)
    flink-0-1  4053 Empty(6,2)   4125 Ongoing(6,2)  4268 PrepareAbort(6,3)   4269 CompleteAbort(6,3)
    flink-0-1  5871 Empty(6,4)   5895 Ongoing(6,4)  6936 PrepareCommit(6,5)  6936 CompleteCommit(6,5)
    flink-0-0  6879 Empty(3,4)   6923 Ongoing(3,4)  7687 PrepareCommit(3,5)  7689 CompleteCommit(3,5)
    flink-0-1  7669 Empty(6,6)  17430 Empty(6,7)   17662 Ongoing(6,7)       18397 PrepareCommit(6,8)
    flink-0-1 18398 CompleteCommit(6,8)
    flink-0-0 18174 Empty(3,6)  18206 Ongoing(3,6)
"""
_STEP = re.compile(r"(?P<at>\d+) (?P<state>\w+)\((?P<pid>\d+),(?P<epoch>\d+)\)")
UUID = "7b0c3a52-1c1e-4f0a-9f57-00c04fd430c8"


def behaviours(log: str, until_ms: int = IN_USE, timeout_ms: int = 60_000, version: int = 2) -> dict[str, Behaviour]:
    """Returns the behaviour of each id in the log up to `until_ms`."""
    found: dict[str, Behaviour] = {}
    for line in log.strip().splitlines():
        name = line.split()[0]
        for step in _STEP.finditer(line):
            at_ms, state, epoch = int(step["at"]), step["state"], int(step["epoch"])
            if at_ms > until_ms:
                break
            behaviour = found.get(name, Behaviour(name, timeout_ms, version, ends=0))
            if state == "Empty":
                behaviour = behaviour._replace(inits=(*behaviour.inits, Init(at_ms, epoch))[-INITS_KEPT:])
            else:
                is_over = state.startswith("Complete")
                behaviour = behaviour._replace(
                    last_use_ms=at_ms if is_over else IN_USE, ends=(behaviour.ends or 0) + is_over
                )
            found[name] = behaviour
    return found


def maker(name: str, known: dict[str, Behaviour]) -> Application:
    """Returns the application of an id. Of the known ids, `application_of` gets only those that `sibling_names`
    returns."""
    return application_of(
        known[name], [known[sibling_name] for sibling_name in sibling_names(name) if sibling_name in known]
    )


def named(*names: str, timeout_ms: int = 60_000) -> dict[str, Behaviour]:
    return {name: Behaviour(name, timeout_ms) for name in names}


def test_flink_ids_for_each_checkpoint_are_recognised() -> None:
    known = behaviours(INCREMENTING_LOG)
    for n in range(1, 10):
        assert maker(f"flink-0-{n}", known) == Application(Framework.FLINK, "flink", "0", INCREMENTING), n


@pytest.mark.parametrize("until_ms", [5_000, 7_700, 17_000, 18_200, 19_000])
def test_a_flink_job_is_recognised_while_away_and_after_its_return(until_ms: int) -> None:
    known = behaviours(INCREMENTING_LOG, until_ms)
    open_ones = [name for name, behaviour in known.items() if behaviour.last_use_ms == IN_USE]
    assert [maker(name, known).strategy for name in open_ones or ["flink-0-4"]] == [INCREMENTING] * max(
        len(open_ones), 1
    )


def test_flink_ids_of_a_pool_are_recognised() -> None:
    known = behaviours(POOLING_LOG)
    assert maker("flink-0-0", known) == Application(Framework.FLINK, "flink", "0", POOLING)
    assert maker("flink-0-1", known) == Application(Framework.FLINK, "flink", "0", POOLING)


def test_a_pool_under_the_old_protocol_shows_by_overlapping_transactions() -> None:
    known = behaviours(POOLING_LOG, version=0)
    assert maker("flink-0-0", known).strategy == POOLING

    def runs(number: int) -> Behaviour:
        """Returns the behaviour of job `number`. The two jobs run in turns, with many transactions in each run."""
        inits = tuple(Init(n * 40_000 + number * 20_000, n) for n in range(INITS_KEPT))
        return Behaviour(f"job-0-{number}", 60_000, 0, inits, inits[-1].at_ms + 15_000, ends=600)

    in_turns = {behaviour.name: behaviour for behaviour in (runs(0), runs(1))}
    assert maker("job-0-0", in_turns) == NOTHING


def test_one_checkpoint_proves_nothing() -> None:
    assert maker("flink-0-2", behaviours(INCREMENTING_LOG, 3_000)) == NOTHING
    assert maker("flink-0-0", behaviours(POOLING_LOG, 3_000)) == NOTHING


def test_threads_that_work_side_by_side_are_not_flink() -> None:
    """Three applications are tested, one after another. All threads of the first have ended many transactions, all
    threads of the second are stuck in their first transaction, and all threads of the third have ended one."""
    many = {
        f"pay-0-{n}": Behaviour(f"pay-0-{n}", 60_000, 2, (Init(100 + n, 0),), 90_000 + n, ends=500) for n in range(6)
    }
    stuck = {f"pay-0-{n}": Behaviour(f"pay-0-{n}", 60_000, 2, (Init(100 + n, 0),), IN_USE, ends=0) for n in range(6)}
    first = {f"pay-0-{n}": Behaviour(f"pay-0-{n}", 60_000, 2, (Init(100 + n, 0),), 5_000 + n, ends=1) for n in range(6)}
    for known in (many, stuck, first):
        assert {maker(name, known) for name in known} == {NOTHING}


def test_starts_that_number_their_ids_are_not_flink() -> None:
    """The application ends the transaction of each start before the next start, or leaves the transaction open until
    the timeout."""
    ended = {
        f"etl-0-{n}": Behaviour(f"etl-0-{n}", 60_000, 2, (Init(n * 20_000, 0),), n * 20_000 + 9_000, ends=1)
        for n in range(9)
    }
    left_open = {
        name: behaviour._replace(last_use_ms=behaviour.inits[0].at_ms + 61_000, was_cut=True)
        for name, behaviour in ended.items()
    }
    for known in (ended, left_open):
        assert {maker(name, known) for name in known} == {NOTHING}


def test_two_threads_that_restart_again_and_again_are_no_pool() -> None:
    def restarts(number: int) -> Behaviour:
        inits = tuple(Init(n * 20_000 + number * 50, 2 * n) for n in range(INITS_KEPT))
        return Behaviour(f"pay-0-{number}", 60_000, 2, inits, 101_000, ends=6)

    known = {behaviour.name: behaviour for behaviour in (restarts(0), restarts(1))}
    assert maker("pay-0-0", known) == NOTHING


def test_unused_ids_in_a_row_are_those_of_an_idle_job() -> None:
    idle = {
        f"flink-0-{n}": Behaviour(f"flink-0-{n}", 60_000, inits=(Init(n * 1_000, 0),), ends=0) for n in range(1, 20)
    }
    assert application_of(idle["flink-0-9"], idle.values()).strategy == INCREMENTING
    few = [idle[f"flink-0-{n}"] for n in range(1, 6)]
    assert application_of(few[0], few) == NOTHING


def test_the_timeout_and_the_form_of_an_id_together_show_a_flink_sink() -> None:
    (behaviour,) = named("orders-1-7", timeout_ms=FLINK_TIMEOUT_MS).values()
    assert application_of(behaviour) == Application(Framework.FLINK, "orders", "1", None)
    assert application_of(behaviour._replace(timeout_ms=900_000)) == NOTHING
    assert application_of(behaviour._replace(name="orders-7")) == NOTHING


def _maker_by_name(name: str, others: Iterable[str], timeout_ms: int, topics: dict[str, int]) -> Application:
    known = named(name, *others, timeout_ms=timeout_ms)
    return application_of(known[name], known.values(), topics)


@pytest.mark.parametrize(
    ("name", "others", "timeout_ms", "maker"),
    [
        (f"shop-{UUID}-1", (), 10_000, Application(Framework.KAFKA_STREAMS, "shop", "1", PER_THREAD)),
        (f"shop-{UUID}-3", (f"shop-{UUID}-1",), 10_000, Application(Framework.KAFKA_STREAMS, "shop", "3", PER_THREAD)),
        (f"shop-{UUID}-3", (f"shop-{UUID}-1",), 60_000, NOTHING),  # an application that numbers its ids from 1
        (f"shop-{UUID}-1", ("connect-cluster-shop",), 60_000, NOTHING),
        (f"tx-{UUID}-0", (), 60_000, NOTHING),  # Spring's prefix with random.uuid
        (f"tx-{UUID}-1", (f"tx-{UUID}-0",), 60_000, NOTHING),
        (f"shop-{UUID.replace('-', '')}-1", (), 60_000, NOTHING),
        ("shop-0_3", (), 10_000, Application(Framework.KAFKA_STREAMS, "shop", "0_3", PER_TASK)),
        ("shop-0_3", ("shop-0_2", "shop-1_0"), 60_000, NOTHING),  # an application with numbers of its own
        ("shop-0_3", ("ship-0_2",), 60_000, NOTHING),
        ("connect-cluster-east", (), 60_000, Application(Framework.KAFKA_CONNECT, "east", None, LEADER)),
        (
            "connect-cluster-east-1",
            ("east-1-jdbc-0",),
            60_000,
            Application(Framework.KAFKA_CONNECT, "east-1", None, LEADER),
        ),
        ("connect-cluster-east-1", (), 60_000, Application(Framework.KAFKA_CONNECT)),
        ("connect-cluster-east-1", ("east-1-jdbc",), 60_000, Application(Framework.KAFKA_CONNECT)),
        (
            "east-my-jdbc-0",
            ("connect-cluster-east",),
            60_000,
            Application(Framework.KAFKA_CONNECT, "my-jdbc", "0", PER_TASK),
        ),
        ("east-jdbc-1-0", ("connect-cluster-east",), FLINK_TIMEOUT_MS, NOTHING),  # may be a Flink subtask
        (
            "east-1-jdbc-0",
            ("connect-cluster-east", "connect-cluster-east-1"),
            60_000,
            Application(Framework.KAFKA_CONNECT, "east-1-jdbc", "0", PER_TASK),
        ),
        (
            "connect-cluster-jdbc-0",
            ("connect-cluster-connect-cluster",),
            60_000,
            Application(Framework.KAFKA_CONNECT, "jdbc", "0", PER_TASK),
        ),
        ("east-my-jdbc-0", ("connect-cluster-west", "east-my-jdbc-1"), 60_000, NOTHING),
        ("tx.g.in.0", ("tx.g.in.1",), 60_000, Application(Framework.SPRING, "tx.g", "in-0", PER_PARTITION)),
        ("tx.g.eu.in.2", ("tx.g.eu.in.1",), 60_000, NOTHING),  # the topic may be "in" or "eu.in"
        ("tx.g.in.3", ("tx.g.in.1",), 60_000, NOTHING),  # the topic has no such partition
        ("tx.g.in.0", (), 60_000, NOTHING),
        ("billing.worker.1", ("billing.worker.0",), 60_000, NOTHING),
        ("pay-1", ("pay-0", "pay-2"), 60_000, NOTHING),
        ("pay-0-1", ("pay-0-0", "pay-0-2"), 60_000, NOTHING),
        ("", (), 60_000, NOTHING),
        ("-0-0", (), FLINK_TIMEOUT_MS, NOTHING),
        ("connect-cluster-", (), 60_000, NOTHING),
    ],
)
def test_the_name_of_an_id_shows_its_framework(
    name: str, others: tuple[str, ...], timeout_ms: int, maker: Application
) -> None:
    assert _maker_by_name(name, others, timeout_ms, {"in": 3, "eu.in": 3, "orders": 6}) == maker


def test_a_two_phase_sink_shows_by_name_framework_or_timeout() -> None:
    assert may_be_two_phase("orders-0-3", 60_000)
    assert not may_be_two_phase("pay-1", 60_000)
    assert is_two_phase(NOTHING, TWO_PHASE_TIMEOUT_MS)
    assert is_two_phase(Application(Framework.FLINK), 60_000)
    assert not is_two_phase(NOTHING, 60_000)


def test_an_id_has_few_sibling_names() -> None:
    names = ("a-0-5", "a-0-0", f"a-{UUID}-1", "x-" * 99 + "1", "a.b.7", "a-0_1", "a" * 30_000, "")
    for name in names:
        found = sibling_names(name)
        assert len(found) <= 24
        assert name not in found


def test_the_leader_of_connect_does_not_hide_a_flink_job_of_the_same_name() -> None:
    """A group of Connect workers and a Flink job may have the same name.

    The advice for a task of Connect is to restart it. For a two-phase sink, a restart would discard the transaction.
    """
    leader = named("connect-cluster-flink")
    for log, strategy in ((INCREMENTING_LOG, INCREMENTING), (POOLING_LOG, POOLING)):
        renamed = log.replace("flink-0", "flink-etl-0")
        known = behaviours(renamed) | leader
        for name in known.keys() - leader.keys():
            assert maker(name, known) == Application(Framework.FLINK, "flink-etl", "0", strategy)
    for timeout_ms in (60_000, FLINK_TIMEOUT_MS):  # the name also fits a task of a connector
        assert maker("flink-etl-0-1", named("flink-etl-0-1", timeout_ms=timeout_ms) | leader) == NOTHING


def test_the_leader_of_connect_does_not_hide_kafka_streams() -> None:
    name = f"east-app-{UUID}-1"
    known = named(name, "connect-cluster-east", timeout_ms=10_000)
    assert maker(name, known) == Application(Framework.KAFKA_STREAMS, "east-app", "1", PER_THREAD)
