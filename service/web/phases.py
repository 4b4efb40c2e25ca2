"""One transaction of an id, phase by phase, from the rows it left. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import NO_ID
from service.domain.transaction_log.limits import is_time
from service.domain.transaction_log.states import NAMES
from service.domain.transaction_log.timeline import Row
from service.domain.transaction_log.transitions import REPEATED
from service.web.shared import words

_PREPARED = (states.PREPARE_COMMIT, states.PREPARE_ABORT)
_COMPLETE = (states.COMPLETE_COMMIT, states.COMPLETE_ABORT)


class Phase(NamedTuple):
    """`took`: how long it lasted, or what it led to."""

    state: str
    at_ms: int
    text: str
    took: str


def phases_of(rows: Sequence[Row], offset: int | None) -> list[Phase]:
    """Of the transaction whose PrepareX or CompleteX stands at `offset`, else of the one that left rows last; none
    where there is none. `rows`: newest first."""
    ordered = [row for row in reversed(rows) if is_time(row.at_ms) and row.note != REPEATED]
    ends = [number for number, row in enumerate(ordered) if row.to_state in (*_PREPARED, *_COMPLETE)]
    if offset is not None:
        ends = [number for number in ends if ordered[number].offset == offset]
    if not ends:
        return []
    place = ends[-1]
    if ordered[place].to_state in _COMPLETE and place and ordered[place - 1].to_state == ordered[place].from_state:
        place -= 1
    return _phases(ordered[place:])


def _phases(rows: Sequence[Row]) -> list[Phase]:
    """`rows`: its own and those behind, oldest first."""
    first, rest = rows[0], list(rows[1:])
    told: list[Phase] = []
    if first.to_state in _PREPARED:
        told += _prepared(first)
        complete = rest.pop(0) if rest and rest[0].from_state == first.to_state else None
        if complete is None or complete.to_state not in _COMPLETE:
            return told
        told[-1] = told[-1]._replace(took=_markers(complete))
    else:
        complete = first
        if first.marker_ms is not None:
            prepared = NAMES.get(first.from_state, "Prepare")
            told.append(Phase(prepared, max(first.at_ms - first.marker_ms, 0), "", _markers(first)))
    told.append(Phase(NAMES[complete.to_state], complete.at_ms, _producer(complete), complete.note or "ended"))
    if rest and rest[0].to_state == states.EMPTY and rest[0].from_state == complete.to_state:
        after = words.fine(max(rest[0].at_ms - complete.at_ms, 0))
        told.append(Phase("Empty", rest[0].at_ms, f"{_producer(rest[0])}, InitProducerId", f"{after} after its end"))
    return told


def _prepared(row: Row) -> list[Phase]:
    outcome = "commit" if row.to_state == states.PREPARE_COMMIT else "abort"
    told = []
    if row.duration_ms is not None:
        took = f"open for {words.fine(row.duration_ms)}"
        told.append(Phase("Ongoing", max(row.at_ms - row.duration_ms, 0), "its first partition was added", took))
    waiting = "its markers are not all written"
    return [*told, Phase(NAMES[row.to_state], row.at_ms, f"{_producer(row)}, decided: {outcome}", waiting)]


def _markers(complete: Row) -> str:
    return "no partition was in it" if complete.marker_ms is None else f"markers took {words.fine(complete.marker_ms)}"


def _producer(row: Row) -> str:
    return "" if row.producer_id == NO_ID else f"{row.producer_id} / {row.producer_epoch:,}"
