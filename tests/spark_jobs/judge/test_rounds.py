"""Tests that findings do not depend on the pieces in which the log is read. On a slow machine, the same findings come
later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import pytest
from sqlalchemy import Engine

from service.domain.findings.finding import Key
from service.domain.findings.kinds import Kind
from service.domain.findings.rules import Rules
from service.domain.transaction_log import states
from service.store import clusters
from service.store.engine import open_reader
from service.store.writers.findings import FindingWriter, load
from spark_jobs.judge.judge import Judge
from tests.helpers.clocks import no_work
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.logs import NOW_MS, Entry, batch, entry, read

pytestmark = only_on("sqlite")

MINUTE_MS = 60_000
SCAN = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": {"value": "500", "source": "broker"}}


class Ended(NamedTuple):
    """An event of an id, `at_s` seconds after NOW_MS. If `expires` is set, the id expires. Otherwise its transaction is
    aborted after a timeout."""

    at_s: float
    name: str
    partition: int = 0
    expires: bool = False

    def entries(self, offset: int) -> list[Entry]:
        at_ms = NOW_MS + int(self.at_s * 1000)
        key, start_ms = self.name.encode(), at_ms - 61_000
        if self.expires:
            return [entry(offset, states.EMPTY, key, at_ms=at_ms), entry(offset + 1, states.EXPIRED, key, at_ms=at_ms)]
        path = ((states.ONGOING, 0), (states.PREPARE_ABORT, 1), (states.COMPLETE_ABORT, 1))
        return [
            entry(
                offset + n,
                state,
                key,
                pid=crc32(key),
                epoch=epoch,
                start_ms=start_ms,
                at_ms=at_ms if n else start_ms,
            )
            for n, (state, epoch) in enumerate(path)
        ]


class Watched:
    """A cluster whose transaction log has two partitions, and its judge."""

    def __init__(self, cluster: Cluster, reader: Engine) -> None:
        self.cluster, self.reader = cluster, reader
        self.read_to = {0: 0, 1: 0}
        clusters.describe(cluster.engine, cluster.id, {"configs": SCAN}, NOW_MS)
        cluster.start(self.read_to)
        self.restart()

    def restart(self) -> None:
        """Starts a new judge over the same store, as after a restart of the driver."""
        writer = FindingWriter(self.cluster.engine, self.cluster.lease)
        self.judge = Judge(self.reader, writer, self.cluster.id, Rules(), processor_s=no_work)

    def round(self, now_s: float, *ended: Ended, behind: Sequence[int] = (), away: Sequence[int] = ()) -> None:
        """Reads one micro-batch, and judges once. `behind`: partitions that are not read to their end; `away`:
        partitions that are not read."""
        now_ms = NOW_MS + int(now_s * 1000)
        for partition, lo in self.read_to.items():
            if partition in away:
                continue
            entries: list[Entry] = []
            for one in ended:
                if one.partition == partition:
                    entries += one.entries(lo + len(entries))
            hi = lo + len(entries)
            end = hi + (partition in behind)
            span = read(lo, hi, partition=partition, end=end, asked_at_ms=now_ms)
            self.cluster.writer.apply(batch(entries, span), now_ms)
            self.read_to[partition] = hi
        self.judge.round(now_ms)

    def wait(self, from_s: float, for_s: float = 100) -> None:
        for n in range(int(for_s / 2) + 1):
            self.round(from_s + 2 * n)

    def found(self) -> dict[Key, int]:
        """Returns a mapping from the key of every finding so far to its count. Leaves out the finding about added log
        partitions: tests put ids into any partition, as if partitions had been added."""
        with self.reader.connect() as connection:
            found = {key: finding.life.count for key, finding in load(connection, self.cluster.id, NOW_MS).items()}
        return {key: count for key, count in found.items() if key[0] != Kind.LOG_EXPANDED}

    def reported(self) -> set[tuple[str, str | None]]:
        return {(kind, subject.prefix or _text(subject.transactional_id)) for kind, subject in self.found()}


def _text(name: bytes | None) -> str | None:
    return None if name is None else name.decode()


@pytest.fixture
def watch(url: str, engine: Engine, new_cluster: Callable[[], Cluster]) -> Iterator[Callable[[], Watched]]:
    reader = open_reader(url)
    yield lambda: Watched(new_cluster(), reader)
    reader.dispose()


Watch = Callable[[], Watched]

CORRELATED = {(Kind.CORRELATED_TIMEOUTS, None)}
OUTAGE = [Ended(n * 0.1, name) for n, name in enumerate(("a", "b", "pay-1", "pay-2", "c", "d"))]


def at_once(watch: Watch, ended: Sequence[Ended]) -> dict[Key, int]:
    """Reads the whole log in one piece. Returns a mapping from the key of each finding to its count."""
    whole = watch()
    now_s = max(one.at_s for one in ended) + 1
    whole.round(now_s, *ended)
    whole.wait(now_s + 1)
    return whole.found()


def test_timeouts_read_one_by_one_are_still_one_outage(watch: Watch) -> None:
    slow = watch()
    for n, ended in enumerate(OUTAGE):
        slow.round(1 + n, ended)
    assert slow.reported() == CORRELATED
    slow.wait(10)
    assert slow.reported() == CORRELATED
    assert slow.found() == at_once(watch, OUTAGE)


@pytest.mark.parametrize("behind", [(0,), (1,), (0, 1)])
def test_no_timeout_counts_as_a_single_one_while_the_source_lags(watch: Watch, behind: Sequence[int]) -> None:
    """While the source lags, there may be unread timeouts, so a timeout is not reported as a single one."""
    slow = watch()
    for n, ended in enumerate(OUTAGE):
        slow.round(1 + 20 * n, ended, behind=behind)
        slow.round(11 + 20 * n, behind=behind)
        assert n >= 4 or slow.reported() == set()
    slow.wait(130)
    assert slow.reported() == CORRELATED
    assert slow.found() == at_once(watch, OUTAGE)


def test_timeouts_some_seconds_apart_are_still_one_outage(watch: Watch) -> None:
    """The timeouts are further apart than the coordinator's scans."""
    ended = [Ended(4 * n, ended.name) for n, ended in enumerate(OUTAGE)]
    slow = watch()
    for n, one in enumerate(ended):
        for tick in range(8):
            slow.round(4 * n + 0.5 * (tick + 1), *([one] if tick == 0 else []))
    slow.wait(30)
    assert slow.reported() == CORRELATED
    assert slow.found() == at_once(watch, ended)


