"""Takes processor time away from `txnscope watch` while healthy and hanging transactions run. Measures how old the
data in the store become, and how soon they are up to date again afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from deploy.demo.broker import Broker
from deploy.demo.workload.raw_producer import Connection
from service.domain.findings.kinds import Kind
from service.store.schema import findings
from tests.harm.starved import starved
from tests.harm.watched import Watch, restarted
from tests.helpers.waiting import wait_for, wait_until_equal
from tests.integration.application import log_ends
from tests.integration.kafka_tools import completed
from tests.integration.producers import create_topic, load
from tests.lab.hangs import Hang, late_write, never_added, old_producer

LOADED: Final = "starved-load"
HANGS: Final = "starved-hangs"
IDS: Final = ("starved-0", "starved-1", "starved-2")

_FRESH_S: Final = 3.0

Key = tuple[str, int, int, int]
"""The key of an entry: topic, partition, producer id, start offset."""


class Outcome(NamedTuple):
    """The outcome of a starvation.

    - `oldest_s`: the greatest age (s) that the data of a source had.
    - `caught_up_s`: seconds from the end of the starvation until all sources were fresh, and all hanging transactions
      were found.
    - `wrong`: entries that were confirmed as hanging, but do not hang.
    """

    hangs: int
    wrong: list[Key]
    oldest_s: float
    caught_up_s: float
    restarts: int
    counts: dict[str, tuple[int, int]]
    truth: dict[str, tuple[int, int]]
    gaps: list[str]
    log: str


def starve(broker: Broker, tool: Broker, directory: Path, seconds: float, hangs: int = 3) -> Outcome:
    """Starves an application for `seconds`, while `hangs` transactions begin to hang. `broker` has no guard against
    hanging transactions (`UNGUARDED`). `tool` is a 4.x broker, whose tools print JSON."""
    create_topic(broker.bootstrap, LOADED, 3)
    create_topic(broker.bootstrap, HANGS, hangs)
    with restarted(Watch(broker.bootstrap, directory)) as app, Connection(broker.bootstrap, threading.Event()) as link:
        app.wait_until_counting()
        with load(broker.bootstrap, LOADED, list(IDS), pause_s=0.2):
            app.wait_for_more_commits(list(IDS))
            with starved(app.processes):
                injected, oldest_s = _hang_meanwhile(app, link, seconds, hangs)
            ended = time.time()
            wait_for(lambda: _oldest_s(app) < _FRESH_S, f"all sources to be fresh again; {app.log}")
            wait_for(
                lambda: injected.keys() <= _confirmed(app).keys(),
                f"all {hangs} hanging transactions to be found; {app.log}",
            )
            caught_up_s = time.time() - ended
        wait_until_equal(app.positions, log_ends(broker.bootstrap), "the positions in the log")
        truth = {name: ends for name, ends in completed(tool, broker.bootstrap).items() if name in IDS}
        said = app.log.read_text()
        return Outcome(
            hangs=len(injected),
            wrong=sorted(_confirmed(app).keys() - injected.keys()),
            oldest_s=oldest_s,
            caught_up_s=caught_up_s,
            restarts=said.count("starting it again"),
            counts={name: app.counts()[name] for name in IDS},
            truth=truth,
            gaps=app.gaps(),
            log=said,
        )


def _hang_meanwhile(app: Watch, link: Connection, seconds: float, hangs: int) -> tuple[dict[Key, Hang], float]:
    """Makes `hangs` transactions hang, spread over `seconds`. Returns the transactions, and the greatest age in seconds
    that the data of a source had in this time."""
    injected: dict[Key, Hang] = {}
    began, oldest_s = time.monotonic(), 0.0
    while (elapsed_s := time.monotonic() - began) < seconds:
        if len(injected) < hangs and elapsed_s > (len(injected) + 0.5) * seconds / hangs:
            number = len(injected)
            make = (late_write, never_added)[number % 2]
            hang = make(old_producer(link, f"hangs-{number}"), HANGS, number)
            injected[hang.topic, hang.partition, hang.producer_id, hang.start_offset] = hang
        oldest_s = max(oldest_s, _oldest_s(app))
        time.sleep(0.5)
    return injected, oldest_s


def _oldest_s(app: Watch) -> float:
    return time.time() - min(app.as_of_ms().values()) / 1000


def _confirmed(app: Watch) -> dict[Key, str]:
    """Returns the status of every entry that was ever confirmed as hanging."""
    return {
        (row.topic, row.partition, row.producer_id, row.start_offset): row.status
        for row in app.rows(findings)
        if row.kind == Kind.HANGING and row.confirmed_at_ms is not None
    }


def reported(outcome: Outcome) -> Sequence[str]:
    return (
        f"{outcome.hangs} hanging transactions injected and found, {len(outcome.wrong)} false findings",
        f"greatest age of a source's data: {outcome.oldest_s:.1f} s",
        f"caught up {outcome.caught_up_s:.1f} s after the end of the starvation",
        f"processes started again: {outcome.restarts}",
        f"counts exact: {outcome.counts == outcome.truth}, gaps: {len(outcome.gaps)}",
    )
