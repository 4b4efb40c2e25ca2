"""Tests random histories and small worlds. No committed records get an ABORT, no other records get a COMMIT, and no
decision changes from one marker to the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.enumerated import play_slice
from tests.worlds.history import FIRST_START, WHILE_RUNNING, Tally, draw
from tests.worlds.judged import opened_store
from tests.worlds.judged_history import draw_judged

HISTORIES = 4_000
"""Number of histories. `make worlds` draws 200,000."""

JUDGED_HISTORIES = 25

EVERY = 211
"""The tests play one of every EVERY small worlds. `make worlds` plays all."""

ONCE_WRONG = (127, 603, 720, 13026, 17163, 17906, 38806, 61698, 181664, 707621, 712695, 1128014, 9013344, 9186718)
"""Seeds of histories that once led to a wrong marker, with the model of that time."""
ONCE_WRONG_IN_TIME = (208, 556, 660, 1225, 1524, 1000118, 1000757, 3001765, 4003246)
"""Seeds of histories with a marker that was right at first, but was still advised after the entry had grown."""
ONCE_CONFIRMED = (234, 1911, 1994, 3000060)
"""Seeds of histories in which an earlier version of the judge confirmed an entry as hanging, and the entry then ended
by itself. There were two causes. The high watermark of a new leader of the transaction log was still below acknowledged
records. Or a transaction began during the confirmation, and its id hashed to another log partition than the one that
has its records."""


def test_no_drawn_history_has_a_wrong_marker_and_few_are_unknown() -> None:
    tally = Tally()
    for seed in range(HISTORIES):
        draw(seed, tally)
    assert share_unknown(tally, WHILE_RUNNING) <= 0.015
    assert share_unknown(tally, FIRST_START) <= 0.05


def share_unknown(tally: Tally, kind: str) -> float:
    found = {decision: n for (of, decision), n in tally.verdicts.items() if of == kind}
    return found.get("unknown", 0) / sum(found.values())


def test_only_transactions_that_hang_are_confirmed_to_hang(tmp_path: Path) -> None:
    """The whole judge, with a real store, judges the histories. `make worlds` draws 2,000 histories."""
    tally, confirmed = Tally(), 0
    with opened_store(tmp_path) as store:
        for seed in range(JUDGED_HISTORIES):
            confirmed += len(draw_judged(store, seed, tally).confirmed)
    assert confirmed >= JUDGED_HISTORIES / 10


@pytest.mark.parametrize("seed", ONCE_CONFIRMED + ONCE_WRONG_IN_TIME)
def test_histories_that_the_judge_once_had_wrong_stay_right(seed: int, tmp_path: Path) -> None:
    with opened_store(tmp_path) as store:
        draw_judged(store, seed, Tally())


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_histories_that_were_once_wrong_stay_right(seed: int) -> None:
    draw(seed, Tally())


def test_no_small_world_has_a_wrong_marker() -> None:
    number, tally, wrong = play_slice(EVERY // 2, EVERY)
    assert not wrong, "\n".join(wrong[:3])
    assert number > 2_000
    assert {decision for _, decision in tally.verdicts} == {"commit", "abort", "none", "unknown"}
