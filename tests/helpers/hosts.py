"""Simulates other hosts on this machine, each with a name and a wall clock of its own."""

from __future__ import annotations

import os
from pathlib import Path

_CUSTOMIZE = Path(__file__).parent / "other_host"


class Host:
    """A simulated host called `name`, whose wall clock is `ahead_s` seconds ahead. A Python process that is started
    with `environment` runs on this host, and so do its descendants, except the JVM. The file of the clock is in
    `folder`."""

    def __init__(self, folder: Path, name: str, ahead_s: int = 0) -> None:
        self.name, self._clock = name, folder / f"{name}.clock"
        self.set_clock(ahead_s)

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(_CUSTOMIZE), os.environ.get("PYTHONPATH")]))
        return {"PYTHONPATH": path, "TXNSCOPE_TEST_HOST": self.name, "TXNSCOPE_TEST_HOST_CLOCK": str(self._clock)}

    def set_clock(self, ahead_s: int) -> None:
        """Sets the clock of the host, also for processes that already run."""
        new = self._clock.with_suffix(".new")
        new.write_text(str(ahead_s * 1_000_000_000))
        new.replace(self._clock)
