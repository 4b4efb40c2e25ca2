"""The stages of an upgrade under load: migration, services, job, brokers, rollback, and the upgrade once more."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import NewTopic
from sqlalchemy import func, select

from deploy.demo.workload.raw_producer import Connection
from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.kinds import Kind, Status
from service.domain.transaction_log.states import COMPLETE_ABORT
from service.store.schema import findings, id_minutes, transactional_ids, transitions
from tests.helpers.brokers import Cluster, free_ports
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import LIMIT_S, wait_for, wait_until_equal
from tests.integration.application import Ingest, log_ends
from tests.integration.kafka_tools import completed
from tests.integration.producers import create_topics, load
from tests.lab.hangs import UNGUARDED, Hang, late_write, old_producer
from tests.soak.faults import PROPERTIES, ROLL, UPGRADED, Faults
from tests.upgrade.polling import Polled, Polling
from tests.upgrade.revisions import Revision, Running

CLUSTER: Final = "upgraded"
IDS: Final = tuple(f"counted-{number}" for number in range(6))
_LOADED: Final = "upgrade-load"
_HANGS: Final = "upgrade-hangs"
_TRIES: Final = 5
_STANDS_BY: Final = "another instance writes this cluster: standing by"


class Plan(NamedTuple):
    """The plan of an upgrade. `old`, `new`: the revisions. `seconds`: the time that all phases together last, not
    counting the steps with which they begin. `pause_s`: the seconds between two transactions of a producer, and between
    two requests to a service. `brokers`, `brokers_after`: the versions of Kafka before and after the upgrade of the
    brokers."""

    old: Revision
    new: Revision
    seconds: float
    pause_s: float
    brokers: str
    brokers_after: str


class Ends(NamedTuple):
    """For each id, the numbers of transactions that ended: (commits, aborts). `kafka`: according to Kafka's transaction
    log. `counted`: according to the store's counts of each id."""

    kafka: dict[str, tuple[int, int]]
    counted: dict[str, tuple[int, int]]
    history: dict[str, tuple[int, int]]
    """The numbers according to the history in the store. Commits: the sum of the id's commits by minute. Aborts: the
    number of the id's rows that complete an abort."""

    @property
    def transactions(self) -> int:
        return sum(sum(ends) for ends in self.kafka.values())

    @property
    def are_exact(self) -> bool:
        return self.kafka == self.counted == self.history


class Result(NamedTuple):
    """The result. `hangs`: keys of the entries that were confirmed as hanging. `is_kept`: True if exactly one finding
    about a hang was ever confirmed, namely the first one about the injected transaction, and this finding is still
    confirmed. `lost`: ids of the findings of lost records and torn transactions. `migrations_s`: for each revision, the
    seconds that its last migration took, and how often `txnscope migrate` was started for this migration."""

    polled: Polled
    ends: Ends
    gaps: list[str]
    rejects: list[str]
    injected: tuple[str, int, int, int]
    hangs: list[tuple[str, int, int, int]]
    is_kept: bool
    lost: list[str]
    migrations_s: dict[str, tuple[float, int]]
    pages: int


