from __future__ import annotations

import pytest

from tests.helpers.turns import PARTS, left_to_others

IDS = sorted(f"{file}.py::test[{case}]" for file in "abc" for case in range(3))


@pytest.mark.parametrize("first", [0, 1, 7, 1262])
def test_turns_in_a_row_do_everything_once(first: int) -> None:
    done = [set(IDS) - left_to_others(reversed(IDS), turn) for turn in range(first, first + PARTS)]
    assert sorted(unit for units in done for unit in units) == IDS
    assert {len(units) for units in done} == {1, 2}


def test_a_test_meets_both_versions_of_kafka_which_alternate() -> None:
    turns = [turn for turn in range(2 * PARTS) if IDS[0] not in left_to_others(IDS, turn)]
    assert {turn % 2 for turn in turns} == {0, 1}


def test_a_run_without_a_turn_does_everything() -> None:
    assert left_to_others(IDS, None) == set()
