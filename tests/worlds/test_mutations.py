"""Tests that each proof, and each limit of a proof, is needed: if one is removed, another test of this package
fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest

from service.domain.worlds import markers, ownership, proving, transactions
from service.domain.worlds.facts import EntryRead
from service.domain.worlds.transactions import Epochs
from tests.worlds import test_histories, test_sequences
from tests.worlds.enumerated import play_slice

MUTATIONS: dict[str, tuple[Any, str, Any]] = {
    "epoch": (Epochs, "overlaps", lambda *_: True),
    "listing": (proving, "_may_be_unlisted", lambda *_: True),
    "listing: a leader adds the partition if nothing is open there": (proving, "_may_be_unlisted", lambda *_: False),
    "listing: an old client adds partitions itself": (transactions, "_is_added_by_leaders", lambda *_: True),
    "listing: records of a committed transaction": (proving, "_committed_within", lambda *_: None),
    "listing: the entry is not newer than the decision": (proving, "_began_before", lambda *_: True),
    "listing: no records after those of the transaction": (proving, "_ends_with", lambda *_: True),
    "listing: no marker ended the records": (proving, "_has_no_marker", lambda *_: True),
    "marker": (proving, "_ended_before_entry", lambda *_: set()),
    "marker: the marker may be a copy": (markers, "_may_be_copy", lambda *_: False),
    "order: the entry was absent at that time": (EntryRead, "newest_absence_proof", lambda *_: None),
    "order: the entry was complete at that time": (EntryRead, "was_written_before", lambda *_: False),
    "completeness": (proving, "_hidden", lambda *_: []),
    "an open transaction may commit": (transactions, "_undecided", lambda *_: None),
    "records of another cluster": (proving, "foreign_records", lambda *_: None),
    "records of another cluster: no id has the producer id": (ownership, "_without_owner", lambda *_: None),
    "records of another cluster: the id listed the partition": (ownership, "_has_listed", lambda *_: False),
    "records of another cluster: the record that gave the epoch": (ownership, "_given_by", lambda *_: None),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_test_fails_without_each_proof(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, attribute, replacement = MUTATIONS[name]
    monkeypatch.setattr(where, attribute, replacement)
    assert any(map(_fails, _tests())), f"no test fails without {name!r}"


def test_no_test_fails_without_a_mutation() -> None:
    assert not any(map(_fails, _sequences()))


def _tests() -> Iterator[Callable[[], object]]:
    yield from _sequences()
    yield _no_small_world_is_wrong
    for seed in test_histories.ONCE_WRONG:
        yield partial(test_histories.test_histories_that_were_once_wrong_stay_right, seed)


def _no_small_world_is_wrong() -> None:
    assert not play_slice(0, 1_009)[2]


def _sequences() -> Iterator[Callable[[], object]]:
    """Yields each test of test_sequences with each set of its parameters."""
    for name, test in inspect.getmembers(test_sequences, inspect.isfunction):
        if name.startswith("test_"):
            marks = [mark.args for mark in getattr(test, "pytestmark", ())]
            for values in product(*(each for _, each in marks)):
                arguments: dict[str, object] = {}
                for (names, _), value in zip(marks, values, strict=True):
                    arguments |= {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))
                yield partial(test, **arguments)


def _fails(test: Callable[[], object]) -> bool:
    try:
        test()
    except AssertionError:
        return True
    return False