class Stages:
    """The running parts of one upgrade: a job and two services on one store."""

    def __init__(self, plan: Plan, cluster: Cluster, folder: Path, url: str) -> None:
        self._plan, self._cluster, self._folder, self.url = plan, cluster, folder, url
        self._ports = free_ports(2)
        self._services: dict[int, Running] = {}
        self._job: Running | None = None
        self._jobs = 0
        self.store = Ingest(cluster.bootstrap, folder, name=CLUSTER, url=url)
        self.polling = Polling(self._ports, CLUSTER, IDS[0], plan.pause_s)
        self.migrations_s: dict[str, tuple[float, int]] = {}

    def begin(self, phase: str) -> None:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {phase}\n")
        self.polling.begin(phase)

    def migrate(self, revision: Revision) -> None:
        """Runs `txnscope migrate`, at most _TRIES times, because the store may be locked. Kubernetes repeats the
        chart's hook in the same way."""
        began = time.monotonic()
        for tries in range(1, _TRIES + 1):
            command = revision.command("migrate", "--store", self.url)
            ended = subprocess.run(
                command, cwd=self._folder, env=revision.environment, capture_output=True, text=True, timeout=LIMIT_S
            )
            sys.stderr.write(ended.stderr)
            if ended.returncode == 0:
                self.migrations_s[revision.name] = time.monotonic() - began, tries
                return
        raise AssertionError(f"{revision.name}: `txnscope migrate` fails: {ended.stderr}")

    def serve(self, revision: Revision) -> None:
        """Starts or replaces the two services, one after the other. Waits until each new service is ready."""
        for port in self._ports:
            if port in self._services:
                self._services[port].stop()
            log = self._folder / f"service-{port}.log"
            flags = ("--port", str(port), "--store", self.url, "--bootstrap-servers", self._cluster.bootstrap)
            self._services[port] = Running(revision, log, "serve", *flags)
            self._wait_until_serving(port)

    def _wait_until_serving(self, port: int) -> None:
        def is_ready() -> bool:
            self._services[port].check()
            return self.polling.is_ready(port)

        wait_for(is_ready, f"the service at port {port} to be ready; {self._services[port].log}")

    def ingest(self, revision: Revision) -> None:
        """Replaces the job, as the chart does: the next job starts, and stands by until the previous job has ended.
        Waits until the next job reads."""
        self._jobs += 1
        where = ("--bootstrap-servers", self._cluster.bootstrap, "--cluster", CLUSTER, "--store", self.url)
        checkpoint = ("--checkpoint", str(self._folder / f"checkpoint-{self._jobs}"))
        following = Running(revision, self._folder / f"job-{self._jobs}.log", "ingest", *where, *checkpoint)
        if self._job is not None:
            wait_for(lambda: _STANDS_BY in following.log.read_text(), f"the next job to stand by; {following.log}")
            self._job.stop()
        self._job = following
        began_ms = time.time() * 1000

        def is_reading() -> bool:
            self.check()
            status = self.store.log_status()
            return bool(status) and status[0].as_of_ms > began_ms

        wait_for(is_reading, f"the job to read; {self._job.log}")

    def check(self) -> None:
        """Raises AssertionError if a process has ended by itself."""
        for running in (self._job, *self._services.values()):
            if running is not None:
                running.check()

    def stay(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.check()
            time.sleep(min(1.0, max(until - time.monotonic(), 0.0)))

    def kill(self) -> None:
        for running in (self._job, *self._services.values()):
            if running is not None:
                running.stop()


def run(plan: Plan) -> Result:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="txnscope-upgrade-")))
        cluster = stack.enter_context(Cluster(plan.brokers, folder / "kafka", UNGUARDED | PROPERTIES))
        url = stack.enter_context(stack.enter_context(Postgres(is_durable=True)).database(is_empty=True))
        create_topics(cluster.bootstrap, NewTopic(_LOADED, 6, 3), NewTopic(_HANGS, 1, 3))
        stages = Stages(plan, cluster, folder, url)
        stack.callback(stages.kill)
        return _upgrade(plan, cluster, stages)


def _upgrade(plan: Plan, cluster: Cluster, stages: Stages) -> Result:
    stages.migrate(plan.old)
    stages.serve(plan.old)
    stages.ingest(plan.old)
    stages.store.is_running = stages.check  # type: ignore[method-assign]
    stages.store.wait_until_counting()
    with load(cluster.bootstrap, _LOADED, list(IDS), pause_s=plan.pause_s):
        stages.store.wait_for_more_commits(list(IDS))
        hang, finding = _hang(cluster, stages)
        with stages.polling.running():
            _stages(plan, cluster, stages)
    wait_until_equal(lambda: _behind(stages, cluster), {}, "the log partitions that are not read to their end")
    tool = next(iter(cluster.nodes.values()))
    kafka = {name: ends for name, ends in completed(tool, cluster.bootstrap).items() if name in IDS}
    wait_until_equal(lambda: _of(stages.store.counts()), kafka, "the counts")
    rows = [row for row in stages.store.rows(findings) if row.confirmed_at_ms is not None]
    return Result(
        polled=stages.polling.polled,
        ends=Ends(kafka, _of(stages.store.counts()), _history(stages.store)),
        gaps=stages.store.gaps(),
        rejects=stages.store.rejects(),
        injected=(hang.topic, hang.partition, hang.producer_id, hang.start_offset),
        hangs=[_entry(row) for row in rows if row.kind == Kind.HANGING],
        is_kept=[(row.id, row.status) for row in rows if row.kind == Kind.HANGING] == [(finding, Status.CONFIRMED)],
        lost=[row.id for row in rows if row.kind in UNTIL_ACKNOWLEDGED],
        migrations_s=stages.migrations_s,
        pages=stages.polling.pages,
    )


