"""Tests that a standby takes over only from a holder that has ended or no longer renews the lease, whatever the clocks
of the hosts show."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from service.processes.identity import own_identity
from service.processes.waiting import WorkingTime
from service.store import clusters, lease
from service.store.engine import open_engine
from service.store.errors import LeaseLost, StoreUnavailable
from service.store.lease import EXPIRES_AFTER_MS, Lease
from service.store.standby import LOOK_EVERY_S, Standby
from tests.helpers.migrated import migrated
from tests.helpers.paths import ROOT
from tests.service.store.conftest import BACKENDS, new_store
from tests.service.store.logs import NOW_MS

HOUR_MS = 3_600_000
EXPIRES_AFTER_S = EXPIRES_AFTER_MS / 1000
ELSEWHERE = "elsewhere:7:1:0123456789ab"


@pytest.fixture(params=BACKENDS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with new_store(request, tmp_path) as url:
        engine = migrated(open_engine(url))
        yield engine
        engine.dispose()


@pytest.fixture
def cluster_id(engine: Engine) -> int:
    return clusters.bind(engine, "orders", "abc", NOW_MS)


class Waiting:
    """A standby to which the test reports how many seconds have passed. The clock of the standby's host is `ahead_ms`
    ahead of NOW_MS."""

    def __init__(self, engine: Engine, cluster_id: int, owner: str = "standby", ahead_ms: int = 0) -> None:
        self._passed_s, self._ahead_ms = 0.0, ahead_ms
        self._standby = Standby(engine, cluster_id, owner, lambda: self._passed_s)

    def look(self, passed_s: float = LOOK_EVERY_S) -> Lease | None:
        self._passed_s = passed_s
        return self._standby.acquire(NOW_MS + self._ahead_ms)

    def takes_after_s(self, at_most_s: float = 60) -> float:
        seconds = 0.0
        while self.look() is None:
            seconds += LOOK_EVERY_S
            assert seconds < at_most_s
        return seconds


def held(engine: Engine, cluster_id: int, owner: str = ELSEWHERE, now_ms: int = NOW_MS) -> Lease:
    found = lease.acquire(engine, cluster_id, owner, now_ms)
    assert found is not None
    return found


def identity_of_an_ended_process() -> str:
    program = "from service.processes.identity import own_identity; print(own_identity())"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


@pytest.mark.parametrize("ahead_ms", [-HOUR_MS, 0, 11_000, HOUR_MS])
def test_clocks_that_differ_by_an_hour_do_not_change_a_takeover(engine: Engine, cluster_id: int, ahead_ms: int) -> None:
    """A holder that renews the lease keeps the lease. After the death of the holder, the standby takes over as early as
    with equal clocks."""
    holder, standby = held(engine, cluster_id), Waiting(engine, cluster_id, ahead_ms=ahead_ms)
    for second in range(40):
        lease.renew(engine, holder, NOW_MS + second * 1_000)
        assert [standby.look(), standby.look()] == [None, None]
    assert standby.takes_after_s() == EXPIRES_AFTER_S - 2 * LOOK_EVERY_S
    with pytest.raises(LeaseLost):
        lease.renew(engine, holder, NOW_MS + 40_000)


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])
def test_a_holder_whose_clock_jumps_keeps_the_lease(engine: Engine, cluster_id: int, jump_ms: int) -> None:
    holder, standby = held(engine, cluster_id), Waiting(engine, cluster_id)
    for second in range(60):
        lease.renew(engine, holder, NOW_MS + second * 1_000 + (jump_ms if 20 <= second < 40 else 0))
        assert [standby.look(), standby.look()] == [None, None]
    lease.renew(engine, holder, NOW_MS)


@pytest.mark.parametrize(
    ("owner", "ahead_ms", "after_s"),
    [
        (lambda: ELSEWHERE, -HOUR_MS, EXPIRES_AFTER_S),
        (lambda: ELSEWHERE, HOUR_MS, EXPIRES_AFTER_S),
        (own_identity, 0, EXPIRES_AFTER_S),
        (identity_of_an_ended_process, 0, 0),
        (lambda: "standby", 0, 0),
    ],
    ids=["clock behind", "clock ahead", "runs on this machine", "has ended on this machine", "the standby itself"],
)
def test_a_standby_takes_over_a_lease_that_is_not_renewed(
    engine: Engine, cluster_id: int, owner: Callable[[], str], ahead_ms: int, after_s: float
) -> None:
    """A wrong clock of the holder neither delays nor hastens the takeover."""
    held(engine, cluster_id, owner(), NOW_MS + ahead_ms)
    assert Waiting(engine, cluster_id).takes_after_s() == after_s


def test_a_holder_that_renews_slowly_keeps_the_lease(engine: Engine, cluster_id: int) -> None:
    holder, standby = held(engine, cluster_id), Waiting(engine, cluster_id)
    for turn in range(4):
        lease.renew(engine, holder, NOW_MS + turn)
        assert [standby.look() for _ in range(int((EXPIRES_AFTER_S - 1) / LOOK_EVERY_S))] == [None] * 18


def test_seconds_in_which_the_store_is_unavailable_do_not_count(engine: Engine, cluster_id: int) -> None:
    """The store is unavailable for a minute, so the holder cannot renew the lease even if it is healthy. The standby
    must not count this minute."""
    held(engine, cluster_id)
    standby = Waiting(engine, cluster_id)
    assert standby.look() is None

    def is_away(*_: object) -> None:
        raise StoreUnavailable("the store is away")

    event.listen(engine, "before_cursor_execute", is_away)
    for _ in range(60):
        with pytest.raises(StoreUnavailable):
            standby.look(1.0)
    event.remove(engine, "before_cursor_execute", is_away)
    assert standby.look() is None


def test_a_standby_counts_one_second_for_its_own_freeze(engine: Engine, cluster_id: int) -> None:
    """The clock of the standby jumps by an hour, because its process was frozen. The standby counts this hour as one
    second."""
    held(engine, cluster_id)
    now_s = [0.0]
    standby = Standby(engine, cluster_id, "standby", WorkingTime(list, lambda: now_s[0]).skip)
    for now_s[0] in (1.0, 3_601.0, 3_602.0):
        assert standby.acquire(NOW_MS) is None


def test_one_of_many_standbys_takes_over_and_the_others_wait(engine: Engine, cluster_id: int) -> None:
    held(engine, cluster_id)
    waiting = [Waiting(engine, cluster_id, f"standby-{n}", ahead_ms=n * HOUR_MS) for n in range(3)]
    looks = 0
    while not (taken := [lease for one in waiting if (lease := one.look())]):
        looks += 1
    assert [(lease.owner, lease.epoch) for lease in taken] == [("standby-0", 2)]
    assert looks * LOOK_EVERY_S == EXPIRES_AFTER_S
    assert waiting[1].takes_after_s() == EXPIRES_AFTER_S - LOOK_EVERY_S
