"""`python -m tests.harm`: kills and freezes every kind of process, alone and in pairs, at rest, under load and during a
first read. Then limits the application to half a core for ten minutes. Prints the figures, or with `--report` writes
them into a file (docs/killed-and-frozen.md)."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sqlalchemy.exc import OperationalError

from deploy.demo.broker import Broker
from deploy.demo.child_process import interrupt_on_signals
from service.store.errors import StoreUnavailable
from tests.benchmarks.prepared_broker import prepared_broker
from tests.harm.report import of_series, of_starvation, put
from tests.harm.rounds import FREEZE, KILL, Round, Series, harm
from tests.harm.starvation import Outcome, starve
from tests.harm.watched import KINDS, Watch, restarted
from tests.helpers.brokers import VERSIONS, free_port
from tests.helpers.waiting import wait_for, wait_until_equal
from tests.integration.kafka_tools import completed
from tests.integration.producers import create_topic, load
from tests.lab.hangs import UNGUARDED

AT_REST: Final = "at rest"
UNDER_LOAD: Final = "under load"
FIRST_READ: Final = "during a first read"
WHEN: Final = (UNDER_LOAD, AT_REST, FIRST_READ)

BAR_S: Final = {KILL: 30.0, FREEZE: 60.0}
RECORDS: Final = 3_000_000
LOGGED_IDS: Final = 300_000
_IDS: Final = ["harmed-0", "harmed-1", "harmed-2"]
_TOPIC: Final = "harmed"


def main() -> int:
    """Returns the exit code: 0 if the figures of every section are good (see `_sections`), else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.harm", description=__doc__)
    parser.add_argument("--version", choices=VERSIONS, default=VERSIONS[0], help="of Kafka")
    parser.add_argument("--when", choices=WHEN, nargs="*", default=list(WHEN))
    parser.add_argument("--how", choices=(KILL, FREEZE), nargs="*", default=[KILL, FREEZE])
    parser.add_argument("--singles", action="store_true", help="no pairs")
    parser.add_argument("--starved-minutes", type=float, default=10)
    parser.add_argument("--report", type=Path, help="file for the figures (default: print the figures)")
    options = parser.parse_args()
    interrupt_on_signals()
    pairs = [] if options.singles else list(combinations(KINDS, 2))
    victims = [*((kind,) for kind in KINDS), *pairs]
    page, is_good = "", True
    if options.report and options.report.exists():
        page = options.report.read_text()
    for section, is_bar_reached in _sections(options, victims):
        page, is_good = put(page, section), is_good and is_bar_reached
        if options.report:
            options.report.write_text(page)
    if not options.report:
        sys.stdout.write(page)
    return 0 if is_good else 1


def _sections(options: argparse.Namespace, victims: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, bool]]:
    """Yields (section of the page, whether its figures are good) as soon as the figures are measured. Figures are good
    if the limits are kept, the counts are exact and the store has no data gap. Besides, the log of a killed or frozen
    application must have no tracebacks; under starvation, nothing may be restarted, and no finding may be wrong."""
    for when, how in product(options.when, options.how):
        with TemporaryDirectory(prefix="txnscope-harm-") as directory:
            measure = _during_first_reads if when == FIRST_READ else _amid
            for series in measure(options.version, when, how, victims, Path(directory)):
                is_fast = all(each_round.stood_s <= BAR_S[how] for each_round in series.rounds)
                yield of_series(series, BAR_S[how]), is_fast and series.is_exact and not series.tracebacks
    if options.starved_minutes:
        outcome = _starved(options.version, options.starved_minutes * 60)
        yield of_starvation(outcome, options.starved_minutes), _is_right(outcome)


