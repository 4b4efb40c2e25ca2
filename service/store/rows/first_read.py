"""Rows of ids that a first read meets for the first time, made column by column: `LoneRuns` in, tuples out. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final

import numpy as np

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import NO_ID, Array, LoneRuns, Records
from service.store.escaped_text import display_id

_NOTHING_COUNTED: Final = (0, 0, 0, 0, 0, 0, None, None, None, None, None, None, None)
"""The columns of `transactional_ids` from `commits` on."""


def id_rows(cluster_id: int, generation: int, runs: LoneRuns) -> list[tuple[Any, ...]]:
    """Returns the rows of `transactional_ids`: for each id what `rows.ids.new_row` returns of its run, and of no stored
    row."""
    first, last = runs.first, runs.last
    # a tombstone, or a record that cannot be decoded, has no facts about the id
    has_facts = (last.state < states.EXPIRED) | (first.state >= states.EXPIRED)
    known = Records(*(np.where(has_facts, new, old) for new, old in zip(last, first, strict=True)))
    is_ended = np.array([value is not None for value in runs.ended_value], bool)
    outcome = np.where(is_ended, runs.ended_state, first.state)
    return list(
        zip(
            repeat(cluster_id),
            runs.transactional_id,
            map(display_id, runs.transactional_id),
            runs.partition.tolist(),
            repeat(generation),
            *(column.tolist() for column in last[:4]),
            *(column.tolist() for column in known[4:]),
            np.where(last.state == states.ONGOING, last.start_ms, last.timestamp_ms).tolist(),
            _or_null(last.start_ms, _is_in(last.state, states.OPEN)),
            _or_null(outcome, is_ended | _is_in(first.state, states.COMPLETE)),
            *map(repeat, _NOTHING_COUNTED),
        )
    )


def producer_rows(cluster_id: int, runs: LoneRuns) -> list[tuple[Any, ...]]:
    """Returns the rows of `producer_ids`; none for runs that name no producer."""
    runs = runs.take(np.flatnonzero(runs.first.producer_id != NO_ID))
    is_ended = np.array([value is not None for value in runs.ended_value], bool)
    return list(
        zip(
            repeat(cluster_id),
            runs.first.producer_id.tolist(),
            runs.transactional_id,
            runs.first.timestamp_ms.tolist(),
            runs.last.timestamp_ms.tolist(),
            runs.first.producer_epoch.tolist(),
            runs.last.producer_epoch.tolist(),
            _or_null(runs.ended_offset, is_ended),
            _or_null(runs.ended_state, is_ended),
            runs.ended_value,
        )
    )


def state_rows(cluster_id: int, runs: LoneRuns) -> Iterator[tuple[int, int, int, int]]:
    """Yields the rows of `coordinator_states`."""
    places, ids = np.unique(np.stack((runs.partition, runs.last.state)), axis=1, return_counts=True)
    for partition, state, number in zip(*places.tolist(), ids.tolist(), strict=True):
        yield cluster_id, partition, state, number


def _is_in(state: Array, some: frozenset[int]) -> Array:
    return np.isin(state, list(some))


def _or_null(column: Array, is_there: Array) -> list[int | None]:
    return [value if there else None for value, there in zip(column.tolist(), is_there.tolist(), strict=True)]
