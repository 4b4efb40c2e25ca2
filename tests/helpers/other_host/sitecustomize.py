"""Runs first in every Python process on a simulated `Host`, and replaces its host name and its wall clock."""

import os
import socket
import time
from pathlib import Path

_clock = Path(os.environ["TXNSCOPE_TEST_HOST_CLOCK"])
_time, _time_ns = time.time, time.time_ns


def _ahead_ns() -> int:
    return int(_clock.read_text())


socket.gethostname = lambda: os.environ["TXNSCOPE_TEST_HOST"]
time.time_ns = lambda: _time_ns() + _ahead_ns()
time.time = lambda: _time() + _ahead_ns() / 1e9
