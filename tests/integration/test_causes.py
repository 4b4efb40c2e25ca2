"""Tests of the causes of commits and aborts in the store, on real brokers. The causes must be right, and no more
certain than the log allows.

By default, these tests run on 4.3.1, and those of test_causes_late on 3.9.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException

from deploy.demo.broker import Broker
from deploy.demo.workload.old_producer import OldProducer
from deploy.demo.workload.raw_producer import Refused, describe
from deploy.demo.workload.workload import Workload
from service.domain.transaction_log.causes import CauseCode
from tests.helpers.brokers import EVERY_VERSION, WITH_TV2, on, on_those
from tests.helpers.waiting import ANSWER_S, wait_until_equal
from tests.integration.causes_lab import (
    ADMIN,
    CLIENT,
    EMPTY_ABORT,
    FENCED,
    INIT,
    NO_WITNESS,
    PRODUCER_FENCED,
    TIMEOUT,
    TV2_CLIENT,
    TV2_FENCED,
    Lab,
    ended_by_a_late_copy,
    id_history,
    labs,
    write,
)
from tests.integration.producers import create_topic, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SHORT_MS = 3_000
WITHOUT_FORCE = tuple(v for v in EVERY_VERSION if v < "4.1")
"""Versions without `kafka-transactions.sh forceTerminateTransaction`."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def lab(brokers: Callable[[str], Broker], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Lab]]:
    with labs(brokers, tmp_path_factory.mktemp("causes")) as of:
        yield of


@pytest.fixture
def here(lab: Callable[[str], Lab], version: str) -> Lab:
    return lab(version)


@on("4.3.1")
def test_a_healthy_mixture_and_a_few_who_run_out_or_are_fenced(here: Lab) -> None:
    """The store has the same numbers of commits, and of aborts by cause, as the workload's own account. The workload
    uses offsets in transactions, several partitions, and old and new clients side by side."""
    book = Workload(here.bootstrap, seed=21, prefix="a-").run(rounds=2)
    words = (CauseCode.CLIENT_ABORT, CauseCode.TIMEOUT, CauseCode.FENCED)
    by_word = {name: _positive(dict(zip(words, account.aborts, strict=True))) for name, account in book.items()}

    def counted() -> dict[str, tuple[int, dict[str, int]]]:
        return {name: (said.commits, said.aborts) for name, said in here.id_history(book).items()}

    expected = {name: (account.commits, by_word[name]) for name, account in book.items()}
    wait_until_equal(counted, expected, f"(commits, aborts by cause) of each id ({here.app.log})")
    for name, said in here.id_history(book).items():
        rows = Counter(row for row in said.rows if row.startswith("PrepareAbort"))
        by_hand = name == "a-audit-tv2"
        clients = rows[TV2_CLIENT] + rows[NO_WITNESS] if by_hand else rows[CLIENT]
        seen = {CauseCode.CLIENT_ABORT: clients, CauseCode.TIMEOUT: rows[TIMEOUT], CauseCode.FENCED: rows[FENCED]}
        assert _positive(seen) == by_word[name], (name, rows)
        assert rows[EMPTY_ABORT] == book[name].empty_aborts
    assert any(account.aborts.client for account in book.values())


def _positive(counts: dict[CauseCode, int]) -> dict[str, int]:
    return {word: count for word, count in counts.items() if count}


@on("4.3.1")
def test_two_instances_of_an_old_client_fence_each_other(here: Lab) -> None:
    """On a cluster with transaction.version 2, the records of the coordinator's own aborts have
    ClientTransactionVersion 2, whatever protocol the client speaks. The cause of such an abort must still be `fenced`,
    with the confidence `likely`."""
    create_topic(here.bootstrap, "g-shared")
    first = here.begin("g-shared", "g-shared")
    second = open_producer(here.bootstrap, "g-shared", 45_000)
    transact(second, "g-shared")
    with pytest.raises(KafkaException):
        first.commit_transaction(ANSWER_S)
    for _ in range(3):  # then both instances are idle, and restart in turn
        open_producer(here.bootstrap, "g-shared")
    here.expect({"g-shared": id_history(1, INIT, FENCED, *[INIT] * 4)})


