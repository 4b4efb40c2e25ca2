"""Runs of ids as they are written: in order and under the keys of their ids, with the other facts and the totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from service.domain.transaction_log.facts import LogBatch, Minute, Run, Step
from service.store.escaped_text import display_id
from service.store.id_key import KEY_ID_BYTES, id_key


class EndedTotals(NamedTuple):
    """The runs' totals for the cluster's counters. `durations`: (outcome, kind, ms) of the pairs judged here."""

    commits: int
    aborts: int
    by_cause: Counter[str]
    expired: int
    producer_ids_assigned: int
    durations: list[tuple[str, str, int]]


class FoldedFacts(NamedTuple):
    """The facts that executors reported of ids besides their runs, by (key of the id, log partition)."""

    steps: Mapping[tuple[bytes, int], list[Step]]
    minutes: Mapping[tuple[bytes, int], list[Minute]]

    @classmethod
    def of(cls, batch: LogBatch) -> FoldedFacts:
        return cls(_by_key(batch.steps), _by_key(batch.minutes))


def by_id(runs: Iterable[Run]) -> list[Run]:
    """Returns the runs ordered by id, those of one id in log order: neighbours go to the same pages of the store."""
    return sorted(runs, key=attrgetter("transactional_id"))


def slices_by_id(runs: Sequence[Run], at_once: int) -> Iterator[Sequence[Run]]:
    """Yields slices of about `at_once` runs, in the order of `by_id`; none of them cuts an id's runs apart."""
    start = 0
    while start < len(runs):
        end = min(start + at_once, len(runs))
        while end < len(runs) and runs[end].transactional_id == runs[end - 1].transactional_id:
            end += 1
        yield runs[start:end]
        start = end


def keyed(runs: Sequence[Run]) -> tuple[Sequence[Run], dict[bytes, str]]:
    """Returns the runs under the keys of their ids, and the display texts of the shortened ids, by key."""
    displays = {}
    keyed = list(runs)
    for number, run in enumerate(runs):
        if len(run.transactional_id) > KEY_ID_BYTES:
            key = id_key(run.transactional_id)
            displays[key] = display_id(run.transactional_id)
            keyed[number] = run._replace(transactional_id=key)
    return keyed, displays


def _by_key(facts: Iterable[Any]) -> dict[tuple[bytes, int], list[Any]]:
    found: dict[tuple[bytes, int], list[Any]] = {}
    for fact in facts:
        found.setdefault((id_key(fact.transactional_id), fact.partition), []).append(fact)
    return found
