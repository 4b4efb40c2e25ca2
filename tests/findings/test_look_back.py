"""What the coordinator decided: a committed transaction must never be called one that may be aborted."""

from __future__ import annotations

import pytest

from service.domain import states
from service.domain.look_back import SKEW_MS, Decision, Ended, LookedBack, Marker, decide, from_log
from tests.findings.test_open_entries import ENTRY, NOW_MS, OWNER, PLACE

START_MS, DECIDED_MS = NOW_MS - 60_000, NOW_MS - 30_000
ENDED = Ended(True, 4, START_MS, DECIDED_MS, 0, frozenset({PLACE}))
TV2 = ENDED._replace(producer_epoch=5, client_transaction_version=2)
IDLE = OWNER._replace(state=states.COMPLETE_COMMIT, partitions=(), last_update_ms=DECIDED_MS)


def word(decision: Decision | None) -> str | None:
    return None if decision is None else decision.word


@pytest.mark.parametrize(
    ("ended", "absent_until_ms", "expected"),
    [
        (ENDED, None, None),  # the partition has to be read
        (TV2, None, None),
        (ENDED, DECIDED_MS + SKEW_MS + 1, "none"),  # it was seen not to be there when the last transaction had ended
        (ENDED, DECIDED_MS + SKEW_MS, None),
        (TV2._replace(producer_epoch=4), None, "none"),  # written with the epoch given out by the end
        (ENDED._replace(partitions=frozenset({("orders", 4)})), None, "unknown"),  # an earlier transaction may list it
        (TV2._replace(partitions=frozenset()), None, "none"),  # under TV2 its epoch names the transaction
        (TV2._replace(producer_epoch=6, partitions=frozenset()), None, "unknown"),
        (None, None, "unknown"),  # compacted away
    ],
)
def test_the_log_alone(ended: Ended | None, absent_until_ms: int | None, expected: str | None) -> None:
    assert word(from_log(ENTRY, IDLE, ended, absent_until_ms)) == expected


def test_ids_that_never_ended_anything_decided_nothing() -> None:
    assert word(from_log(ENTRY, None, None, None)) == "none"
    fresh = OWNER._replace(state=states.EMPTY, producer_epoch=0, partitions=())
    assert word(from_log(ENTRY._replace(producer_epoch=0), fresh, None, None)) == "none"
    assert word(from_log(ENTRY, fresh._replace(producer_epoch=3), None, None)) == "unknown"
    assert word(from_log(ENTRY, fresh._replace(state=states.UNKNOWN), None, None)) == "unknown"


def test_an_id_that_has_expired_does_not_tell_when_it_ended_last() -> None:
    gone = OWNER._replace(state=states.EXPIRED, producer_id=-1, producer_epoch=-1, last_update_ms=-1, partitions=())
    assert word(from_log(ENTRY, gone, None, NOW_MS)) == "unknown"
    assert word(from_log(ENTRY, gone, ENDED, DECIDED_MS + SKEW_MS + 1)) == "none"


def marker(at_ms: int, epoch: int = 4, is_commit: bool | None = True) -> Marker:
    return Marker(100, epoch, at_ms, is_commit)


def back(*markers: Marker, whole: bool = True, same_clock: bool = False) -> LookedBack:
    return LookedBack(50, markers, whole, same_clock)


BEFORE_MS = START_MS - 10_000


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (back(), "commit"),
        (back(marker(BEFORE_MS)), "commit"),  # of an earlier transaction
        (back(marker(DECIDED_MS + 5)), "none"),
        (back(marker(BEFORE_MS), marker(DECIDED_MS + 5)), "none"),
        (back(marker(DECIDED_MS + 5, is_commit=None)), "none"),
        (back(marker(DECIDED_MS + 5, is_commit=False)), "commit"),  # not what it decided
        (back(whole=False), "unknown"),
        (back(marker(BEFORE_MS), whole=False), "unknown"),
    ],
)
def test_a_committed_transaction(read: LookedBack, expected: str) -> None:
    assert word(decide(ENDED, read)) == expected


def test_a_short_transaction_is_told_from_the_one_before_it_only_by_one_clock() -> None:
    """Its own marker, and that of the transaction before, lie closer together than two clocks agree."""
    short = ENDED._replace(start_ms=DECIDED_MS - 20)
    own, earlier = marker(DECIDED_MS + 3), marker(DECIDED_MS - 25)
    assert word(decide(short, back(own))) == "unknown"
    assert word(decide(short, back(own, same_clock=True))) == "none"
    assert word(decide(short, back(earlier))) == "unknown"
    assert word(decide(short, back(earlier, same_clock=True))) == "commit"


def test_under_tv2_the_epoch_tells_whatever_the_clocks_say() -> None:
    assert word(decide(TV2, back(marker(1, epoch=5)))) == "none"
    assert word(decide(TV2, back(marker(NOW_MS, epoch=4)))) == "commit"


def test_an_aborted_transaction() -> None:
    aborted = ENDED._replace(is_commit=False, producer_epoch=5)
    assert word(decide(aborted, back())) == "abort"
    assert word(decide(aborted, back(marker(DECIDED_MS + 5, epoch=5, is_commit=False)))) == "none"
