"""Runs healthy load, faults and hanging transactions together. Reports the findings, wrong confirmations, and the
partitions that were not judged."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, select

from deploy.demo.workload.raw_producer import Connection
from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.kinds import Kind
from service.domain.transaction_log.states import TOPIC
from service.store.engine import open_reader
from service.store.escaped_text import display_id
from service.store.rows.findings import finding_of
from service.store.schema import counters, findings
from service.store.schema.history import AUDITED
from tests.benchmarks.figures import percentile
from tests.benchmarks.watched import Watched, watching
from tests.helpers.brokers import Cluster
from tests.helpers.waiting import wait_for, wait_until_equal
from tests.lab.asking import open_on
from tests.lab.hangs import UNGUARDED
from tests.soak.clients import HANGS, PARTITIONS, TOPICS, TOPICS_GLOB, Key, prepare_topics
from tests.soak.faults import KINDS, PROPERTIES, ROLL, Done, Faults
from tests.soak.injected import Injecting
from tests.soak.watch import Seen, Watching, as_of_s
from tests.soak.working import Work, working

HOLD_S: Final = 300.0
JUDGED_SHARE: Final = 0.99
JUDGED_AGAIN_S: Final = 10.0
_BEGINS_S: Final = 2.0
"""The soak begins to count verdicts when the data are at most this old (s), and all partitions are judged."""
_SLACK_S: Final = 6.0
_AUDITED: Final = select(counters.c.label, counters.c.value).where(counters.c.name == AUDITED)


class Plan(NamedTuple):
    version: str
    seconds: float
    hangs: int
    faults: Sequence[str]
    every_s: float
    """Planned time from the beginning of one fault to the beginning of the next. A slow fault delays the next one."""
    roll_to: str | None = None
    """The version to which the brokers are upgraded, one after another."""
    all_partitions: bool = False
    """True if every marker is compared with its decision (`--partitions all`)."""


class Result(NamedTuple):
    """The result of a soak.

    - `delays_s`: for each injected transaction that was found, the seconds until its finding was confirmed, ascending.
    - `missed`: hanging transactions without a confirmed finding.
    - `dropped`: injected transactions that still hung when their finding ended.
    - `others`: confirmed findings about transactions that do not hang.
    - `own`: transactions that were not injected, but hang, as Kafka itself shows.
    - `abandoned`: number of findings about writes before AddPartitionsToTxn that a client abandoned. Their entries hung
      until a later transaction of the id adopted them.
    - `lost`: findings of lost records and torn transactions, which no fault of the soak causes.
    - `audited`: a mapping from the result of comparing markers with decisions to the number of ended transactions.
    - `share`: the share of partition-seconds in which partitions were judged (`Seen.share`).
    - `again_s`: for each fault, the seconds until all partitions were judged again, or None if some partition was
      not judged again.
    """

    injected: int
    delays_s: list[float]
    missed: list[Key]
    dropped: list[Key]
    others: list[Any]
    own: list[Key]
    abandoned: int
    lost: list[Any]
    audited: dict[str, int]
    share: float
    again_s: list[tuple[Done, float | None]]
    done: dict[str, int]
    seen: Seen

    @property
    def longest_s(self) -> float:
        return max((s if s is not None else float("inf") for _, s in self.again_s), default=0.0)


def plan(version: str, minutes: float, hangs: int, roll_to: str | None = None) -> Plan:
    if roll_to is not None:
        return Plan(version, minutes * 60, hangs, ROLL, minutes * 60 / len(ROLL), roll_to)
    every_s = 60.0 if minutes >= 10 else 30.0
    count = max(int(minutes * 60 / every_s), 1)
    return Plan(version, minutes * 60, hangs, [KINDS[n % len(KINDS)] for n in range(count)], every_s)


def run(plan: Plan, seed: int = 1) -> Result:
    with (
        TemporaryDirectory(prefix="txnscope-soak-") as directory,
        Cluster(plan.version, Path(directory), UNGUARDED | PROPERTIES) as cluster,
    ):
        prepare_topics(cluster.bootstrap, plan.hangs)
        hold_s = min(HOLD_S, plan.seconds)
        more = ["--partitions", "all", "--topics", TOPICS_GLOB] if plan.all_partitions else []
        with watching(cluster.bootstrap, more=more) as watched:
            with working(cluster.bootstrap, hold_s=hold_s, hangs=plan.hangs) as work:
                _wait_until_judged(watched, {*TOPICS} if plan.all_partitions else {*TOPICS, TOPIC})
                faults = Faults(cluster, seed, plan.roll_to)
                topics = TOPICS_GLOB if plan.all_partitions else "*"
                with Watching(watched, cluster, lambda: faults.away, topics) as watch:
                    with Injecting(cluster.bootstrap, plan.hangs, plan.seconds) as injecting:
                        _disturb(faults, plan, work)
                    _wait_for_the_last(injecting, faults, watch.seen)
            time.sleep(_SLACK_S)
            still_open = _open(cluster, plan.hangs)
            _wait_until_confirmed(watched, still_open)
            return _result(watched, watch.seen, faults, injecting, still_open, work)


def _wait_until_judged(watched: Watched, wanted: Collection[str]) -> None:
    """Waits until all partitions of the wanted topics are judged for the first time."""
    rest = watched.rest()

    def done() -> bool:
        if not watched.is_running:
            raise RuntimeError(f"the application ended:\n{watched.last_words()}")
        body = rest.get("/partitions", limit=200)
        if body is None or time.time() - as_of_s(body) > _BEGINS_S:
            return False
        topics = {one["topic"] for one in body["items"]}
        return topics >= {*wanted} and all(one["judged"] for one in body["items"])

    try:
        wait_for(done, "all partitions judged")
    finally:
        rest.close()


def _disturb(faults: Faults, plan: Plan, work: Work) -> None:
    began = time.monotonic()
    for number, kind in enumerate(plan.faults):
        work.check()
        time.sleep(max(0.0, began + number * plan.every_s + plan.every_s / 3 - time.monotonic()))
        fault = faults.do(kind)
        sys.stderr.write(f"{time.monotonic() - began:5.0f} s: {fault.kind}\n")
        faults.settle()
    time.sleep(max(JUDGED_AGAIN_S + 2, began + plan.seconds - time.monotonic()))


def _wait_for_the_last(injecting: Injecting, faults: Faults, seen: Seen) -> None:
    """Waits until all injected transactions are found, and all partitions are judged again after each fault. Raises no
    error at the time limit: the result then reports the failure."""

    def left() -> list[object]:
        hidden = [key for one in injecting.injected if (key := _key(one.hang)) not in seen.found]
        return [*hidden, *(one for one in faults.done if seen.judged_again_s(one.ended_s) is None)]

    with suppress(AssertionError):
        wait_until_equal(
            left, [], "the transactions not found, and the faults after which not all partitions are judged again,"
        )


def _wait_until_confirmed(watched: Watched, hanging: set[Key]) -> None:
    """Waits until all entries in `hanging` are confirmed. No client works any more, so open entries hang. Raises no
    error at the time limit: the result then reports the failure."""
    with suppress(AssertionError):
        wait_until_equal(
            lambda: sorted(hanging - {_of(row) for row in _confirmed(watched.store)}),
            [],
            "the hanging entries that are not confirmed",
        )


def _open(cluster: Cluster, hangs: int) -> set[Key]:
    """Returns the entries that leaders report as open although no client works any more."""
    found: set[Key] = set()
    with Connection(cluster.bootstrap, threading.Event()) as connection:
        for topic in TOPICS:
            for p in range(hangs if topic == HANGS else PARTITIONS):
                found |= {(topic, p, one.producer_id, one.start_offset) for one in open_on(connection, topic, p)}
    return found


def _result(
    watched: Watched, seen: Seen, faults: Faults, injecting: Injecting, still_open: set[Key], work: Work
) -> Result:
    injected = {_key(one.hang): one.at_s for one in injecting.injected}
    confirmed = {_of(row): row for row in _confirmed(watched.store)}
    own = still_open - injected.keys()
    dropped = [
        key
        for key, at_s in seen.dropped.items()
        if key in injected and at_s < injecting.marked_s.get(key[1], float("inf"))
    ]
    return Result(
        injected=len(injected),
        delays_s=sorted(seen.found[key] - at_s for key, at_s in injected.items() if key in seen.found),
        missed=sorted((injected.keys() | own) - confirmed.keys()),
        dropped=dropped,
        others=[row for key, row in confirmed.items() if key not in injected.keys() | own | work.abandoned],
        own=sorted(own),
        abandoned=len((confirmed.keys() & work.abandoned) - own),
        lost=_rows(watched.store, select(findings).where(findings.c.kind.in_(UNTIL_ACKNOWLEDGED))),
        audited={row.label: row.value for row in _rows(watched.store, _AUDITED)},
        share=seen.share(),
        again_s=[(one, seen.judged_again_s(one.ended_s)) for one in faults.done],
        done=dict(work.done),
        seen=seen,
    )


def _key(hang: Any) -> Key:
    return hang.topic, hang.partition, hang.producer_id, hang.start_offset


def _of(row: Any) -> Key:
    return row.topic, row.partition, row.producer_id, row.start_offset


def _confirmed(store: str) -> Collection[Any]:
    """Returns the rows of all hanging findings that were ever confirmed, even if only for a moment."""
    return _rows(
        store, select(findings).where(findings.c.kind == Kind.HANGING, findings.c.confirmed_at_ms.is_not(None))
    )


def _rows(store: str, query: Select[Any]) -> list[Any]:
    engine = open_reader(store)
    try:
        with engine.connect() as connection:
            return list(connection.execute(query).all())
    finally:
        engine.dispose()


class Line(NamedTuple):
    name: str
    value: str
    bar: str = ""
    is_reached: bool = True


def lines(result: Result, share: float = JUDGED_SHARE, again_s: float = JUDGED_AGAIN_S) -> list[Line]:
    delays = result.delays_s or [float("nan")]
    found = len(result.delays_s)
    return [
        Line("hanging transactions injected", str(result.injected)),
        Line("  found", str(found), "all", not result.missed and found == result.injected),
        Line("  acknowledged → confirmed in REST, p50", f"{percentile(delays, 0.5):.1f} s"),
        Line("  the longest", f"{max(delays):.1f} s"),
        Line("  found, but the finding ended before the hang", str(len(result.dropped)), "0", not result.dropped),
        Line("false: confirmed, but not hanging", str(len(result.others)), "0", not result.others),
        Line("not injected, but hanging, as Kafka shows", str(len(result.own))),
        Line("not injected, hanging until adopted", str(result.abandoned)),
        Line("findings of lost records or torn transactions", str(len(result.lost)), "0", not result.lost),
        Line("markers compared", ", ".join(f"{word} {n:,}" for word, n in sorted(result.audited.items())) or "none"),
        Line("partition-seconds judged", f"{result.share:.2%}", f"≥ {share:.0%}", result.share >= share),
        Line(
            "longest until judged again", f"{result.longest_s:.1f} s", f"≤ {again_s:.0f} s", result.longest_s <= again_s
        ),
        Line("healthy transactions", ", ".join(f"{kind} {n:,}" for kind, n in sorted(result.done.items()))),
    ]


def reported(result: Result, bars: Sequence[Line]) -> Iterator[str]:
    """Yields the lines of the table, followed by the faults, the ten most frequent reasons for missing verdicts, the
    missed transactions, the findings of lost records, and the false confirmations."""
    for line in bars:
        verdict = "" if not line.bar else f"{line.bar:>8}  {'reached' if line.is_reached else 'MISSED'}"
        yield f"{line.name:45} {line.value:>12} {verdict}".rstrip()
    for fault, again_s in result.again_s:
        where = "" if fault.node is None else f" (broker {fault.node})"
        after = "never" if again_s is None else f"{again_s:.1f} s"
        yield f"  {fault.kind + where:35} {fault.ended_s - fault.began_s:5.1f} s, judged again after {after}"
    for why, count in result.seen.reasons().most_common(10):
        yield f"  not judged in {count} samples of one partition: {why}"
    for key in result.missed:
        yield f"  missed: {key}"
    for row in result.lost:
        yield f"  {row.kind}: {finding_of(row).summary} {_of(row)} {row.evidence}"
    for row in result.others:
        name = "nobody" if row.transactional_id is None else display_id(row.transactional_id)
        yield f"  false: {name} {_of(row)} {row.confirmed_at_ms} {row.resolution} {row.confidence}"
        yield f"    {row.evidence} {row.proofs}"
