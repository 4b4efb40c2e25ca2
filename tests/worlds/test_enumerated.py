"""Small worlds, all of which `make worlds` plays: none has a wrong marker."""

from __future__ import annotations

from tests.worlds.enumerated import play_slice

EVERY = 211
"""Of that many small worlds, the suite plays one."""


def test_no_small_world_has_a_wrong_marker() -> None:
    number, tally, wrong = play_slice(EVERY // 2, EVERY)
    assert not wrong, "\n".join(wrong[:3])
    assert number > 2_000
    assert {decision for _, decision in tally.verdicts} == {"commit", "abort", "none", "unknown"}