@on("4.3.1")
def test_librdkafka_in_every_codec_and_java_in_one(here: Lab) -> None:
    """Java's producer speaks TV2 if the cluster does. Codecs apply to the data, and not to the transaction log, which
    is never compressed."""
    create_topic(here.bootstrap, "n-codecs")
    for codec in CODECS:
        client = open_producer(here.bootstrap, f"n-rdkafka-{codec}", codec=codec)
        for commit in (True, False, True):
            transact(client, "n-codecs", commit=commit)
    here.broker.tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "n-codecs", "--num-records", "30", "--record-size", "60", "--throughput", "-1"),
        *("--transactional-id", "n-java", "--transaction-duration-ms", "60000"),
        *("--producer-props", f"bootstrap.servers={here.bootstrap}", "compression.type=zstd"),
    )
    here.expect(
        {"n-java": id_history(1, INIT)} | {f"n-rdkafka-{codec}": id_history(2, INIT, CLIENT) for codec in CODECS}
    )


@on("4.3.1")
def test_an_administrator_ends_it(here: Lab, version: str) -> None:
    """Kafka's own tool ends the transaction. Before 4.1 the tool cannot do this, so the test sends the request of
    Admin.fenceProducers to older brokers."""
    create_topic(here.bootstrap, "q-force")
    here.begin("q-old", "q-force", 120_000)
    names = ["q-old"]
    if version not in WITHOUT_FORCE:
        names.append("q-tv2")
        here.raw("q-tv2", 120_000).produce("q-force", 1, [b"x"])
        tool = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", here.bootstrap)
        for name in names:
            here.broker.tool(*tool, "forceTerminateTransaction", "--transactionalId", name)
    else:
        here.raw("q-old", 30_000)
    here.expect(dict.fromkeys(names, id_history(0, INIT, ADMIN, INIT)))


@on("4.3.1")
def test_a_late_copy_of_an_end_ends_the_next_transaction(here: Lab) -> None:
    """The late copy of an abort aborts the next transaction, which the client wanted to commit. So if an abort does not
    change the epoch, its cause must not be certain."""
    create_topic(here.bootstrap, "late-end")
    for name, commit in (("late-abort", False), ("late-commit", True)):
        ended_by_a_late_copy(here.old(name, "late-end"), "late-end", commit=commit)
    here.expect({"late-abort": id_history(1, INIT, CLIENT, CLIENT), "late-commit": id_history(3, INIT)})


@on("4.3.1")
def test_a_framework_that_fences_its_own_ids_is_no_administrator(here: Lab) -> None:
    """Kafka Connect sends the request of Admin.fenceProducers, which administrators may also send. Connect's task
    starts with the same id right after the request, so the cause must not be `admin`."""
    create_topic(here.bootstrap, "connect")
    here.begin("connect-0", "connect")
    here.begin("connect-1", "connect")
    for name, timeout_ms in (("connect-0", 30_000), ("connect-1", 45_000)):
        here.raw(name, timeout_ms)
        here.raw(name)
    here.expect(
        {"connect-0": id_history(0, INIT, TV2_FENCED, INIT, INIT), "connect-1": id_history(0, INIT, FENCED, INIT, INIT)}
    )


