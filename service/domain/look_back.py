"""What the coordinator decided about the records of an open entry: the way out depends on it.

A marker may have been skipped for a participant without leader (KAFKA-20734): then a *committed* transaction hangs, and
aborting it throws half of it away. Or the records were written after the end, and belong to nothing. Both look the same
on the partition. What tells them apart: when the records came, the epochs under TV2, and the markers before them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.limits import is_time
from service.domain.open_entries import Entry
from service.domain.owners import Owner
from service.domain.states import EMPTY, UNKNOWN

COMMIT: Final = "commit"
ABORT: Final = "abort"
NONE: Final = "none"
NOT_KNOWN: Final = "unknown"
DECISIONS: Final = (COMMIT, ABORT, NONE, NOT_KNOWN)

SKEW_MS: Final = 2_000
"""By how much two clocks of the cluster may differ."""

TV2: Final = 2
"""From this transaction version on, every end raises the epoch: it tells one transaction from the next (KIP-890)."""


class Ended(NamedTuple):
    """The last transaction with partitions that ended under a producer id: its PrepareX, decoded.

    `start_ms` and `at_ms` (of the decision) are the coordinator's clock.
    """

    is_commit: bool
    producer_epoch: int
    start_ms: int
    at_ms: int
    client_transaction_version: int
    partitions: frozenset[tuple[str, int]]


class Marker(NamedTuple):
    """A control batch of the producer id on the partition. `at_ms`: the clock of the leader that wrote it.

    `is_commit` None: compaction has emptied it.
    """

    offset: int
    producer_epoch: int
    at_ms: int
    is_commit: bool | None


class LookedBack(NamedTuple):
    """The markers of the producer id in [from_offset, the entry's start), oldest first.

    `is_whole`: from_offset lies before everything that the last ended transaction wrote, and nothing of the range was
    missing. `same_clock`: the coordinator's broker wrote the markers itself.
    """

    from_offset: int
    markers: tuple[Marker, ...]
    is_whole: bool
    same_clock: bool


class Decision(NamedTuple):
    """`word`: one of DECISIONS; `text`: how it is known."""

    word: str
    text: str


def from_log(entry: Entry, owner: Owner | None, ended: Ended | None, absent_until_ms: int | None) -> Decision | None:
    """The decision where it can be told without reading the partition back; None where that is needed.

    `absent_until_ms`: when the entry's first offset had not been written yet (txnscope's clock); None: not known.
    """
    if owner is None:
        return Decision(NONE, "no transactional.id ever had this producer id: no coordinator decided anything about it")
    if owner.state == UNKNOWN:
        return Decision(NOT_KNOWN, "the newest record of its transactional.id cannot be decoded")
    last_end_ms = owner.last_update_ms if ended is None else ended.at_ms
    if absent_until_ms is not None and is_time(last_end_ms) and absent_until_ms - SKEW_MS > last_end_ms:
        return Decision(NONE, "written after the last transaction of its producer id had ended: it belongs to nothing")
    if ended is None:
        if owner.state == EMPTY and owner.producer_id == entry.producer_id and owner.producer_epoch == 0:
            return Decision(NONE, "no transaction of its producer id ever ended")
        return Decision(NOT_KNOWN, "the end of its last transaction is no longer in the coordinators' log")
    if ended.client_transaction_version >= TV2 and entry.producer_epoch >= ended.producer_epoch:
        return Decision(NONE, "written with the epoch that its producer got when its last transaction ended")
    if entry.place in ended.partitions:
        return None
    if ended.client_transaction_version >= TV2 and entry.producer_epoch == ended.producer_epoch - 1:
        return Decision(NONE, "its transaction ended without ever listing the partition")
    return Decision(
        NOT_KNOWN, "the last transaction of its producer id does not list the partition, an earlier one may"
    )


def decide(ended: Ended, back: LookedBack) -> Decision:
    """The decision about an entry on a partition that the last ended transaction lists."""
    of_last = [one for one in back.markers if _is_of_last(one, ended, back.same_clock)]
    if of_last:
        at = of_last[-1].offset
        return Decision(NONE, f"written after its transaction's marker at offset {at}: it belongs to nothing")
    doubtful = [one for one in back.markers if not _is_of_earlier(one, ended, back.same_clock)]
    if doubtful:
        at = doubtful[-1].offset
        return Decision(NOT_KNOWN, f"the marker at offset {at} is that of its last transaction, or of an earlier one")
    if not back.is_whole:
        return Decision(NOT_KNOWN, "the partition cannot be read back to the start of its last transaction")
    word = COMMIT if ended.is_commit else ABORT
    return Decision(word, f"its transaction decided to {word}, and no marker of it was written to the partition")


def _is_of_last(marker: Marker, ended: Ended, same_clock: bool) -> bool:
    if marker.is_commit not in (None, ended.is_commit) or marker.producer_epoch != ended.producer_epoch:
        return False
    if ended.client_transaction_version >= TV2:
        return True
    skew_ms = 0 if same_clock else SKEW_MS
    # one of an earlier transaction came before this one began
    return marker.at_ms > ended.start_ms + skew_ms and marker.at_ms >= ended.at_ms - skew_ms


def _is_of_earlier(marker: Marker, ended: Ended, same_clock: bool) -> bool:
    if marker.producer_epoch < ended.producer_epoch or marker.is_commit is (not ended.is_commit):
        return True
    return marker.at_ms < ended.at_ms - (0 if same_clock else SKEW_MS)