def test_a_late_timeout_belongs_to_its_outage(watch: Watch) -> None:
    slow = watch()
    slow.round(1, *OUTAGE)
    assert slow.reported() == CORRELATED
    late = Ended(9, "late")
    slow.round(30, late)
    slow.wait(31)
    assert slow.reported() == CORRELATED
    assert slow.found() == at_once(watch, [*OUTAGE, late])


def test_timeouts_of_a_coordinator_read_later_belong_to_the_outage(watch: Watch) -> None:
    ended = [ended._replace(partition=n % 2) for n, ended in enumerate(OUTAGE)]
    slow = watch()
    slow.round(1, *ended[0::2], behind=[1])
    for now_s in range(2, 40, 2):
        slow.round(now_s, behind=[1])
        assert slow.reported() == set()
    slow.round(40, *ended[1::2])
    slow.wait(41)
    assert slow.reported() == CORRELATED
    assert slow.found() == at_once(watch, ended)


def test_a_restart_of_the_judge_does_not_split_an_outage(watch: Watch) -> None:
    slow = watch()
    for n, ended in enumerate(OUTAGE):
        slow.restart()
        slow.round(1 + n, ended)
    slow.restart()
    slow.wait(10)
    assert slow.reported() == CORRELATED
    assert slow.found() == at_once(watch, OUTAGE)


