"""Runs a worker process of the fuzzer, which checks groups of inputs in bounded memory."""

from __future__ import annotations

import resource
from pathlib import Path

from tests.fuzz.check import GROUP, Checked, check
from tests.fuzz.seeds import seeds

MORE_MEMORY = 3 << 30
"""Bytes of address space that a worker may allocate after its start. Memory allocators reserve 1 GB at once."""


def limit_memory() -> None:
    """Limits the address space of the process, so that an allocation of a wrong size fails, and is reported as a
    fault."""
    seeds()
    check(0, range(GROUP))  # this call loads everything that is loaded lazily
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MORE_MEMORY, resource.RLIM_INFINITY))


def check_group(group: tuple[int, int, int]) -> Checked:
    seed, first, end = group
    return check(seed, range(first, end))