def _amid(version: str, when: str, how: str, victims: Sequence[tuple[str, ...]], folder: Path) -> Iterator[Series]:
    """Yields one series, whose rounds all harm the same application. After the last round, the counts of transactions
    are compared with those of the transaction log."""
    rounds = []
    with (
        Broker(version, free_port(), folder / "kafka") as broker,
        _tool(version, broker, folder) as tool,
        restarted(Watch(broker.bootstrap, folder)) as app,
    ):
        create_topic(broker.bootstrap, _TOPIC)
        app.wait_until_counting()
        with _loaded(broker, is_loaded=True):
            app.wait_for_more_commits(_IDS)
        with _loaded(broker, is_loaded=when == UNDER_LOAD):
            for kinds in victims:
                rounds.append(_said(harm(app, how, kinds), when))
                time.sleep(2)
        app.wait_until_read()
        truth = completed(tool, broker.bootstrap)
        wait_until_equal(app.counts, truth, f"the counts; {app.log}")
        yield Series(version, when, how, rounds, app.gaps() == [], _tracebacks(app))


def _during_first_reads(
    version: str, when: str, how: str, victims: Sequence[tuple[str, ...]], folder: Path
) -> Iterator[Series]:
    """After each round, yields the series of all rounds so far, so that the figures are kept if the run is ended early.

    In each round, a new application reads a log of millions of records into an empty store. The processes are harmed
    when a part of the log has been stored. At the end of the round, the store must equal the store of an undisturbed
    first read.
    """
    series = Series(version, when, how, [], is_exact=True, tracebacks=0)
    with prepared_broker(RECORDS, LOGGED_IDS) as broker:
        with _first_read(broker, folder / "unharmed") as app:
            app.wait_until_read()
            truth = app.ids()
        for kinds in victims:
            with _first_read(broker, folder / "harmed") as app:
                rounds = [*series.rounds, _said(harm(app, how, kinds), when)]
                app.wait_until_read()
                is_exact = series.is_exact and app.ids() == truth and app.gaps() == []
                series = Series(broker.version, when, how, rounds, is_exact, series.tracebacks + _tracebacks(app))
            yield series


@contextmanager
def _first_read(broker: Broker, folder: Path) -> Iterator[Watch]:
    """Yields an application in the middle of its first read: a part of the log has been stored."""
    folder.mkdir()
    with restarted(Watch(broker.bootstrap, folder)) as app:
        stored = (StoreUnavailable, OperationalError)  # the store has no file or no tables yet
        wait_for(lambda: sum(app.positions().values()), f"a first read under way; {app.log}", retry_on=stored)
        yield app
    shutil.rmtree(folder)


@contextmanager
def _loaded(broker: Broker, *, is_loaded: bool) -> Iterator[None]:
    if not is_loaded:
        yield
        return
    with load(broker.bootstrap, _TOPIC, _IDS, pause_s=0.05):
        yield


@contextmanager
def _tool(version: str, broker: Broker, folder: Path) -> Iterator[Broker]:
    """Yields a broker whose tools print JSON: `broker` itself if its version has such tools, otherwise a new broker."""
    if version == VERSIONS[0]:
        yield broker
        return
    with Broker(VERSIONS[0], free_port(), folder / "tool") as tool:
        yield tool


def _starved(version: str, seconds: float) -> Outcome:
    with TemporaryDirectory(prefix="txnscope-harm-") as directory:
        folder = Path(directory)
        with (
            Broker(version, free_port(), folder / "kafka", UNGUARDED) as broker,
            _tool(version, broker, folder) as tool,
        ):
            return starve(broker, tool, folder, seconds, hangs=max(int(seconds / 60), 3))


def _is_right(outcome: Outcome) -> bool:
    return (
        not outcome.wrong
        and not outcome.restarts
        and outcome.counts == outcome.truth
        and not outcome.gaps
        and outcome.caught_up_s <= 60
    )


def _tracebacks(app: Watch) -> int:
    lines = app.log.read_text().splitlines()
    return sum("Traceback" in line or "\tat " in line for line in lines)


def _said(one: Round, when: str) -> Round:
    gone = "not needed" if one.gone_s is None else f"gone after {one.gone_s:.1f} s"
    sys.stderr.write(f"{when}: {' and '.join(one.kinds)} {one.how}: {gone}, longest standstill {one.stood_s:.1f} s\n")
    return one


if __name__ == "__main__":
    sys.exit(main())
