"""Measures CPU and memory of all processes of an application, with Linux' own accounting."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from uuid import uuid4

import psutil

from tests.helpers.processes import send, with_environment

MARK = "TXNSCOPE_BENCHMARK"
"""Environment variable that all processes of a tree inherit from the first process, even in other sessions."""

_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessTree:
    """The process that was started with `environment`, and all its descendants, including orphaned ones."""

    def __init__(self, mark: str | None = None) -> None:
        """Makes a tree of the processes in whose environment the variable MARK is `mark`. If `mark` is None, uses a new
        value."""
        self._mark = mark or uuid4().hex

    @property
    def environment(self) -> dict[str, str]:
        """Returns the environment in which the first process is to be started."""
        return os.environ | {MARK: self._mark}

    def cpu_s(self) -> dict[str, float]:
        """Returns a mapping from kind of process to the seconds of CPU so far."""
        spent: dict[str, float] = defaultdict(float)
        for process in self.processes():
            spent[_kind(process.pid)] += _cpu_s(process.pid)
        return dict(spent)

    def pss_mb(self) -> dict[str, float]:
        """Returns a mapping from kind of process to the proportional set size in MB (10^6 bytes): shared pages are
        divided among the processes that share them."""
        sizes: dict[str, float] = defaultdict(float)
        for process in self.processes():
            sizes[_kind(process.pid)] += _pss_kb(process.pid) * 1024 / 1e6
        return dict(sizes)

    def processes(self) -> list[psutil.Process]:
        """Returns the running processes, oldest first."""
        return with_environment(MARK, self._mark)

    def kill(self) -> None:
        """Kills all processes at once, as the failure of a host does."""
        send(signal.SIGKILL, self.processes())


class PeakMemory:
    """Measures the largest total of `pss_mb` while the block runs: `with PeakMemory(tree) as peak: …; peak.mb`. At the
    end of the block, raises ValueError if the driver or its JVM was missing."""

    def __init__(self, tree: ProcessTree, every_s: float = 0.5) -> None:
        self.mb = 0.0
        self.parts: dict[str, float] = {}
        self._tree, self._every_s = tree, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        if kind is None:
            _check_whole(self.parts)

    def _watch(self) -> None:
        while not self._over.wait(self._every_s):
            parts = self._tree.pss_mb()
            if sum(parts.values()) > self.mb:
                self.mb, self.parts = sum(parts.values()), parts


class CpuMeter:
    """Measures the number of cores used between two moments: `meter = CpuMeter(tree); …; meter.cores()`."""

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._before, self._began = tree.cpu_s(), time.monotonic()

    def cores(self) -> dict[str, float]:
        """Returns a mapping from kind of process to the number of cores used. Raises ValueError if the driver or its
        JVM is missing."""
        seconds, now = time.monotonic() - self._began, self._tree.cpu_s()
        _check_whole(now)
        return {kind: (spent - self._before.get(kind, 0.0)) / seconds for kind, spent in now.items()}


def cores_at_rest(tree: ProcessTree, settle_s: float, measured_s: float) -> dict[str, float]:
    """Waits `settle_s`, then measures for `measured_s`. Returns a mapping from kind of process to the number of cores
    used."""
    time.sleep(settle_s)
    meter = CpuMeter(tree)
    time.sleep(measured_s)
    return meter.cores()


def _check_whole(parts: dict[str, float]) -> None:
    """Raises ValueError if the driver or its JVM is missing among the processes, because the figure would be too
    low."""
    if lacking := {"driver", "JVM"} - parts.keys():
        raise ValueError(f"no {' and no '.join(sorted(lacking))} among the processes: {', '.join(sorted(parts))}")


def shown(parts: dict[str, float], unit: str) -> str:
    largest_first = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{kind} {amount:.3g}" for kind, amount in largest_first) + f" {unit}"


def _cpu_s(pid: int) -> float:
    """Returns the CPU seconds of a process and of its ended children."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # the process has ended since
        return 0.0
    fields = text[text.rindex(")") + 2 :].split()
    return sum(int(field) for field in fields[11:15]) / _TICKS


def _pss_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _kind(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return "ended"
    for sign, kind in _KINDS:
        if sign in command:
            return kind
    return "other"


_KINDS = (
    ("org.apache.spark.deploy.SparkSubmit", "JVM"),
    ("service.cli\0watch", "supervisor"),
    ("service.cli\0serve", "service"),
    ("spark_jobs\0", "driver"),
    ("tests.benchmarks.spark_source\0", "driver"),
    ("spark_jobs.runtime.fork_server\0", "Python workers and planner"),
    ("pyspark", "Python workers and planner"),
)
"""Pairs of a part of a command line and a kind of process. The first pair whose part is in the command line of a
process gives its kind."""
