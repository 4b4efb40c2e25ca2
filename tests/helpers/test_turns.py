from __future__ import annotations

import pytest

from tests.helpers.turns import left_to_others

IDS = ["a.py::test[1]", "a.py::test[2]", "b.py::test", "c.py::test"]


@pytest.mark.parametrize("turn", [0, 1, 7, 1262])
def test_two_turns_together_do_everything_and_each_does_half(turn: int) -> None:
    now, then = left_to_others(IDS, turn), left_to_others(reversed(IDS), turn + 1)
    assert not now & then
    assert now | then == set(IDS)
    assert len(now) == 2


def test_a_run_without_a_turn_does_everything() -> None:
    assert left_to_others(IDS, None) == set()
