"""The time markers took, counted from the first PrepareX of a transaction, however often that was appended and read."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from service.domain.transaction_log import states
from service.domain.transaction_log.outcomes import MARKER, bucket
from service.store import schema
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, Entry, batch, entry, read, row, rows

AT_MS = NOW_MS - 60_000
FIRST_MS, AGAIN_MS, COMPLETE_MS = AT_MS + 1_000, AT_MS + 9_100, AT_MS + 10_426
TOOK_MS = COMPLETE_MS - FIRST_MS
OUTCOMES = {
    "abort": (states.PREPARE_ABORT, states.COMPLETE_ABORT),
    "commit": (states.PREPARE_COMMIT, states.COMPLETE_COMMIT),
}


def appended(*steps: tuple[int, int], key: bytes = b"pay", start_ms: int = AT_MS) -> list[Entry]:
    """Records of one transaction: (state, append time)."""
    return [entry(offset, state, key, start_ms=start_ms, at_ms=at_ms) for offset, (state, at_ms) in enumerate(steps)]


def twice(outcome: str) -> list[Entry]:
    """A coordinator appended PrepareX, another one did so again, and had the markers written."""
    prepared, complete = OUTCOMES[outcome]
    return appended((states.ONGOING, AT_MS), (prepared, FIRST_MS), (prepared, AGAIN_MS), (complete, COMPLETE_MS))


def apply(cluster: Cluster, log: list[Entry], cuts: Iterable[int] = ()) -> None:
    """Read it in batches that end at `cuts`."""
    cluster.start({0: 0})
    for lo, hi in pairwise(sorted({0, *cuts, len(log)})):
        cluster.writer.apply(batch(log[lo:hi], read(lo, hi, end=len(log))), NOW_MS)


def marker_times(cluster: Cluster) -> list[int | None]:
    """Of the rows of the timeline that complete a transaction, oldest first."""
    found = rows(cluster.engine, schema.transitions, cluster.id)
    return [one["marker_ms"] for one in sorted(found, key=_offset) if one["to_state"] in (4, 5)]


def _offset(found: dict[str, Any]) -> int:
    return int(found["offset"])


def histogram(cluster: Cluster, outcome: str) -> dict[str, int]:
    found = rows(cluster.engine, schema.counters, cluster.id)
    return {one["label"]: one["value"] for one in found if one["name"] == f"marker_ms_{outcome}"}


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (3,), (1, 2), (2, 3), (1, 3), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_markers_take_since_the_first_of_two_prepares(cluster: Cluster, outcome: str, cuts: tuple[int, ...]) -> None:
    apply(cluster, twice(outcome), cuts)
    assert marker_times(cluster) == [TOOK_MS]
    (minute,) = (one for one in rows(cluster.engine, schema.id_minutes, cluster.id) if one["marked"])
    assert (minute["marked"], minute["marker_sum_ms"], minute["marker_max_ms"]) == (1, TOOK_MS, TOOK_MS)
    assert histogram(cluster, outcome) == {"sum": TOOK_MS, str(bucket(MARKER, TOOK_MS)): 1}


@pytest.mark.parametrize("cuts", [(), (2,)], ids=str)
def test_an_id_is_in_prepare_since_the_first(cluster: Cluster, cuts: tuple[int, ...]) -> None:
    apply(cluster, twice("abort")[:3], cuts)
    found = row(cluster.engine, cluster.id)
    assert (found["state_since_ms"], found["timestamp_ms"]) == (FIRST_MS, AGAIN_MS)


@pytest.mark.parametrize("cuts", [(), (2,), (3,), (2, 3)], ids=str)
def test_quick_markers_of_a_commit_that_was_decided_long_before_get_a_row(
    cluster: Cluster, cuts: tuple[int, ...]
) -> None:
    log = twice("commit")
    log[-1] = entry(3, states.COMPLETE_COMMIT, start_ms=AT_MS, at_ms=AGAIN_MS + 5)
    apply(cluster, log, cuts)
    assert marker_times(cluster) == [AGAIN_MS + 5 - FIRST_MS]


@pytest.mark.parametrize("cuts", [(), (2,), (3,), (4,), (2, 3, 4)], ids=str)
def test_the_first_counts_although_a_later_one_raised_the_epoch(cluster: Cluster, cuts: tuple[int, ...]) -> None:
    """The client's abort seemed to fail, and the coordinator aborted at the timeout: one transaction, two epochs."""
    log = appended(
        (states.ONGOING, AT_MS),
        (states.PREPARE_ABORT, FIRST_MS),
        (states.PREPARE_ABORT, FIRST_MS + 50),
        (states.PREPARE_ABORT, AGAIN_MS),
        (states.COMPLETE_ABORT, COMPLETE_MS),
    )
    log[3:] = [one._replace(record=one.record._replace(producer_epoch=1)) for one in log[3:]]
    apply(cluster, log, cuts)
    assert marker_times(cluster) == [TOOK_MS]


@pytest.mark.parametrize("cuts", [(), (2,), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("between", [states.ONGOING, states.PREPARE_COMMIT], ids=["taken back", "another outcome"])
def test_a_prepare_that_did_not_hold_counts_for_nothing(cluster: Cluster, between: int, cuts: tuple[int, ...]) -> None:
    """The coordinator went on as if it had not appended the first: partitions were added, or the other was decided."""
    first = states.PREPARE_ABORT if between == states.ONGOING else between
    steps = [(states.ONGOING, AT_MS), (first, FIRST_MS)]
    if between == states.ONGOING:
        steps.append((between, FIRST_MS + 100))
    log = appended(*steps, (states.PREPARE_ABORT, AGAIN_MS), (states.COMPLETE_ABORT, COMPLETE_MS))
    apply(cluster, log, cuts)
    assert marker_times(cluster) == [COMPLETE_MS - AGAIN_MS]


def test_the_next_transaction_counts_from_its_own(cluster: Cluster) -> None:
    later = [
        entry(4, states.ONGOING, start_ms=COMPLETE_MS + 1, at_ms=COMPLETE_MS + 1),
        entry(5, states.PREPARE_ABORT, start_ms=COMPLETE_MS + 1, at_ms=COMPLETE_MS + 2),
        entry(6, states.COMPLETE_ABORT, start_ms=COMPLETE_MS + 1, at_ms=COMPLETE_MS + 5),
    ]
    apply(cluster, [*twice("abort"), *later], [5])
    assert marker_times(cluster) == [TOOK_MS, 3]
