"""Runs a broker on which transactions may hang, and the whole application. Waits for the findings about these
transactions, and checks them."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from fastapi.testclient import TestClient

from deploy.demo.broker import Broker
from deploy.demo.workload.raw_producer import Connection
from service.domain.findings.hanging import HangingFacts
from service.domain.findings.kinds import Kind, Resolution, Severity, Status
from service.domain.worlds.verdict import Decided
from service.store.rows.findings import finding_of
from service.store.schema import partition_watch
from tests.helpers.brokers import free_port
from tests.helpers.stores import client_of
from tests.helpers.waiting import wait_for, wait_until, wait_until_equal
from tests.integration.application import NO_TABLES_YET, Ingest, running
from tests.integration.producers import create_topic, delete_topics
from tests.lab.asking import ends
from tests.lab.hangs import UNGUARDED, Hang, old_producer
from tests.matrix.recorder import tell

CLUSTER: Final = "test"
TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"
LONG: Final = "long-"
"""Prefix of ids. By a rule of the lab, their transactions are reported as long-running after a second."""

EXPIRING: Final = UNGUARDED | {
    "transactional.id.expiration.ms": "45000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}
"""Settings with which ids expire during a test, but not while the test still needs them."""

ALLOWED_DECISIONS = {"commit": {"commit"}, "abort": {"abort"}, "none": {"none", "abort"}}
"""A mapping from the true decision to the decisions that a finding may have. For records that belong to no transaction,
`abort` is also allowed: proofs need not exclude an aborted transaction, and the marker is the same."""


def command_of(row: Any) -> str | None:
    """Returns the command that a finding in the store advises, or None if it advises no command."""
    return finding_of(row).command


def may_write_unlisted(row: Any) -> bool:
    facts = finding_of(row).observation.facts
    assert isinstance(facts, HangingFacts)
    return facts.may_write_unlisted


class HangLab(NamedTuple):
    """A broker, the application, and a client of the service. Producers that send single requests use `connection`."""

    broker: Broker
    app: Ingest
    connection: Connection
    rest: TestClient

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def create_topic(self, name: str, partitions: int = 1) -> None:
        create_topic(self.bootstrap, name, partitions)

    def delete_topic(self, name: str) -> None:
        delete_topics(self.bootstrap, name)

    def tool(self, *arguments: str) -> None:
        """Runs `kafka-transactions.sh` of the broker's version."""
        self.broker.tool(TOOL, *arguments)

    def run_command(self, command: str | None) -> None:
        program, *arguments = shlex.split(command or "")
        assert Path(program).name == "kafka-transactions.sh", command
        self.tool(*arguments)

    def get(self, path: str) -> Any:
        answer = self.rest.get(f"/api/v1/clusters/{CLUSTER}{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def partition(self, topic: str, partition: int = 0) -> Any:
        answer = self.rest.get(self._place(topic, partition))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def is_unjudged(self, topic: str, partition: int) -> bool:
        """Returns whether the partition is watched, but cannot be judged."""
        answer = self.rest.get(self._place(topic, partition))
        return answer.status_code == 200 and not answer.json()["judged"]

    def groups(self, name: str) -> list[Any]:
        return [item for item in self.get("/groups?limit=200")["items"] if item["group"] == name]

    def wait_until_confirmed(self, hang: Hang) -> Any:
        """Waits until the finding about the transaction is confirmed with a decision, and checks the fields of the
        finding. The decision may come later than the confirmation: while the decision is unknown, the judge reads the
        transaction log further back."""
        where = self._where(hang)
        row = self.wait_for_finding(
            Kind.HANGING, lambda one: one.status == Status.CONFIRMED and one.decision != Decided.UNKNOWN, **where
        )
        name = None if hang.transactional_id is None else hang.transactional_id.encode()
        assert (row.producer_id, row.producer_epoch, row.transactional_id) == (
            hang.producer_id,
            hang.producer_epoch,
            name,
        )
        assert row.severity == Severity.CRITICAL
        assert row.decision in ALLOWED_DECISIONS[hang.decision], row.evidence
        assert finding_of(row).observation.advice
        assert row.confirmed_at_ms >= row.opened_at_ms
        is_withheld = hang.decision == "commit" or may_write_unlisted(row)
        assert (command_of(row) is None) == is_withheld
        if (command := command_of(row)) is not None:
            place = f"abort --topic {hang.topic} --partition {hang.partition} --start-offset {hang.start_offset}"
            assert place in command
        return row

    def wait_until_judged_again(self) -> None:
        """Waits until the restarted application has derived every decision again: until each decision has a proof that
        was made after the start of this wait."""
        started_ms = int(time.time() * 1000)

        def old() -> list[str]:
            rows = self.app.findings(Kind.HANGING, status=Status.CONFIRMED)
            return [row.topic for row in rows if max(at_ms for _, at_ms, *_ in row.proofs) < started_ms]

        wait_until_equal(
            old, [], f"the topics of hanging transactions whose proofs are older than the restart; {self.app.log}"
        )

    def wait_until_resolved(self, hang: Hang, resolution: str) -> Any:
        """Waits until the finding about the transaction is resolved. Checks that the resolution is `resolution`, and
        that the finding was confirmed before. Returns the finding."""
        where = self._where(hang)
        row = self.wait_for_finding(Kind.HANGING, lambda one: one.status == Status.RESOLVED, **where)
        assert row.resolution == resolution, f"the finding was resolved as {row.resolution}; {self.app.log}"
        assert row.confirmed_at_ms is not None
        return row

    def end_by_command(self, hang: Hang) -> None:
        """Ends the transaction as its finding advises: with the command. If there is no command, because the producer
        may still write, the producer initialises again first."""
        row = self.wait_until_confirmed(hang)
        if may_write_unlisted(row):
            old_producer(self.connection, hang.transactional_id or "")
            row = self.wait_for_finding(Kind.HANGING, lambda one: command_of(one) is not None, **self._where(hang))
        self.run_command(command_of(row))
        self.wait_until_resolved(hang, Resolution.FOREIGN_ABORT)

    def wait_until_free(self, topic: str, partition: int = 0) -> None:
        """Checks that Kafka reports no open transaction on the partition. Then waits until the application reports the
        same, and no blocked group."""
        now = ends(self.connection, topic, partition)
        assert now.last_stable_offset == now.high_watermark

        def reported() -> tuple[int, int, Any, list[str]]:
            said = self.partition(topic, partition)
            return said["last_stable_offset"], said["high_watermark"], said["blocker"], said["blocked_groups"]

        what = f"(LSO, high watermark, blocker, groups) of {topic}-{partition}; {self.app.log}:"
        wait_until_equal(reported, (now.high_watermark, now.high_watermark, None, []), what)

    def wait_for_finding(self, kind: str, is_so: Callable[[Any], bool], **subject: Any) -> Any:
        """Waits until the only finding of the kind about this subject fulfils `is_so`. Returns the finding. Records the
        finding (`tell`), unless it is resolved."""

        def row() -> Any:
            rows = self.app.findings(kind, **subject)
            assert len(rows) <= 1, rows
            return rows[0] if rows else None

        what = f"the expected {kind} about {subject}; {self.app.log}"
        found = wait_until(row, lambda found: found is not None and is_so(found), what)
        if found.status != Status.RESOLVED:
            tell(kind, finding_of(found).summary, found.evidence[-1][2] if kind == Kind.HANGING else "")
        return found

    def wait_for_blocker(self, topic: str, partition: int, word: str) -> Any:
        """Waits until the blocking transaction of the partition is shown as `word`, for example "open". Returns the
        blocking transaction."""

        def blocker() -> Any:
            answer = self.rest.get(self._place(topic, partition))
            return answer.json()["blocker"] if answer.status_code == 200 else None  # the partition was not sampled yet

        what = f"the blocker of {topic}-{partition} to be shown as {word}; {self.app.log}"
        return wait_until(blocker, lambda reported: reported is not None and reported["relation"] == word, what)

    def assert_nothing_hung(self, topic: str) -> None:
        """Asserts that no finding about a hanging transaction on the topic was ever confirmed."""
        reported = [row for row in self.app.findings(Kind.HANGING, topic=topic) if row.confirmed_at_ms is not None]
        assert reported == []

    @staticmethod
    def _place(topic: str, partition: int) -> str:
        return f"/api/v1/clusters/{CLUSTER}/partitions/{quote(topic, safe='')}/{partition}"

    @staticmethod
    def _where(hang: Hang) -> dict[str, Any]:
        return {
            "topic": hang.topic,
            "partition": hang.partition,
            "start_offset": hang.start_offset,
            "producer_id": hang.producer_id,
        }


RULES = ({"prefix": LONG, "long_after": "1s", "owner": "reports"},)


@contextmanager
def hang_lab(broker: Broker, directory: Path, bootstrap: str | None = None) -> Iterator[HangLab]:
    """Runs the application in `directory`, on a running broker. `bootstrap`: the addresses of all brokers, if the
    cluster has several."""
    _create_the_log(broker)
    app = Ingest(bootstrap or broker.bootstrap, directory, name=CLUSTER, rules=RULES)
    with running(app), Connection(broker.bootstrap, threading.Event()) as connection, client_of(app.url) as rest:
        app.wait_until_read()
        yield HangLab(broker, app, connection, rest)


@contextmanager
def watching(app: Ingest, broker: Broker, connection: Connection) -> Iterator[HangLab]:
    """Starts the application on a broker whose transaction log may be missing or forbidden. Waits until the application
    has sampled the partitions and tried to read the transaction log."""

    def has_looked() -> bool:
        app.is_running()
        return bool(app.rows(partition_watch)) and bool(app.log_status())

    app.start()
    try:
        wait_for(
            has_looked, f"a sample of the partitions and an attempt to read the log; {app.log}", retry_on=NO_TABLES_YET
        )
        with client_of(app.url) as rest:
            yield HangLab(broker, app, connection, rest)
    finally:
        assert app.stop() == 0


@contextmanager
def hang_labs(directory: Path, properties: Mapping[str, str] = UNGUARDED) -> Iterator[Callable[[str], HangLab]]:
    """Yields a function that returns the lab of a Kafka version. The first call for a version starts the broker and the
    application."""
    with ExitStack() as everything:

        @cache
        def of(version: str) -> HangLab:
            here = directory / version
            here.mkdir()
            broker = everything.enter_context(Broker(version, free_port(), here / "kafka", properties))
            return everything.enter_context(hang_lab(broker, here))

        yield of


def _create_the_log(broker: Broker) -> None:
    """Makes the broker create the transaction log, by initializing the first transactional.id."""
    with Connection(broker.bootstrap, threading.Event()) as connection:
        old_producer(connection, "before")
