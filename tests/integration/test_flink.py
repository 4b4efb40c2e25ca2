"""Tests that an Apache Flink job gets no wrong finding. The job has exactly-once sinks of both naming strategies.

The job goes through an exception, kills, a recovery that commits the transactions of a checkpoint, a recovery that
comes too late, and a savepoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from deploy.demo.broker import Broker
from service.domain.application_rules import Assigned
from service.domain.applications import Application, Framework
from service.domain.findings.finding import Observation
from service.domain.findings.kinds import Kind, Severity
from service.domain.id_behaviour import INCREMENTING, POOLING
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode
from service.store.rows.findings import finding_of
from service.store.schema import clusters, findings, transactional_ids
from spark_jobs.judge.makers import Makers
from tests.clients.client import READY, Client
from tests.clients.libraries import Flink, NotHere
from tests.helpers.brokers import FULL_MATRIX, VERSIONS, free_port
from tests.helpers.brokers import transactional_ids as listed_ids
from tests.helpers.waiting import wait_for, wait_until, wait_until_equal
from tests.integration import kafka_tools
from tests.integration.application import Ingest, ingesting
from tests.integration.causes_lab import aborts_of
from tests.integration.kafka_tools import Printed
from tests.integration.named_applications import NAMED, Named, compare, wait_until_named
from tests.integration.producers import create_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns("file")]

TOPIC: Final = "readings"
LONG_MS: Final = 600_000
AWAY_MS: Final = 10_000
"""Transaction timeout (ms) that is short enough to end while the job is down. On a machine at half speed, a checkpoint
still takes less time than this."""

ALLOWED: Final = frozenset({Kind.TIMED_OUT, Kind.CORRELATED_TIMEOUTS, Kind.LONG_RUNNING})
"""The kinds of findings that can occur, besides CHURN. The recovery that comes too late leads to timeouts. On a slow
machine, a transaction may be open for so long that it is reported."""

STRATEGIES: Final = {"flink-incrementing": INCREMENTING, "flink-pooling": POOLING}
TRUTH: Final = {f"{prefix}-": Assigned(prefix, Framework.FLINK) for prefix in STRATEGIES}
"""A mapping from prefix of ids to their true application."""


class Seen(NamedTuple):
    """The results after the whole run.

    - `makers`: the recognised applications of the ids whose transactions were open after a `halt` of the job.
    - `named_early`: the result of `compare` after each `halt`.
    - `named`: the result of `compare` at the end.
    """

    findings: list[Any]
    rows: dict[str, Any]
    history: dict[str, list[Printed]]
    makers: dict[str, Application]
    named_early: list[Named]
    named: Named

    def reported(self) -> list[tuple[str, str, str, str]]:
        return [
            (observation.kind, observation.severity, observation.title, observation.advice)
            for observation in self.observations
        ]

    @property
    def observations(self) -> list[Observation]:
        return [finding_of(row).observation for row in self.findings]


class Job:
    """A Flink job on a broker, and the txnscope application that watches the broker."""

    def __init__(self, broker: Broker, app: Ingest, directory: Path) -> None:
        self.broker, self.app = broker, app
        self.makers: dict[str, Application] = {}
        self.named_early: list[Named] = []
        self._flink = Flink(broker.bootstrap, directory / "flink")
        self._flink.compile()
        self._log = directory / "flink.log"

    def live(self) -> None:
        """Runs the job from its first start to its last savepoint."""
        with self._started(LONG_MS) as job:
            job.do("checkpoint", "fail", "checkpoint")
            job.kill()
        with self._started(LONG_MS) as job:
            job.do("checkpoint")
            job.do_last("halt")
        self._note_makers()
        with self._started(AWAY_MS) as job:
            job.do("checkpoint")
            job.do_last("halt")
        self._note_makers()
        wait_until_equal(self._open, [], "the open transactions of a job that is down")
        with self._started(LONG_MS) as job:
            job.do("checkpoint", "savepoint")
            job.stop()
        with self._started(LONG_MS) as job:
            job.do("checkpoint", "savepoint")
            job.stop()
        wait_until_equal(self._open, [], "the open transactions of a job that was stopped")
        self.app.wait_until_read()

    def _started(self, timeout_ms: int) -> _Running:
        return _Running(self._flink.command(TOPIC, timeout_ms), self._log)

    def _open(self) -> list[str]:
        return [name for name, state in listed_ids(self.broker.bootstrap).items() if state == "Ongoing"]

    def _note_makers(self) -> None:
        self.app.wait_until_read()
        (cluster,) = self.app.rows(clusters)
        with self.app.reader() as engine, engine.connect() as connection:
            open_ones = [_Named(row) for row in self.app.rows(transactional_ids) if row.state == states.ONGOING]
            found = Makers(cluster.id).of(connection, open_ones, 0)
        self.makers |= {key.decode(): maker for key, maker in found.items()}
        self.named_early.append(compare(self.app.rows(transactional_ids), TRUTH))


class _Running(Client):
    def __enter__(self) -> _Running:
        super().__enter__()
        self.wait_for(READY)
        return self


class _Named:
    def __init__(self, row: Any) -> None:
        self.transactional_id, self.name, self.timeout_ms = row.transactional_id, row.display, row.timeout_ms


@pytest.fixture(scope="module", params=VERSIONS if FULL_MATRIX else VERSIONS[:1])
def seen(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, brokers: Callable[[str], Broker]
) -> Iterator[Seen]:
    directory = tmp_path_factory.mktemp("flink")
    with (
        Broker(request.param, free_port(), directory / "kafka") as broker,
        ingesting(broker.bootstrap, directory) as app,
    ):
        create_topic(broker.bootstrap, TOPIC, 2)
        try:
            job = Job(broker, app, directory)
        except NotHere as why:
            pytest.skip(str(why))
        job.live()
        wait_for(
            lambda: [1 for row in app.rows(findings) if row.kind in _LOSSES], f"the finding of the loss; {app.log}"
        )
        named = wait_until_named(app, TRUTH)
        # the judge looks again, a minute later, for the maker of an id that had too few siblings at first
        wait_until(
            lambda: [finding_of(row).observation.advice for row in app.rows(findings) if row.kind in _LOSSES],
            lambda advice: not any("trace of an outage" in text for text in advice),
            f"advice about the losses that does not mention traces of an outage; {app.log}",
        )
        rows = {row.transactional_id.decode(): row for row in app.rows(transactional_ids)}
        tool = broker if request.param == VERSIONS[0] else brokers(VERSIONS[0])
        history = kafka_tools.history(tool, broker.bootstrap)
        yield Seen(app.rows(findings), rows, history, job.makers, job.named_early, named)


_LOSSES: Final = (Kind.TIMED_OUT, Kind.CORRELATED_TIMEOUTS)


def test_only_the_staged_loss_and_slowness_are_reported(seen: Seen) -> None:
    """On a slow machine, the job runs for many minutes, and may get one more finding: the information that Flink
    numbers its ids by checkpoint."""
    numbered = [observation for observation in seen.observations if observation.kind is Kind.CHURN]
    assert {(observation.severity, observation.subject.prefix) for observation in numbered} <= {
        (Severity.INFO, "flink-incrementing-")
    }, numbered
    assert {finding.kind for finding in seen.findings} <= ALLOWED | {Kind.CHURN}, seen.reported()
    assert not any("Give each instance" in observation.advice for observation in seen.observations), seen.reported()


def test_the_advice_about_the_loss_names_the_log_line_of_flink(seen: Seen) -> None:
    losses = [observation for observation in seen.observations if observation.kind in _LOSSES]
    assert all('"Unable to commit transaction"' in observation.advice for observation in losses), seen.reported()
    assert not any("trace of an outage" in observation.advice for observation in losses), seen.reported()


def test_ids_that_a_job_left_open_are_recognised_as_ids_of_its_sinks(seen: Seen) -> None:
    assert {name.rsplit("-", 2)[0] for name in seen.makers} == STRATEGIES.keys()
    wrong = {
        name: maker
        for name, maker in seen.makers.items()
        if maker[:3] != (Framework.FLINK, *name.rsplit("-", 2)[:2])
        or maker.strategy != STRATEGIES[name.rsplit("-", 2)[0]]
    }
    assert wrong == {}


def test_each_id_of_a_sink_has_the_prefix_of_the_sink_as_its_application(
    seen: Seen, record_property: Callable[[str, object], None]
) -> None:
    for strategy in STRATEGIES:
        ids = {name for name in seen.rows if name.startswith(f"{strategy}-")}
        record_property(f"{NAMED} of {strategy}", {"ids": len(ids), "rightly": len(ids & seen.named.rightly)})
    assert seen.named.rightly == seen.rows.keys(), seen.named


def test_no_id_of_a_sink_had_another_application_while_the_job_was_away(
    seen: Seen, record_property: Callable[[str, object], None]
) -> None:
    record_property(NAMED, [named.figures for named in seen.named_early])
    assert [named.wrongly for named in seen.named_early] == [{}, {}]


def test_a_recovery_commits_the_transactions_of_the_checkpoint(seen: Seen) -> None:
    """The killed process left transactions open. The recovery commits at least one of them, by the old protocol and
    under the transactional.id of the killed process."""
    recovered = [name for name in seen.makers if seen.rows[name].commits]
    assert recovered != []


def test_counts_and_causes_are_those_of_the_log(seen: Seen) -> None:
    counted = {name: (row.commits, aborts_of(row)) for name, row in seen.rows.items() if name in seen.history}
    ends = {name: (commits, sum(aborts.values())) for name, (commits, aborts) in counted.items()}
    assert ends == kafka_tools.ends_of(seen.history), "the counted (commits, aborts) differ from those in the log"
    timeouts = {name: sum(record.ran_out for record in records) for name, records in seen.history.items()}
    assert {name: aborts.get(CauseCode.TIMEOUT, 0) for name, (_, aborts) in counted.items()} == timeouts
    assert sum(timeouts.values()) > 0
