"""Healthy load, three faults and three hanging transactions together: all three are found, and nothing else."""

from __future__ import annotations

import pytest

from tests.helpers.brokers import on
from tests.helpers.waiting import LIMIT_S
from tests.soak.faults import FROZEN, LEADERS, RESTARTED
from tests.soak.soak import Plan, lines, reported, run

pytestmark = [pytest.mark.alone, pytest.mark.broker, pytest.mark.spark]

SHARE = 0.5
"""Half of the time something is broken, on a machine as slow as it may be; the long run (`make soak`) has the bar."""


@on("4.3.1")
def test_only_what_hangs_is_said_to_hang_while_brokers_freeze_and_restart(version: str) -> None:
    result = run(Plan(version, 75, 3, (FROZEN, LEADERS, RESTARTED), 22))
    bars = lines(result, share=SHARE, again_s=LIMIT_S)
    assert all(line.is_reached for line in bars), "\n".join(reported(result, bars))
