"""The process of a service: what its threads leave behind."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S

ARENA_MB = 64
"""The address space that glibc reserves for an arena."""
THREADS = 16
PROGRAM = f"""
import threading
import psutil
from service.server import running

running.prepare()
threading.stack_size(1 << 20)
before = psutil.Process().memory_info().vms
all_at_once = threading.Barrier({THREADS} + 1)

def allocate():
    kept = [bytes(100_000) for _ in range(10)]
    all_at_once.wait()
    all_at_once.wait()

threads = [threading.Thread(target=allocate) for _ in range({THREADS})]
for one in threads:
    one.start()
all_at_once.wait()
print((psutil.Process().memory_info().vms - before) >> 20)
all_at_once.wait()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
def test_threads_share_one_arena() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert int(said.stdout) < ARENA_MB * 2, "MB more address space"