@on_those(WITH_TV2, "4.3.1")
def test_tv2_excludes_the_late_copy_and_gives_its_own_epoch(here: Lab) -> None:
    topic = "tv2-itself"
    create_topic(here.bootstrap, topic)
    late, itself = here.raw("tv2-late-end"), here.raw("tv2-itself")
    late.produce(topic, 0, [b"x"])
    epoch = late.producer_epoch
    late.end(commit=False)
    late.produce(topic, 1, [b"x"])
    now = late.producer_epoch
    late.producer_epoch = epoch
    with pytest.raises(Refused) as refused:
        late.end(commit=False)  # the late copy of the request
    assert refused.value.code == PRODUCER_FENCED
    late.producer_epoch = now
    late.end(commit=True)
    itself.produce(topic, 0, [b"x"])
    itself.init(own=True)
    itself.produce(topic, 0, [b"x"])
    itself.end(commit=True)
    old = here.old("old-itself", topic)
    old.init(own=True)
    write(old, topic, 0)
    old.end(commit=True)
    by_recovery = here.raw("tv2-recovered")
    by_recovery.produce(topic, 0, [b"x"])
    recovery = OldProducer(here.connection, "tv2-recovered")
    recovery.producer_id, recovery.producer_epoch = by_recovery.producer_id, by_recovery.producer_epoch
    recovery.end(commit=False)
    here.expect(
        {
            "tv2-late-end": id_history(1, INIT, TV2_CLIENT),
            "tv2-itself": id_history(1, INIT, TV2_CLIENT, INIT),
            "old-itself": id_history(1, INIT, CLIENT, INIT),
            "tv2-recovered": id_history(0, INIT, CLIENT),
        }
    )


@on_those(WITH_TV2, "4.3.1")
def test_tv2_clients(here: Lab) -> None:
    """Every end of a transaction raises the epoch by one, as a fence does. So the record of an end alone is ambiguous,
    and the next record of the id decides on the cause."""
    topic = "tv2"
    create_topic(here.bootstrap, topic)
    last_word, lives_on, nothing = (here.raw(f"tv2-{name}") for name in ("last-word", "lives-on", "nothing"))
    last_word.produce(topic, 0, [b"x"])
    last_word.end(commit=False)
    for commit in (True, False, True):
        lives_on.produce(topic, 0, [b"x"])
        lives_on.produce(topic, 1, [b"x"])
        lives_on.end(commit=commit)
    nothing.end(commit=False)
    aborts_twice, restarts = (here.raw(f"tv2-{name}") for name in ("aborts-twice", "restarts"))
    aborts_twice.produce(topic, 0, [b"x"])
    aborts_twice.end(commit=False)
    aborts_twice.end(commit=False)  # this transaction is empty
    restarts.produce(topic, 0, [b"x"])
    restarts.end(commit=False)
    here.raw("tv2-restarts")
    late, fenced = here.raw("tv2-late", SHORT_MS), here.raw("tv2-fenced")
    late.produce(topic, 0, [b"x"])
    fenced.produce(topic, 1, [b"x"])
    other = here.raw("tv2-fenced", 45_000)
    other.produce(topic, 1, [b"x"])
    other.end(commit=True)
    with pytest.raises(Refused):
        fenced.produce(topic, 1, [b"x"])
    wait_until_equal(
        lambda: describe(here.connection, "tv2-late").transaction_state, "CompleteAbort", "the state of tv2-late"
    )
    late.end(commit=False)  # the coordinator accepts this request, and appends no record
    late.produce(topic, 0, [b"x"])
    late.end(commit=True)
    here.expect(
        {
            "tv2-last-word": id_history(0, INIT, NO_WITNESS),
            "tv2-lives-on": id_history(2, INIT, TV2_CLIENT),
            "tv2-nothing": id_history(0, INIT, EMPTY_ABORT),
            "tv2-aborts-twice": id_history(0, INIT, TV2_CLIENT, EMPTY_ABORT),
            "tv2-restarts": id_history(
                0, INIT, TV2_FENCED, INIT
            ),  # the client aborted and restarted; its records look like a fence, so the cause is ambiguous
            "tv2-late": id_history(1, INIT, TIMEOUT),
            "tv2-fenced": id_history(1, INIT, TV2_FENCED, INIT),
        }
    )