def test_minutes_without_the_driver_do_not_split_an_outage(watch: Watch) -> None:
    slow = watch()
    slow.round(0.5, *OUTAGE[:3])
    slow.restart()
    slow.judge.round(NOW_MS + 7 * MINUTE_MS)  # nothing was read in between
    assert slow.reported() == set()
    slow.round(7 * 60 + 5, *OUTAGE[3:])
    slow.wait(7 * 60 + 6)
    assert slow.reported() == CORRELATED
    assert slow.found() == at_once(watch, OUTAGE)


def test_a_single_timeout_is_reported_soon_and_once(watch: Watch) -> None:
    watched = watch()
    watched.round(0)
    watched.round(1, Ended(0, "pay"))
    for now_s in (5, 10, 16.9):
        watched.round(now_s)
        assert watched.reported() == set()
    watched.round(17)
    assert watched.reported() == {(Kind.TIMED_OUT, "pay")}
    watched.restart()
    watched.wait(18)
    assert list(watched.found().values()) == [1]


def test_a_trickle_of_timeouts_is_reported_within_a_bounded_time(watch: Watch) -> None:
    """Each timeout comes before the previous one is settled, and the timeouts are too few for an outage."""
    watched = watch()
    for n in range(12):
        watched.round(10 * n, Ended(10 * n, f"{'xyz'[n % 3]}"))
        assert n < 8 or watched.reported()
    watched.wait(130)
    assert watched.reported() == {(Kind.TIMED_OUT, name) for name in "xyz"}
    assert sum(watched.found().values()) == 12


def test_a_log_partition_without_a_leader_delays_findings_only_briefly(watch: Watch) -> None:
    watched = watch()
    watched.round(0)
    watched.round(1, Ended(0, "pay"), away=[1])
    watched.round(20, away=[1])
    assert watched.reported() == set()
    watched.round(31, away=[1])
    assert watched.reported() == {(Kind.TIMED_OUT, "pay")}


def test_a_log_partition_that_always_lags_does_not_hide_findings_forever(watch: Watch) -> None:
    watched = watch()
    for now_s in range(1, 310, 5):
        watched.round(now_s, *([Ended(0, "pay")] if now_s == 1 else []), behind=[1])
    assert watched.reported() == {(Kind.TIMED_OUT, "pay")}


@pytest.mark.parametrize("expires", [False, True])
def test_ids_of_one_prefix_share_a_finding_however_they_are_read(watch: Watch, expires: bool) -> None:
    """The ids are too few for an outage."""
    ended = [Ended(n * 0.1, f"pay-{n}", n % 2, expires) for n in range(4)]
    slow = watch()
    for n, one in enumerate(ended):
        slow.round(1 + 3 * n, one)
    slow.wait(14)
    assert slow.reported() == {(Kind.EXPIRED if expires else Kind.TIMED_OUT, "pay-")}
    assert slow.found() == at_once(watch, ended)


def test_an_outage_stays_one_finding_when_its_first_timeouts_are_forgotten(watch: Watch) -> None:
    """After 15 minutes the first timeouts of the outage are forgotten. The other timeouts must not become single
    findings."""
    ended = [Ended(9 * n, ended.name) for n, ended in enumerate(OUTAGE)]
    watched = watch()
    watched.round(50, *ended)
    watched.wait(51)
    for now_s in range(14 * 60 + 50, 16 * 60, 5):
        watched.round(now_s, Ended(now_s, f"old-{now_s}", expires=True))
    assert {kind for kind, _ in watched.reported()} == {Kind.CORRELATED_TIMEOUTS, Kind.EXPIRED}


def test_a_finding_stays_open_while_another_timeout_is_not_settled(watch: Watch) -> None:
    watched = watch()
    watched.round(1, Ended(0, "pay"))
    watched.wait(2, 30)
    watched.round(15 * 60 - 5, Ended(15 * 60 - 6, "pay"))
    watched.wait(15 * 60 - 4, 30)
    with watched.reader.connect() as connection:
        (found,) = load(connection, watched.cluster.id, NOW_MS).values()
    assert (found.is_open, found.life.reopened, found.life.count) == (True, False, 2)
