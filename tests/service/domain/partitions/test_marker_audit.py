"""Tests of the comparison of markers with decisions: a transaction is whole, torn, or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.marker_audit import Compared, Result, compare
from service.domain.partitions.marker_histories import Decision, SeenMarker

A, B = ("a", 0), ("b", 0)
WHOLE, TORN, UNSEEN = Result.WHOLE, Result.TORN, Result.UNSEEN


def decided(
    offset: int, epoch: int = 0, *, commit: bool = True, places: Sequence[TopicPartition] = (A, B), untailed: int = 0
) -> Decision:
    """Returns a decision at the time `offset` * 100 ms. Its transaction began 90 ms earlier."""
    at_ms = offset * 100
    return Decision(0, offset, b"pay", 3, epoch, commit, at_ms - 90, at_ms, tuple(places), untailed)


def marker(
    place: TopicPartition, offset: int, at_ms: int, epoch: int = 0, *, commit: bool = True, ends: int | None = None
) -> SeenMarker:
    """Returns a marker that ends the records from `ends` on. By default, the marker ends only the record before the
    marker. With `ends=-1`, the marker ends no record."""
    return SeenMarker(*place, offset, 3, epoch, commit, at_ms, offset - 1 if ends is None else ends)


def compared(decisions: Sequence[Decision], *markers: SeenMarker, open_: Iterable[Decision] = ()) -> Compared:
    closed = {decision: frozenset(decision.participants) for decision in decisions if decision not in set(open_)}
    return compare(decisions, markers, closed)


def words(found: Compared) -> list[Result]:
    return [result for _, result in found.results]


def test_transactions_whose_markers_are_as_decided_are_whole() -> None:
    found = compared(
        [decided(1), decided(2, commit=False)],
        marker(A, 3, 101),
        marker(B, 9, 102),
        marker(A, 6, 201, commit=False),
        marker(B, 12, 202, commit=False),
    )
    assert (words(found), found.contradictions, len(found.used)) == ([WHOLE, WHOLE], (), 4)


@pytest.mark.parametrize("bump", [0, 1])
def test_an_abort_by_hand_tears_a_transaction_that_goes_on(bump: int) -> None:
    """Partition a-0 has data 0..2, ABORT 3, data 4..5, COMMIT 6. Partition b-0 has data and a COMMIT. `bump` is the
    amount by which the end raises the epoch: 1 under TV2."""
    by_hand = marker(A, 3, 50, commit=False, ends=0)
    own = marker(A, 6, 101, bump, ends=4)
    decision = decided(1, bump)
    found = compared([decision], by_hand, own, marker(B, 9, 102, bump, ends=0))
    assert words(found) == [TORN]
    assert found.contradictions == ((decision, by_hand),)
    assert [marker.topic_partition for marker in found.own[decision]] == [A, B]
    assert len(found.used) == 3


BY_HAND = marker(A, 3, 50, commit=False, ends=0)
OWN_A, OWN_B = marker(A, 6, 101), marker(B, 9, 102)
ABORTED_A, ABORTED_B = marker(A, 6, 101, commit=False), marker(B, 9, 102, commit=False)
SKIPPED = [decided(1, places=(A,)), decided(2, commit=False, places=(A,))]


@pytest.mark.parametrize(
    ("decisions", "markers", "expected"),
    [
        pytest.param(
            [decided(1)], [BY_HAND, marker(A, 4, 101, ends=-1), OWN_B], [TORN], id="nothing follows the abort"
        ),
        pytest.param(
            [decided(1, commit=False)], [marker(A, 3, 50, ends=0), ABORTED_A, ABORTED_B], [TORN], id="a commit"
        ),
        pytest.param(
            [decided(1, 1, commit=False)],
            [BY_HAND, marker(A, 6, 101, 1, commit=False), marker(B, 9, 102, 1, commit=False)],
            [UNSEEN],
            id="an aborted transaction is aborted by hand",
        ),
        pytest.param(
            [decided(1)], [marker(A, 3, 101, commit=False), OWN_B], [TORN], id="the only marker of a partition"
        ),
        pytest.param(
            [decided(1)],
            [marker(A, 0, 50, commit=False, ends=-1), marker(A, 3, 101), OWN_B],
            [WHOLE],
            id="ended nothing",
        ),
        # a coordinator skips a participant without a leader (KAFKA-20734); the next marker then ends its records
        pytest.param(SKIPPED, [marker(A, 9, 201, commit=False, ends=0)], [UNSEEN, WHOLE], id="skipped, then an abort"),
        pytest.param([decided(1)], [OWN_B], [UNSEEN], id="skipped"),
        pytest.param(
            [decided(5)],  # the transaction begins at 410
            [marker(A, 3, 150, commit=False, ends=0), marker(A, 6, 501), marker(B, 9, 502)],
            [UNSEEN],
            id="by hand, for records that hung before",
        ),
        pytest.param([decided(1, untailed=1)], [marker(A, 3, 101), OWN_B], [UNSEEN], id="a partition is not tailed"),
        pytest.param([decided(1, untailed=1)], [BY_HAND, OWN_A, marker(B, 9, 1)], [TORN], id="not tailed, and by hand"),
    ],
)
def test_only_a_marker_that_contradicts_the_decision_tears(
    decisions: list[Decision], markers: list[SeenMarker], expected: list[Result]
) -> None:
    assert words(compared(decisions, *markers)) == expected


def test_the_same_marker_again_after_a_failover_is_normal() -> None:
    decisions = [decided(1), decided(2), decided(3, commit=False)]
    found = compared(
        decisions,
        *(marker(A, offset, 101, ends=0 if offset == 1 else -1) for offset in (1, 2, 3)),
        marker(A, 5, 201, ends=4),
        marker(A, 7, 301, commit=False, ends=6),
        marker(B, 1, 101, ends=0),
        marker(B, 2, 201, ends=-1),
        marker(B, 3, 201, ends=-1),
        marker(B, 4, 301, commit=False, ends=-1),
    )
    assert words(found) == [WHOLE, WHOLE, WHOLE]


def test_markers_that_two_histories_explain_make_nothing_torn() -> None:
    """Two histories fit the markers. In one, the COMMIT marker of the first transaction was skipped. In the other, an
    administrator wrote the ABORT marker, and the ABORT marker of the second transaction was skipped."""
    decisions = [decided(n, commit=commit, places=(A,)) for n, commit in ((1, True), (2, False))]
    found = compared(decisions, marker(A, 3, 101, commit=False), marker(A, 6, 201))
    assert TORN not in words(found)


def test_a_decision_that_was_appended_twice_is_one_decision() -> None:
    again = decided(1)._replace(offset=2, at_ms=130)
    found = compared([decided(1), again], marker(A, 3, 101), marker(B, 9, 102))
    assert found.results == ((again, WHOLE),)


def test_an_open_transaction_delays_itself_and_all_later_ones() -> None:
    first, second = decided(1), decided(2)
    found = compared([first, second], marker(A, 3, 101), marker(B, 9, 102), open_=[first])
    assert (found.results, found.used) == ((), ())


def test_a_marker_by_hand_is_kept_for_the_later_decision() -> None:
    by_hand = marker(A, 3, 250, commit=False, ends=2)
    before = compared([decided(1)], marker(A, 1, 101), marker(B, 1, 101), by_hand)
    assert (words(before), by_hand in before.used) == ([WHOLE], False)
    assert words(compared([decided(3)], by_hand, marker(A, 6, 301), marker(B, 9, 302))) == [TORN]


class Written(NamedTuple):
    """The true history of one transaction with two partitions.

    The tuples have a value for each partition. `writes`: the transaction wrote to the partition, and did not only list
    it. `by_hand`: an administrator's marker with the other outcome ended the records on the partition, if there are
    any. `again`: the number of times that the coordinator repeated the marker. `bumps`: the end raised the epoch.
    """

    commit: bool
    writes: tuple[bool, bool]
    by_hand: tuple[bool, bool]
    again: tuple[int, int]
    bumps: bool


PAIRS = st.tuples(st.booleans(), st.booleans())
CLEAN = st.builds(
    Written,
    st.booleans(),
    PAIRS,
    st.just((False, False)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.booleans(),
)
RARE = st.sampled_from([(False, False)] * 3 + [(True, False), (False, True), (True, True)])
ANY = st.builds(Written, st.booleans(), PAIRS, RARE, st.just((0, 0)), st.booleans())


def history(written: Sequence[Written]) -> tuple[list[Decision], list[tuple[int, SeenMarker]], dict[Decision, bool]]:
    """Returns the decisions; the markers, each with the number of the transaction during which the marker was written;
    and the decisions of torn transactions."""
    decisions, markers, torn = [], [], {}
    epoch, next_offset = 0, {A: 0, B: 0}
    for n, one in enumerate(written):
        ongoing, epoch = epoch, epoch + one.bumps
        at_ms = (n + 1) * 1_000
        decision = Decision(0, 2 * n, b"pay", 3, epoch, one.commit, at_ms - 900, at_ms, (A, B), 0)
        for place, writes, by_hand, again in zip((A, B), one.writes, one.by_hand, one.again, strict=True):
            first = next_offset[place]
            if writes and by_hand:
                markers.append((n, marker(place, first + 1, at_ms - 500, ongoing, commit=not one.commit, ends=first)))
                torn[decision] = True
                first += 2
            ends = first if writes and not by_hand else -1
            own = marker(place, first + 1, at_ms + 5, epoch, commit=one.commit, ends=ends)
            markers += [
                (n, own._replace(offset=first + 1 + k, ends_from=ends if k == 0 else -1)) for k in range(again + 1)
            ]
            next_offset[place] = first + 2 + again
        decisions.append(decision)
    return decisions, markers, torn


def in_pieces(
    decisions: Sequence[Decision],
    markers: Sequence[tuple[int, SeenMarker]],
    pieces: Iterable[tuple[int, int, int]],
    behind: int = 0,
) -> tuple[dict[Decision, Result], set[Decision]]:
    """Compares decisions with markers while both are read in pieces. Returns the result of each compared decision, and
    the decisions that a marker contradicts.

    Each step reads the transaction log up to some transaction, and each partition at most up to the markers of this
    transaction. The comparison learns of a partition's progress `behind` transactions later.
    """
    results: dict[Decision, Result] = {}
    torn: set[Decision] = set()
    gone: set[SeenMarker] = set()
    log, read = 0, {A: 0, B: 0}
    for more, on_a, on_b in [*pieces, (len(decisions), len(decisions), len(decisions))]:
        log = min(log + more, len(decisions))
        read = {A: min(read[A] + on_a, log), B: min(read[B] + on_b, log)}
        left = [decision for decision in decisions[:log] if decision not in results]
        seen = [marker for n, marker in markers if n < read[marker.topic_partition] and marker not in gone]
        closed = {
            decision: frozenset(p for p in (A, B) if decisions.index(decision) < read[p] - behind) for decision in left
        }
        found = compare(left, seen, closed)
        results |= found.results
        torn |= {decision for decision, _ in found.contradictions}
        gone |= set(found.used)
    return results, torn


PIECES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), max_size=8)


@settings(max_examples=400, deadline=None)
@given(st.lists(CLEAN, max_size=8), PIECES)
def test_an_untouched_history_is_never_torn_however_it_is_read(
    written: list[Written], pieces: list[tuple[int, int, int]]
) -> None:
    decisions, markers, _ = history(written)
    results, torn = in_pieces(decisions, markers, pieces)
    assert (set(results), torn) == (set(decisions), set())
    if not any(any(one.again) for one in written):
        assert set(results.values()) <= {WHOLE}
    assert TORN not in results.values()


@settings(max_examples=400, deadline=None)
@given(st.lists(ANY, max_size=8), PIECES)
def test_only_torn_transactions_are_called_torn_however_they_are_read(
    written: list[Written], pieces: list[tuple[int, int, int]]
) -> None:
    decisions, markers, truth = history(written)
    results, torn = in_pieces(decisions, markers, pieces)
    assert torn == {decision for decision, result in results.items() if result is TORN}
    assert torn <= set(truth)
    if all(one.commit and one.bumps and all(one.writes) for one in written):
        assert torn == set(truth), "exactly the transactions that were aborted by hand are torn"
        assert all(results[decision] is WHOLE for decision in decisions if decision not in truth)


def test_a_comparison_from_the_middle_contradicts_no_decision() -> None:
    """Under the old protocol all transactions have one epoch, so a marker does not show to which decision it belongs.

    The markers of the first three decisions lie before the first compared offset. The markers of the next five
    decisions are known.
    """
    decisions = [decided(n, commit=n != 8, places=(A,)) for n in range(1, 10)]
    markers = [marker(A, 10 * n, 100 * n + 5, commit=n != 8, ends=10 * n - 1 if n > 4 else -1) for n in range(4, 9)]
    found = compared(decisions, *markers, open_=decisions[5:])
    assert (found.contradictions, TORN in words(found)) == ((), False)


OF_ONE_EPOCH = st.builds(
    Written,
    st.sampled_from([True, True, True, False]),
    st.just((True, True)),
    st.just((False, False)),
    st.just((0, 0)),
    st.just(False),
)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(OF_ONE_EPOCH, min_size=6, max_size=14),
    PIECES,
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
    st.integers(2, 4),
    st.integers(0, 4),
)
def test_missing_markers_in_a_row_make_no_transaction_torn(
    written: list[Written], pieces: list[tuple[int, int, int]], begin: tuple[int, int], count: int, behind: int
) -> None:
    """On A, several markers in a row are missing, as if A had no leader for a while. On B, the first markers are
    missing, as if the comparison began later."""
    decisions, markers, _ = history(written)
    hidden = {A: range(begin[0], begin[0] + count), B: range(begin[1])}
    seen = [(n, marker) for n, marker in markers if n not in hidden[marker.topic_partition]]
    results, torn = in_pieces(decisions, seen, pieces, behind)
    assert torn == set()
    assert TORN not in results.values()