def _stages(plan: Plan, cluster: Cluster, stages: Stages) -> None:
    phases = _phases(plan, stages, Faults(cluster, 1, plan.brokers_after))
    for name, steps in phases:
        stages.begin(name)
        for step in steps:
            step()
        stages.stay(plan.seconds / len(phases))


def _phases(plan: Plan, stages: Stages, faults: Faults) -> list[tuple[str, list[Callable[[], object]]]]:
    """Returns the phases: each has a name, and the steps with which it begins."""
    migrate, serve, ingest = (partial(one, plan.new) for one in (stages.migrate, stages.serve, stages.ingest))
    rolled: list[tuple[str, list[Callable[[], object]]]] = [
        (f"brokers: {kind}" + (f" {number}" if kind == UPGRADED else ""), [partial(faults.do, kind), faults.settle])
        for number, kind in enumerate(ROLL, 1)
    ]
    return [
        ("old job, old services", []),
        ("the new version migrates", [migrate]),
        ("new services", [serve]),
        ("new job", [ingest]),
        *rolled,
        ("rollback: old job", [partial(stages.ingest, plan.old)]),
        ("rollback: old services", [partial(stages.serve, plan.old)]),
        ("upgraded again: new services and job", [migrate, serve, ingest]),
    ]


def _hang(cluster: Cluster, stages: Stages) -> tuple[Hang, str]:
    """Makes a transaction hang, and waits until its finding is confirmed. Returns the transaction and the id of the
    finding."""
    with Connection(cluster.bootstrap, threading.Event()) as connection:
        hang = late_write(old_producer(connection, "hangs"), _HANGS, 0)

    def confirmed() -> str | None:
        stages.check()
        rows = stages.store.findings(Kind.HANGING, topic=_HANGS)
        return next((row.id for row in rows if row.status == Status.CONFIRMED), None)

    return hang, wait_for(confirmed, "the hanging transaction to be confirmed")


def _entry(row: Any) -> tuple[str, int, int, int]:
    return row.topic, row.partition, row.producer_id, row.start_offset


def _of(counts: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    return {name: ends for name, ends in counts.items() if name in IDS}


def _behind(stages: Stages, cluster: Cluster) -> dict[int, tuple[int | None, int | None]]:
    stages.check()
    positions, ends = stages.store.positions(), log_ends(cluster.bootstrap)
    both = {p: (positions.get(p), ends.get(p)) for p in positions.keys() | ends.keys()}
    return {p: (position, end) for p, (position, end) in both.items() if position != end}


def _history(store: Ingest) -> dict[str, tuple[int, int]]:
    minutes = select(id_minutes.c.transactional_id, func.sum(id_minutes.c.commits)).group_by(
        id_minutes.c.transactional_id
    )
    ended = (
        select(transitions.c.transactional_id, func.count())
        .where(transitions.c.to_state == COMPLETE_ABORT)
        .group_by(transitions.c.transactional_id)
    )
    names = select(transactional_ids.c.transactional_id)
    with store.reader() as engine, engine.connect() as connection:
        commits = {key.decode(): int(number) for key, number in connection.execute(minutes)}
        aborts = {key.decode(): number for key, number in connection.execute(ended)}
        keys = [key.decode() for key in connection.scalars(names)]
    return {name: (commits.get(name, 0), aborts.get(name, 0)) for name in keys if name in IDS}
