"""Checks many mutated inputs on all cores: `python -m tests.fuzz --inputs 1000000 --seed 1`."""

from __future__ import annotations

import argparse
import multiprocessing.pool
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from tests.fuzz.check import GROUP, Checked, Fault, check
from tests.fuzz.worker import check_group, limit_memory

FEWEST_RIGHT = 0.8
"""Minimum share of inputs with a right checksum."""
FAULTS_SHOWN = 10
TELL_EVERY_S = 10


def main() -> int:
    """Returns the exit code: 0 if all checks passed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="check only the input with this number")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.only is not None:
        return _tell(check(options.seed, [options.only]), 1.0)
    started, output = time.monotonic(), 0.0
    total = Checked(0, 0, 0, Counter(), [])
    groups = ((options.seed, first, min(first + GROUP, options.inputs)) for first in range(0, options.inputs, GROUP))
    with multiprocessing.get_context("spawn").Pool(options.processes, limit_memory) as pool:
        for checked in _bounded(pool, groups):
            total = _sum(total, checked)
            if time.monotonic() - output > TELL_EVERY_S:
                output = time.monotonic()
                print(
                    f"{total.inputs:,} of {options.inputs:,}, {len(total.faults)} faults", file=sys.stderr, flush=True
                )
    return _tell(total, time.monotonic() - started)


def _bounded(pool: multiprocessing.pool.Pool, groups: Iterator[tuple[int, int, int]]) -> Iterator[Checked]:
    """Yields the results of all groups, with at most a few hundred groups in memory at a time."""
    while some := list(islice(groups, 400)):
        yield from pool.imap_unordered(check_group, some, chunksize=4)


def _sum(checked: Checked, other: Checked) -> Checked:
    return Checked(
        checked.inputs + other.inputs,
        checked.crc_is_right + other.crc_is_right,
        checked.lose_others + other.lose_others,
        checked.outcomes + other.outcomes,
        checked.faults + other.faults[: max(0, 1_000 - len(checked.faults))],
    )


def _tell(total: Checked, seconds: float) -> int:
    for fault in total.faults[:FAULTS_SHOWN]:
        print(_print_wrong(fault))
    share = total.crc_is_right / total.inputs
    outcomes = ", ".join(f"{name} {count:,}" for name, count in _kinds(total.outcomes).most_common())
    print(
        f"{total.inputs:,} inputs, {share:.1%} with a right checksum, {total.inputs / seconds:,.0f} inputs/s: "
        f"{outcomes}; {total.lose_others:,} with a wrong length that hides good batches; "
        f"{len(total.faults)} faults"
    )
    if share < FEWEST_RIGHT and total.inputs > GROUP:
        print(
            f"fewer than {FEWEST_RIGHT:.0%} of the inputs have a right checksum, so too little damage reaches the"
            " decoder of records"
        )
        return 1
    return 1 if total.faults else 0


def _kinds(outcomes: Counter[str]) -> Counter[str]:
    """Returns the number of inputs for each reason. An input with several reasons counts for each of them."""
    found: Counter[str] = Counter()
    for reasons, count in outcomes.items():
        for reason in [reasons] if reasons == "stepped over" else reasons.split():
            found[reason] += count
    return found


def _print_wrong(fault: Fault) -> str:
    again = f"python -m tests.fuzz --seed {fault.seed} --only {fault.number}"
    return f"--- {again}\n{fault.what}"


if __name__ == "__main__":
    sys.exit(main())
