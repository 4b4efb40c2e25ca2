"""Runs the Spark application as a process that tests start, watch and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Engine, select
from sqlalchemy.exc import OperationalError, ProgrammingError

from service.cli.parser import parse
from service.domain.reasons.coding import decode
from service.domain.reasons.reason import Reason
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.states import TOPIC
from service.kafka.client import KafkaClient
from service.kafka.cluster import topic_layout
from service.kafka.offsets import EARLIEST, LATEST, Offsets, list_offsets
from service.kafka.settings import ClientSettings
from service.settings import for_ingest, load
from service.store.engine import open_reader
from service.store.errors import StoreUnavailable
from service.store.schema import (
    clusters,
    data_gaps,
    findings,
    log_partitions,
    open_participants,
    rejects,
    source_status,
    transactional_ids,
)
from tests.helpers.hosts import Host
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S, wait_for, wait_until, wait_until_equal

NO_TABLES_YET: Final = (StoreUnavailable, OperationalError, ProgrammingError)
"""Errors when the store is read before the application has created its file or its tables."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The row of one transactional.id in the store, with its open partitions."""

    state: str
    producer_id: int
    producer_epoch: int
    commits: int
    aborts: int
    partitions: frozenset[tuple[str, int]]


class Ingest:
    """Runs `python -m spark_jobs`, and keeps its log in `directory`.

    - `more`: further flags of `txnscope ingest`.
    - `name`: the name of the cluster in the store.
    - `rules`: tables `[[rules]]`, as in a settings file.
    - `host`: a simulated host; None for this host.
    - `url`: the URL of the store; None for a SQLite file in `directory`.
    """

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        *more: str,
        name: str = "test",
        host: Host | None = None,
        rules: Sequence[Mapping[str, Any]] = (),
        url: str | None = None,
    ) -> None:
        self.host, self.rules = host, rules
        self.bootstrap, self.directory, self.more, self.name = bootstrap, directory, more, name
        self.url = url or f"sqlite:///{directory}/txnscope.db"
        self.log = directory / "ingest.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, module: str = "spark_jobs") -> Ingest:
        flags = vars(parse(["ingest", *self._flags, *self.more]))
        settings = load({name: flags[name] for name in flags["command"].settings} | {"rules": self.rules})
        self._run(module, environment=for_ingest(settings))
        return self

    @property
    def _flags(self) -> list[str]:
        where = ["--bootstrap-servers", self.bootstrap, "--store", self.url, "--cluster", self.name]
        return [*where, "--checkpoint", str(self.directory / "checkpoint")]

    def _run(self, module: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env=os.environ | (self.host.environment if self.host else {}) | (environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def kill(self) -> None:
        """Kills the driver, the JVM and the workers by SIGKILL."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)

    def stop(self, timeout_s: float = LIMIT_S) -> int:
        """Ends the application by SIGTERM, unless it has ended already, and returns its exit code. If the application
        does not end within `timeout_s`, kills it and raises AssertionError."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(
                    f"SIGTERM did not end the application within {timeout_s:g} s; its log ends:{self._tail}"
                ) from None
        return self.process.returncode

    @contextmanager
    def _showing_its_log(self) -> Iterator[None]:
        """If a wait fails, adds the end of the application's log to the error."""
        try:
            yield
        except AssertionError as e:
            e.add_note(f"the log of the application ends:{self._tail}")
            raise

    @property
    def _tail(self) -> str:
        return f"\n{self.log.read_text()[-3000:]}"

    @contextmanager
    def reader(self) -> Iterator[Engine]:
        engine = open_reader(self.url)
        try:
            yield engine
        finally:
            engine.dispose()

    def rows(self, table: Any) -> list[Any]:
        """Returns the rows of the application's cluster. The store may have rows of other clusters."""
        own = select(table).where(clusters.c.name == self.name)
        if table is not clusters:
            own = own.where(table.c.cluster_id == clusters.c.id)
        with self.reader() as engine, engine.connect() as connection:
            return list(connection.execute(own))

    def log_status(self) -> list[Any]:
        """Returns the status rows of the source for the transaction log: one row, or none before the first read of the
        log has succeeded or failed."""
        return [row for row in self.rows(source_status) if row.source == SourceName.TRANSACTION_LOG]

    def log_trouble(self) -> Reason | None:
        """Returns the stored reason why the transaction log cannot be read, or None if the store has no such reason."""
        return next((decode(row.error) for row in self.log_status() if row.error), None)

    def findings(self, kind: str, **subject: Any) -> list[Any]:
        """Returns the findings of the kind that have the values in `subject`, whatever their status."""
        rows = [row for row in self.rows(findings) if row.kind == kind]
        return [row for row in rows if all(getattr(row, name) == value for name, value in subject.items())]

    def positions(self) -> dict[int, int]:
        return {row.partition: row.next_offset for row in self.rows(log_partitions)}

    def wait_until_counting(self) -> None:
        """Waits until the first start is complete. From then on, records that are written are counted."""

        def counting() -> bool:
            self.is_running()
            return any(row.counted_since_ms for row in self.rows(clusters))

        with self._showing_its_log():
            wait_for(counting, f"the end of the first start; {self.log}", retry_on=NO_TABLES_YET)

    def is_running(self) -> None:
        """Raises AssertionError if the process has ended. The error contains the end of the application's log."""
        assert self.process.poll() is None, (
            f"the application ended with code {self.process.returncode}; its log ends:{self._tail}"
        )

    def wait_until_read(self) -> None:
        """Waits until the store has everything up to the current end of the transaction log."""

        def behind() -> dict[int, tuple[int | None, int | None]]:
            """Returns a mapping from log partition to (position, end). Leaves out the log partitions that the store has
            read to their end. An unknown number is None."""
            self.is_running()
            positions, ends = self.positions(), log_ends(self.bootstrap)
            both = {p: (positions.get(p), ends.get(p)) for p in positions.keys() | ends.keys()}
            return {p: (position, end) for p, (position, end) in both.items() if position != end}

        with self._showing_its_log():
            wait_until_equal(
                behind, {}, f"(position, end) of the log partitions that are not read to their end ({self.log})"
            )

    def wait_for_counts(self, expected: dict[str, tuple[int, int]]) -> None:
        """Waits until the counts equal `expected`, a mapping from id to (commits, aborts). A client's commit may return
        before the transaction is complete, and so before it is counted."""

        def counts() -> dict[str, tuple[int, int]]:
            self.is_running()
            return self.counts()

        with self._showing_its_log():
            wait_until_equal(counts, expected, f"the counts ({self.log})")

    def wait_for_more_commits(self, names: list[str]) -> None:
        """Waits until the store has counted a further commit of each of these ids."""
        before = self.counts()

        def still() -> list[str]:
            """Returns the ids without a further commit, including ids that the store does not have."""
            self.is_running()
            now = self.counts()
            return [name for name in names if now.get(name, (0, 0))[0] <= before.get(name, (0, 0))[0]]

        with self._showing_its_log():
            wait_until_equal(still, [], f"the ids without more commits ({self.log})")

    def counts(self) -> dict[str, tuple[int, int]]:
        return {name: (stored.commits, stored.aborts) for name, stored in self.ids().items()}

    def ids(self) -> dict[str, Stored]:
        participants: dict[bytes, set[tuple[str, int]]] = {}
        for row in self.rows(open_participants):
            participants.setdefault(row.transactional_id, set()).add((row.topic, row.partition))
        return {
            row.transactional_id.decode(): Stored(
                states.NAMES[row.state],
                row.producer_id,
                row.producer_epoch,
                row.commits,
                row.aborts_client + row.aborts_timeout + row.aborts_fenced + row.aborts_admin + row.aborts_unattributed,
                frozenset(participants.get(row.transactional_id, ())),
            )
            for row in self.rows(transactional_ids)
        }

    def state(self, name: str) -> str | None:
        stored = self.ids().get(name)
        return None if stored is None else stored.state

    def rejects(self) -> list[str]:
        return [row.reason for row in self.rows(rejects)]

    def gaps(self) -> list[str]:
        return [row.reason for row in self.rows(data_gaps)]


AnyIngest = TypeVar("AnyIngest", bound=Ingest)


def log_ends(bootstrap: str) -> dict[int, int]:
    return _offsets(bootstrap, LATEST)


def log_starts(bootstrap: str) -> dict[int, int]:
    return _offsets(bootstrap, EARLIEST)


def _offsets(bootstrap: str, which: int) -> dict[int, int]:
    """Returns an offset of each log partition. Waits while a partition has no leader, as in a starting cluster."""
    with KafkaClient(ClientSettings.load(bootstrap, None)) as client:

        def answer() -> Offsets:
            layout = topic_layout(client, TOPIC)
            assert layout is not None
            return list_offsets(client, layout, which)

        return wait_until(answer, lambda answered: not answered.errors, "an offset of each log partition").found


@contextmanager
def running(app: AnyIngest) -> Iterator[AnyIngest]:
    """Starts the application, and waits until the first start is complete. Then runs the block. At the end, if the
    application still runs, stops it and checks that its exit code is 0."""
    app.start()
    try:
        app.wait_until_counting()
        yield app
    finally:
        if app.process.poll() is None:
            assert app.stop() == 0


def ingesting(bootstrap: str, directory: Path, *more: str) -> AbstractContextManager[Ingest]:
    return running(Ingest(bootstrap, directory, *more))
