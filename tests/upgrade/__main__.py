"""`python -m tests.upgrade`: under load, upgrades job and services from a revision to this checkout, and the brokers to
a newer version of Kafka. Then rolls job and services back, and upgrades them again. Prints the figures."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from deploy.demo.child_process import interrupt_on_signals
from tests.soak.soak import Line
from tests.upgrade.polling import Polled
from tests.upgrade.revisions import installed, newest_tag, present
from tests.upgrade.stages import Plan, Result, run

BAR_S: Final = 60.0


def main() -> int:
    """Returns the exit code: 0 if every figure met its target, 1 if not, 2 if there is no revision to upgrade from."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description=__doc__)
    parser.add_argument("--from", dest="revision", help="the revision to upgrade from (default: the newest tag)")
    parser.add_argument("--minutes", type=float, default=15, help="minutes of load (default: 15)")
    parser.add_argument(
        "--pause",
        type=float,
        default=0.05,
        help="seconds between two transactions of a producer, and between two requests to a service (default: 0.05)",
    )
    parser.add_argument(
        "--adds", action="store_true", help="give the new version one more revision of the store, made up for this run"
    )
    parser.add_argument("--brokers", default="3.9.2", help="Kafka's version before the upgrade (default: 3.9.2)")
    parser.add_argument("--brokers-after", default="4.3.1", help="Kafka's version after the upgrade (default: 4.3.1)")
    options = parser.parse_args()
    interrupt_on_signals()
    revision = options.revision or newest_tag()
    if revision is None:
        sys.stderr.write(
            "there is no tag yet; name the revision to upgrade from with --from, or with FROM of the Makefile\n"
        )
        return 2
    with TemporaryDirectory(prefix="txnscope-revisions-") as directory:
        old = installed(revision, Path(directory) / "old")
        new = present(Path(directory) / "new", adds=options.adds)
        began = time.monotonic()
        result = run(Plan(old, new, options.minutes * 60, options.pause, options.brokers, options.brokers_after))
    bars = list(lines(result))
    sys.stdout.write(f"from {old.name} to {new.name}, {(time.monotonic() - began) / 60:.0f} minutes in all\n")
    sys.stdout.writelines(f"{line}\n" for line in reported(result, bars))
    return 0 if all(line.is_reached for line in bars) else 1


def lines(result: Result) -> Iterator[Line]:
    together, alone, age, stood = (
        max(getattr(phase, name) for phase in result.polled.phases.values())
        for name in ("together", "alone", "age", "stood")
    )
    ends = result.ends
    yield Line("transactions that ended", f"{ends.transactions:,}")
    yield Line(
        "counts equal Kafka's log, id by id", _yes(ends.kafka == ends.counted), "yes", ends.kafka == ends.counted
    )
    yield Line("history equals Kafka's log, id by id", _yes(ends.are_exact), "yes", ends.are_exact)
    yield Line("data gaps", str(len(result.gaps)), "0", not result.gaps)
    yield Line("records that were not decoded", str(len(result.rejects)), "0", not result.rejects)
    others = [hang for hang in result.hangs if hang != result.injected]
    yield Line("false: confirmed, but not hanging", str(len(others)), "0", not others)
    yield Line("findings of lost records", str(len(result.lost)), "0", not result.lost)
    yield Line("the hanging transaction's finding stayed", _yes(result.is_kept), "yes", result.is_kept)
    yield Line("pages and addresses polled", str(result.pages))
    yield Line("answers", f"{result.polled.answers:,}")
    yield _pause("neither service answers one page, longest", together)
    yield Line("one of two services does not answer, longest", f"{alone:.1f} s")
    yield _pause("no new data, longest", stood)
    yield _pause("age of the data, greatest", age)


def _pause(name: str, seconds: float) -> Line:
    return Line(name, f"{seconds:.1f} s", f"≤ {BAR_S:.0f} s", seconds <= BAR_S)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def reported(result: Result, bars: list[Line]) -> Iterator[str]:
    """Yields the lines of the table, the migrations, the figures of each phase, the most frequent answers that were not
    good, the numbers of ended transactions if they differ, and the entries that were confirmed as hanging."""
    for line in bars:
        verdict = "" if not line.bar else f"{line.bar:>8}  {'reached' if line.is_reached else 'MISSED'}"
        yield f"{line.name:45} {line.value:>12} {verdict}".rstrip()
    for name, (seconds, tries) in result.migrations_s.items():
        yield f"  migrate of {name}: {seconds:.1f} s, started {tries} times"
    yield from _phases(result.polled)
    if not result.ends.are_exact:
        yield f"  {result.ends}"
    for hang in result.hangs:
        yield f"  confirmed as hanging: {hang}" + (" (injected)" if hang == result.injected else " FALSE")


def _phases(polled: Polled) -> Iterator[str]:
    yield f"  {'phase':45} {'none answers':>12} {'one does not':>12} {'no new data':>12} {'age':>8}"
    for phase, at in polled.phases.items():
        yield f"  {phase:45} {at.together:>10.1f} s {at.alone:>10.1f} s {at.stood:>10.1f} s {at.age:>6.1f} s"
    for what, number in polled.others.most_common(12):
        yield f"  {number} requests without a good answer: {what}"


if __name__ == "__main__":
    sys.exit(main())
