"""Runs the soak, with three brokers, faults, and many clients: `python -m tests.soak [--minutes N] [--hangs N]
[--version V [--roll-to V]] [--all-partitions] [--seed N]`."""

from __future__ import annotations

import argparse
import sys

from deploy.demo.child_process import interrupt_on_signals
from deploy.demo.jars import PINS
from tests.helpers.brokers import VERSIONS
from tests.soak.soak import lines, plan, reported, run

PINNED = sorted(pins.stem for pins in PINS.glob("[0-9]*.sha256"))


def main() -> int:
    """Returns the exit code: 0 if every figure met its target, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--hangs", type=int, default=20, help="number of hanging transactions to inject (default: 20)")
    parser.add_argument("--version", choices=PINNED, default=VERSIONS[0], help="version of Kafka")
    parser.add_argument(
        "--roll-to", choices=PINNED, help="upgrade the brokers to this version in turn, instead of other faults"
    )
    parser.add_argument(
        "--all-partitions", action="store_true", help="compare every marker with its decision (--partitions all)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed for the choice of the brokers that are hit (default: 1)"
    )
    options = parser.parse_args()
    interrupt_on_signals()
    planned = plan(options.version, options.minutes, options.hangs, options.roll_to)
    result = run(planned._replace(all_partitions=options.all_partitions), options.seed)
    bars = lines(result)
    sys.stdout.writelines(f"{line}\n" for line in reported(result, bars))
    return 0 if all(line.is_reached for line in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
