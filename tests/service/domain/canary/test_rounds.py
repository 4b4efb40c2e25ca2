"""Tests of a coordinator's state after several canary rounds: failures, durations and percentiles."""

from __future__ import annotations

import pytest

from service.domain.canary.rounds import BOUNDS_US, RECENT, Coordinator, Failure, Phase, Round, percentile

FINE = Round(1_000, None, 12_000, 1_500, None)
DENIED = Failure(Phase.INIT, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "denied")


def failed(at_ms: int, commit_us: int | None = None, failure: Failure = DENIED) -> Round:
    return Round(at_ms, None, commit_us, None, failure)


def test_failures_are_counted_by_error_and_dated_by_the_first_in_a_row() -> None:
    other = Failure(Phase.COMMIT, "NOT_ENOUGH_REPLICAS", "")
    coordinator = Coordinator(1).after(FINE).after(failed(2_000)).after(failed(3_000, failure=other))
    assert (coordinator.rounds, coordinator.failing_since_ms, coordinator.failure) == (3, 2_000, other)
    assert dict(coordinator.failures) == {DENIED.error: 1, other.error: 1}
    healed = coordinator.after(FINE)
    assert (healed.failing_since_ms, healed.failure, dict(healed.failures)) == (None, None, dict(coordinator.failures))


def test_a_commit_counts_even_if_its_record_was_not_seen() -> None:
    coordinator = Coordinator(1).after(failed(1, 4_000, Failure(Phase.VISIBLE, "REQUEST_TIMED_OUT", "")))
    assert (sum(coordinator.commits.counts), sum(coordinator.visibles.counts), coordinator.recent) == (1, 0, ())


@pytest.mark.parametrize(("duration_us", "bucket"), [(0, 0), (2_000, 0), (2_001, 1), (4_000_001, len(BOUNDS_US))])
def test_a_duration_falls_into_the_bucket_of_its_bound(duration_us: int, bucket: int) -> None:
    counts = Coordinator(1).after(Round(1, None, duration_us, 0, None)).commits.counts
    assert (counts.index(1), sum(counts)) == (bucket, 1)


def test_what_is_kept_of_rounds_is_bounded() -> None:
    coordinator = Coordinator(1)
    for _ in range(RECENT + 5):
        coordinator = coordinator.after(FINE)
    assert (len(coordinator.recent), coordinator.rounds, coordinator.commits.sum_us) == (
        RECENT,
        RECENT + 5,
        12_000 * (RECENT + 5),
    )


def test_an_idle_broker_does_not_fail_and_is_idle_since_the_first_time() -> None:
    coordinator = Coordinator(1).after(failed(1_000)).idle(2_000).idle(3_000)
    assert (coordinator.idle_since_ms, coordinator.failure, coordinator.failing_since_ms, coordinator.last_at_ms) == (
        2_000,
        None,
        None,
        3_000,
    )
    assert coordinator.after(FINE).idle_since_ms is None


def test_percentiles_are_durations_that_occurred() -> None:
    assert percentile([], 99) is None
    assert percentile([5], 50) == 5
    assert percentile(range(1, 101), 99) == 99
    assert percentile([3, 1, 2], 50) == 2
