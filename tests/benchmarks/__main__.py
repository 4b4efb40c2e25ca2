"""Runs the benchmarks: `python -m tests.benchmarks [NAME …] [--records N] [--ids N] …`. Each benchmark prints a table.
At the end, a table shows all figures that have a bar (limit)."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from tests.benchmarks import (
    canary,
    crowd,
    decode_fold,
    detection,
    executors,
    first_answer,
    following,
    freshness,
    look,
    neighbours,
    notified,
    readers,
    reads,
    scrape,
    sizing,
    spark_throughput,
    stalls,
    store_write,
    takeover,
)
from tests.benchmarks.figures import Figure, show
from tests.benchmarks.prepared_broker import prepared_broker

ON_THE_PREPARED_BROKER = ("spark_throughput", "first_answer")
ALONE: dict[str, Callable[[argparse.Namespace], list[Figure]]] = {
    "freshness": lambda chosen: freshness.run(probes=chosen.probes),
    "following": lambda chosen: following.run(probes=chosen.probes),
    "reads": lambda chosen: reads.run(chosen.ids),
    "readers": lambda _: readers.run(),
    "scrape": lambda _: scrape.run(),
    "look": lambda _: look.run(),
    "stalls": lambda chosen: stalls.run(chosen.held_seconds),
    "detection": lambda _: detection.run(),
    "notified": lambda _: notified.run(),
    "canary": lambda _: canary.run(),
    "takeover": lambda _: takeover.run(),
    "executors": lambda _: executors.run(),
    "neighbours": lambda _: neighbours.run(),
    "sizing": lambda _: sizing.run(),
    "crowd": lambda _: crowd.run(),
}
NAMES = ("decode_fold", "store_write", *ON_THE_PREPARED_BROKER, *ALONE)
STORE_IDS = 200_000


def main(argv: Sequence[str]) -> int:
    """Runs the benchmarks. Returns 0 even if a bar is missed, because this machine may be slower than the one for which
    the bars were set."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--records", type=int, default=5_000_000, help="records in the broker's log (default: 5000000)")
    parser.add_argument(
        "--ids",
        type=int,
        default=1_000_000,
        help="ids in the broker's log, and in the stores of the benchmark `reads` (default: 1000000)",
    )
    parser.add_argument(
        "--probes",
        type=int,
        default=200,
        help="number of commits whose delay `freshness` and `following` measure (default: 200)",
    )
    parser.add_argument(
        "--held-seconds", type=float, default=300, help="time for which `stalls` holds transactions open (default: 300)"
    )
    arguments = parser.parse_args(argv)
    names = arguments.names or NAMES
    if unknown := set(names) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")

    began = time.monotonic()
    figures: list[Figure] = []
    if "decode_fold" in names:
        figures += decode_fold.run()
    if "store_write" in names:
        print("\nthe store's writer alone")
        store_write.main(STORE_IDS)
    if set(ON_THE_PREPARED_BROKER) & set(names):
        with prepared_broker(arguments.records, arguments.ids) as broker:
            if "spark_throughput" in names:
                figures += spark_throughput.measure(broker)
            if "first_answer" in names:
                figures += first_answer.measure(broker, arguments.ids)
    for name, run in ALONE.items():
        if name in names:
            figures += run(arguments)
    show(f"summary, after {time.monotonic() - began:.0f} s", [f for f in figures if f.bar is not None])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
