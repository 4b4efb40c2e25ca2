"""Tests the application with half a core for a while. The application is slow, but no process dies, no data are lost,
and no finding is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.demo.broker import Broker
from tests.conftest import MakeBroker
from tests.harm.starvation import reported, starve
from tests.lab.hangs import UNGUARDED

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

STARVED_S = 60
"""Seconds of starvation. `make soak` starves the application for ten minutes."""


def test_an_application_without_processor_time_stays_correct(
    make_broker: MakeBroker, broker_431: Broker, tmp_path: Path
) -> None:
    outcome = starve(make_broker("4.3.1", **UNGUARDED), broker_431, tmp_path, STARVED_S)
    assert outcome.wrong == [], reported(outcome)
    assert outcome.restarts == 0, outcome.log
    assert outcome.counts == outcome.truth
    assert outcome.gaps == []
    assert "Traceback" not in outcome.log
