"""Runs services on the store of a lab, and sends requests to end hanging transactions, as an operator does. Also
returns the reasons why markers are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from fastapi.testclient import TestClient

from deploy.demo.workload.clients import consumer
from service.app import create_app
from service.domain.findings.finding import Finding, Life, Observation, Subject
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.worlds.verdict import Decided
from service.kafka.settings import ClientSettings
from service.remediation.checks import Refused
from service.remediation.way_out import way_out
from service.store.queries import clusters, findings
from service.store.schema import audit
from tests.helpers.brokers import connect
from tests.helpers.findings import finding_facts
from tests.helpers.paths import ROOT
from tests.helpers.servers import serving_app
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_until, wait_until_equal
from tests.integration.hang_lab import CLUSTER, HangLab
from tests.lab.hangs import Hang

KEYS: Final = {"ann": "the-key-of-ann-000", "bob": "the-key-of-bob-000"}


class ResolveClients(NamedTuple):
    """Clients of services that can end a transaction. `rest` and `replica` send requests to two services. `cli` uses a
    third service, which listens at `url`. `key_file` has the key of the operator ann."""

    lab: HangLab
    bootstrap: str
    rest: TestClient
    replica: TestClient
    url: str
    key_file: Path

    def post(self, finding: str, body: Any = None, key: str = KEYS["ann"]) -> Any:
        path = f"/api/v1/clusters/{CLUSTER}/findings/{finding}/resolve"
        return self.rest.post(path, json=body or {}, headers={"Authorization": f"Bearer {key}"})

    def other(self) -> ResolveClients:
        return self._replace(rest=self.replica)

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs `txnscope resolve` with ann's key."""
        ours = {k: v for k, v in os.environ.items() if not k.startswith("TXNSCOPE_")}
        ours |= {"PYTHONPATH": str(ROOT), "TXNSCOPE_OPERATOR_KEY_FILE": str(self.key_file), "TXNSCOPE_URL": self.url}
        command = [sys.executable, "-m", "service.cli", "resolve", *arguments]
        return subprocess.run(command, env=ours, capture_output=True, text=True, timeout=LIMIT_S)

    def audited(self, hang: Hang) -> list[tuple[str, str]]:
        """Returns (operator, outcome) of each audit row about the transaction, in order."""
        rows = sorted(self.lab.app.rows(audit), key=lambda row: row.id)
        about = (hang.topic, hang.partition, hang.producer_id, hang.start_offset)
        return [
            (row.operator, row.outcome)
            for row in rows
            if (row.topic, row.partition, row.producer_id, row.start_offset) == about
        ]

    def finding(self, id_: str) -> Finding:
        with self.lab.app.reader() as engine, engine.connect() as connection:
            cluster = clusters.find_cluster(connection, CLUSTER)
            assert cluster is not None
            found = findings.find(connection, cluster.id, id_)
        assert found is not None
        return found

    def claimed(self, hang: Hang) -> Finding:
        """Returns a made-up finding about the transaction: confirmed, and with the decision of `hang`."""
        name = None if hang.transactional_id is None else hang.transactional_id.encode()
        subject = Subject(
            topic=hang.topic,
            partition=hang.partition,
            transactional_id=name,
            producer_id=hang.producer_id,
            producer_epoch=hang.producer_epoch,
            start_offset=hang.start_offset,
        )
        observation = Observation(
            Kind.HANGING, Severity.CRITICAL, subject, finding_facts(Kind.HANGING), (), decision=Decided(hang.decision)
        )
        return Finding("claimed", observation, Life(Status.CONFIRMED, 0, 0, 0, count=1))

    def refusal(self, finding: Finding) -> str:
        """Returns the reason why no marker may be written for the finding now. Raises AssertionError if a marker may be
        written."""
        with self.lab.app.reader() as engine, connect(self.bootstrap) as client:
            with engine.connect() as connection:
                cluster = clusters.find_cluster(connection, CLUSTER)
            assert cluster is not None
            try:
                way = way_out(finding, cluster.id, client, engine.connect, lambda: 0)
            except Refused as refused:
                return str(refused)
        raise AssertionError(f"no refusal: {way} would be written")

    def until_accepted(self, finding: str) -> None:
        def answer() -> tuple[int, str]:
            said = self.post(finding)
            return said.status_code, said.text

        wait_until(answer, lambda said: said[0] == 200, f"the service to accept the resolution of {finding}")


@contextmanager
def resolve_clients(lab: HangLab, bootstrap: str) -> Iterator[ResolveClients]:
    """Yields the services and clients for the lab. `bootstrap` has the addresses of all brokers."""
    kafka = ClientSettings.load(bootstrap, None)
    key_file = lab.app.directory / "ann.key"
    key_file.touch(0o600)
    key_file.write_text(f"{KEYS['ann']}\n")
    with ExitStack() as everything:
        rest, replica = (
            everything.enter_context(TestClient(create_app(lab.app.url, "1.2.3", kafka, KEYS))) for _ in range(2)
        )
        url = everything.enter_context(serving_app(create_app(lab.app.url, "1.2.3", kafka, KEYS)))
        yield ResolveClients(lab, bootstrap, rest, replica, url, key_file)


def committed_on(bootstrap: str, topic: str, partitions: int) -> list[bytes]:
    """Returns all committed records of the topic below the present high watermarks."""
    reader = consumer(bootstrap, f"all-of-{topic}")
    try:
        all_of_it = [TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)]
        left = {
            p: reader.get_watermark_offsets(TopicPartition(topic, p), timeout=ANSWER_S)[1] for p in range(partitions)
        }
        reader.assign(all_of_it)
        values: list[bytes] = []

        def unread() -> dict[int, int]:
            """Reads a record, if there is one. Returns the ends of the partitions that are not read to their end, keyed
            by partition."""
            message = reader.poll(0.1)
            if message is not None:
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
            at = {one.partition: one.offset for one in reader.position(all_of_it)}
            return {p: end for p, end in left.items() if end > 0 and at[p] < end}

        wait_until_equal(unread, {}, f"the ends of the partitions of {topic} that are not read to their end")
        return values
    finally:
        reader.close()
