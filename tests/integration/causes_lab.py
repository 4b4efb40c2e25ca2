"""Runs the whole application on a broker, and returns the causes that the store has for the records of an id."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from deploy.demo.broker import Broker
from deploy.demo.workload.old_producer import OldProducer
from deploy.demo.workload.raw_producer import Connection, RawProducer, Refused
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode
from service.store.schema import transactional_ids, transitions
from tests.helpers.waiting import wait_until_equal
from tests.integration.application import Ingest, ingesting
from tests.integration.producers import begin
from tests.matrix.recorder import CAUSE, tell

INIT = "Empty initialized certain"
CLIENT = "PrepareAbort client_abort likely"
TV2_CLIENT = CLIENT  # the log has other records than with an old client, but the cause is equally certain
NO_WITNESS = "PrepareAbort client_abort ambiguous"
TIMEOUT = "PrepareAbort timeout likely"
FENCED = "PrepareAbort fenced likely"
TV2_FENCED = "PrepareAbort fenced ambiguous"
NOBODY_LET_IN = TV2_FENCED
ADMIN = "PrepareAbort admin likely"
EMPTY_ABORT = "PrepareAbort empty_abort certain"
EXPIRED = "tombstone expired certain"

_COUNTED = {
    "aborts_client": CauseCode.CLIENT_ABORT,
    "aborts_timeout": CauseCode.TIMEOUT,
    "aborts_fenced": CauseCode.FENCED,
    "aborts_admin": CauseCode.ADMIN,
    "aborts_unattributed": CauseCode.UNATTRIBUTED,
}


class IdHistory(NamedTuple):
    """The history of an id: the number of commits; the rows in log order, each as the text `State cause confidence`;
    and the numbers of aborts, keyed by cause."""

    commits: int
    rows: list[str]
    aborts: dict[str, int]


def id_history(commits: int, *rows: str) -> IdHistory:
    """Returns the history with these rows. Each row of an abort counts as one abort with the cause in the row, unless
    the transaction was empty."""
    aborts = Counter(row.split()[1] for row in rows if row.startswith("PrepareAbort"))
    del aborts[CauseCode.EMPTY_ABORT]
    return IdHistory(commits, list(rows), dict(aborts))


@dataclass
class Lab:
    """A broker, and txnscope's application (`app`), which observes the broker. `connection`: for producers that send
    their requests one by one."""

    broker: Broker
    app: Ingest
    connection: Connection
    _open: list[Producer] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def raw(self, name: str, timeout_ms: int = 60_000) -> RawProducer:
        """Returns an initialized producer that speaks TV2."""
        producer = RawProducer(self.connection, name)
        producer.init(timeout_ms)
        return producer

    def old(self, name: str, topic: str, partition: int = 0) -> OldProducer:
        """Returns a producer with an open transaction. The producer speaks the old protocol, and sends its requests one
        by one."""
        producer = OldProducer(self.connection, name)
        producer.init()
        write(producer, topic, partition)
        return producer

    def begin(self, name: str, topic: str, timeout_ms: int = 60_000, partitions: Iterable[int] = (0,)) -> Producer:
        """Returns a producer that speaks the old protocol and has an open transaction, whose records are all
        acknowledged. The producer does nothing more by itself: the transaction stays open until the test or the
        coordinator ends it."""
        self._open.append(begin(self.bootstrap, name, topic, timeout_ms, partitions))
        return self._open[-1]

    def expect(self, expected: dict[str, IdHistory]) -> None:
        """Waits until the store has exactly the `expected` histories, which are keyed by id. Then records their causes
        (`tell`)."""
        wait_until_equal(lambda: self.id_history(expected), expected, f"the histories ({self.app.log})")
        for row in (row for history in expected.values() for row in history.rows):
            tell(CAUSE, row.partition(" ")[2])

    def id_history(self, names: Collection[str]) -> dict[str, IdHistory]:
        ids = {row.transactional_id.decode(): row for row in self.app.rows(transactional_ids)}
        return {name: IdHistory(r.commits, self._rows(name), aborts_of(r)) for name, r in ids.items() if name in names}

    def marker_ms(self, name: str) -> int | None:
        """Returns how long (ms) the markers took, from the newest row of the id's history that has this time. Returns
        None if no row has it."""
        rows = [r for r in self.transitions(name) if r.marker_ms is not None]
        return rows[-1].marker_ms if rows else None

    def _rows(self, name: str) -> list[str]:
        """Returns the rows of the history, with their notes about odd records. Leaves out rows of commits and rows
        without a cause, unless they have a note. Without a note, a commit has a row only if its markers were slow,
        which depends on the speed of the machine."""
        return [
            " ".join(filter(None, (_WORDS[r.to_state], r.cause, r.confidence, r.note)))
            for r in self.transitions(name)
            if r.cause not in (None, CauseCode.COMMIT) or r.note is not None
        ]

    def transitions(self, name: str) -> list[Any]:
        """Returns the rows of the id's history, in the order of the log."""
        rows = [r for r in self.app.rows(transitions) if r.transactional_id == name.encode()]
        return sorted(rows, key=lambda r: (r.generation, r.offset))


def write(producer: OldProducer, topic: str, partition: int) -> None:
    """Begins a transaction, or continues the open one, and writes a record."""
    producer.add(topic, partition)
    producer.produce(topic, partition, [b"x"])


PRODUCER_FENCED, INVALID_TXN_STATE = 90, 48


def ended_by_a_late_copy(producer: OldProducer, topic: str, *, commit: bool) -> None:
    """Sends the EndTxn of the open transaction twice. The copy arrives when the next transaction is open, and ends this
    next transaction (KAFKA-17754). The client then sends its own EndTxn for it, with the opposite outcome, and is
    refused. A third transaction commits."""
    producer.end(commit=commit)
    write(producer, topic, 1)
    producer.end(commit=commit)  # the same request, byte for byte
    with pytest.raises(Refused) as refused:
        producer.end(commit=not commit, wait=False)
    assert refused.value.code == INVALID_TXN_STATE
    write(producer, topic, 2)
    producer.end(commit=True)


_WORDS = {**states.NAMES, states.EXPIRED: "tombstone"}


def aborts_of(row: Any) -> dict[str, int]:
    """Returns the numbers of aborts in the row of an id, keyed by cause. Causes without aborts are left out."""
    counted = {word: int(getattr(row, column)) for column, word in _COUNTED.items()}
    return {word: count for word, count in counted.items() if count}


@contextmanager
def lab(broker: Broker, directory: Path) -> Iterator[Lab]:
    with ingesting(broker.bootstrap, directory) as app, Connection(broker.bootstrap, threading.Event()) as connection:
        yield Lab(broker, app, connection)


@contextmanager
def labs(brokers: Callable[[str], Broker], directory: Path) -> Iterator[Callable[[str], Lab]]:
    """Yields a function that returns the lab of a Kafka version. The first call for a version starts its lab."""
    with ExitStack() as running:

        @cache
        def of(version: str) -> Lab:
            (directory / version).mkdir()
            return running.enter_context(lab(brokers(version), directory / version))

        yield of
