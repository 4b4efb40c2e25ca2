"""Pauses between tries grow up to a limit, and are short again after a success."""

from __future__ import annotations

from service.processes.working_time import Backoff


def test_pauses_double_up_to_the_longest_and_begin_anew() -> None:
    backoff = Backoff(0.2, 1.5)
    assert [backoff.next_s() for _ in range(6)] == [0.2, 0.4, 0.8, 1.5, 1.5, 1.5]
    backoff.reset()
    assert backoff.next_s() == 0.2


def test_no_pause_is_longer_than_the_longest() -> None:
    assert Backoff(1.0, 0.1).next_s() == 0.1
