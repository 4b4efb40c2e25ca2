"""Tests that applications with the common client libraries get no wrong finding. Findings, counts and pages must agree
with the lines of the coordinator in the broker's log, and with Kafka's own tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from deploy.demo.broker import Broker
from service.domain.application_rules import UNASSIGNED, Assigned
from service.domain.applications import Framework
from service.domain.findings.kinds import Kind
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.timeline import Folded, Row, TimelineCursor
from service.store.queries.history import read_timeline
from service.store.rows.findings import finding_of
from service.store.schema import clusters, findings, transactional_ids
from tests.clients.scenario import (
    AIOKAFKA,
    BILLING,
    CHURN,
    KAFKAJS,
    PROPERTIES,
    SHIPPING,
    SHOP,
    STREAMS,
    Scenario,
)
from tests.harm.watched import Watch
from tests.helpers.brokers import free_port
from tests.integration import kafka_tools
from tests.integration.application import running
from tests.integration.causes_lab import aborts_of
from tests.integration.kafka_tools import Printed
from tests.integration.named_applications import NAMED, Named, wait_until_named

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns("file")]

COMMANDED = (KAFKAJS, AIOKAFKA)

RULE = """
[[applications]]
prefix = "report-"
name = "Reports"
"""
TRUTH = {
    STREAMS: {f"{name}-": Assigned(name, Framework.KAFKA_STREAMS) for name in (SHOP, SHIPPING)},
    KAFKAJS: {KAFKAJS: UNASSIGNED},
    AIOKAFKA: {AIOKAFKA: UNASSIGNED},
    "librdkafka": {BILLING: UNASSIGNED},
    "librdkafka, by a rule": {CHURN: Assigned("Reports")},
}
"""The true applications of ids, keyed by client and by prefix of the ids."""


class Ends(NamedTuple):
    """The number of commits of one id, and its numbers of aborts, keyed by cause."""

    commits: int
    aborts: dict[str, int]


class Seen(NamedTuple):
    """The results after the whole scenario. `counted`, `timeline` and `history` are keyed by id, `named` by client.
    `history` has the records as Kafka prints them. `timeline` has the newest items first."""

    scenario: Scenario
    findings: list[Any]
    counted: dict[str, Ends]
    timeline: dict[str, tuple[Row | Folded, ...]]
    history: dict[str, list[Printed]]
    named: dict[str, Named]

    def ran_out(self) -> Counter[str]:
        """Returns a mapping from id to the number of its transactions that were aborted after their timeout. The
        coordinator aborts most of them. A restarting application aborts a few in the seconds before the coordinator's
        scan. The log does not show who aborted a transaction."""
        return Counter(name for name, records in self.history.items() for record in records if record.ran_out)

    def reported(self) -> list[tuple[str, str, int, str]]:
        return [
            (finding.kind, _about(finding), finding.count, finding_of(finding).summary) for finding in self.findings
        ]

    def needs(self, *names: str) -> None:
        """Skips the test if the library of one of the clients `names` is not available."""
        for name in names:
            if name in self.scenario.absent:
                pytest.skip(self.scenario.absent[name])


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    directory = tmp_path_factory.mktemp("clients")
    config = directory / "txnscope.toml"
    config.write_text(RULE)
    with (
        Broker("4.3.1", free_port(), directory / "kafka", PROPERTIES) as broker,
        running(Watch(broker.bootstrap, directory, "--config", str(config))) as app,
    ):
        scenario = Scenario(broker, app, directory)
        scenario.run()
        return _look(scenario)


def _look(scenario: Scenario) -> Seen:
    app = scenario.app
    (cluster,) = app.rows(clusters)
    ids = {row.transactional_id.decode(): row for row in app.rows(transactional_ids)}
    with app.reader() as engine, engine.connect() as connection:
        timeline = {
            name: read_timeline(connection, cluster.id, name.encode(), TimelineCursor(), 10_000).items for name in ids
        }
    history = kafka_tools.history(scenario.broker, scenario.broker.bootstrap)
    counted = {name: Ends(row.commits, aborts_of(row)) for name, row in ids.items()}
    named = {client: wait_until_named(app, truth) for client, truth in TRUTH.items()}
    return Seen(scenario, app.rows(findings), counted, timeline, history, named)


def _about(finding: Any) -> str:
    return str(finding.prefix or (finding.transactional_id or b"").decode())


def test_timeouts_and_churn_are_the_only_findings(seen: Seen) -> None:
    """Only the application with random ids has churn: a first rolling start is no churn. No transaction hangs. A
    restart is no fencing conflict."""
    assert {finding.kind for finding in seen.findings} <= {Kind.TIMED_OUT, Kind.CORRELATED_TIMEOUTS, Kind.CHURN}, (
        seen.reported()
    )
    assert [_about(finding) for finding in seen.findings if finding.kind == Kind.CHURN] == [CHURN], seen.reported()
    timed_out = seen.ran_out()
    wrong = [
        _about(finding)
        for finding in seen.findings
        if finding.kind == Kind.TIMED_OUT and not any(name.startswith(_about(finding)) for name in timed_out)
    ]
    assert wrong == [], f"{seen.reported()}; the log has timeouts of {timed_out}"


@pytest.mark.parametrize("client", TRUTH)
def test_each_id_has_the_application_that_its_client_is_configured_with(
    seen: Seen, client: str, record_property: Callable[[str, object], None]
) -> None:
    """If no framework made the name of an id, the id has no application, unless a rule gives it one."""
    seen.needs(client)
    named = seen.named[client]
    record_property(NAMED, named.figures)
    right = named.not_named if UNASSIGNED in TRUTH[client].values() else named.rightly
    assert len(right) == named.figures["ids"] > 0, named


@pytest.mark.parametrize("name", COMMANDED)
def test_ends_of_a_controlled_application_are_counted_correctly(seen: Seen, name: str) -> None:
    seen.needs(name)
    did = Ends(5, {CauseCode.CLIENT_ABORT: 3, CauseCode.FENCED: 1, CauseCode.TIMEOUT: 1})
    assert seen.counted[name] == did, f"{seen.timeline[name]}"


@pytest.mark.parametrize("name", COMMANDED)
def test_the_page_first_explains_a_restart_after_a_kill_as_a_restart(seen: Seen, name: str) -> None:
    seen.needs(name)
    said = " ".join(seen.scenario.restarted[name].split())
    restart, two = said.find("started again after a crash"), said.find("two instances")
    assert 0 < restart < two, said


def test_commits_and_aborts_are_those_of_the_log(seen: Seen) -> None:
    counted = {name: (ends.commits, sum(ends.aborts.values())) for name, ends in seen.counted.items()}
    of_log = {
        name: (
            sum(record.state == states.COMPLETE_COMMIT for record in records),
            sum(record.is_abort for record in records),
        )
        for name, records in seen.history.items()
    }
    differ = {name: (counted.get(name), of_log[name]) for name in of_log if counted.get(name) != of_log[name]}
    assert differ == {}, f"the counts of some of {len(of_log)} ids differ; by id: (counted, in the log)"
    assert counted.keys() == of_log.keys()


def test_timeouts_equal_the_log_and_cover_the_coordinators_lines(seen: Seen) -> None:
    counted = {
        name: ends.aborts[CauseCode.TIMEOUT] for name, ends in seen.counted.items() if CauseCode.TIMEOUT in ends.aborts
    }
    reported = Counter(name for name, _ in seen.scenario.timeouts())
    ran_out = seen.ran_out()
    assert counted == ran_out, f"the coordinator reported {reported}"
    assert reported <= ran_out, f"the coordinator reported {reported}"


def test_kafka_streams_ends_transactions_by_fence_or_abort_after_a_kill(seen: Seen) -> None:
    """After a kill, one thread of Kafka Streams leaves its transaction to fencing, and the others abort theirs. If a
    thread aborts and starts again under its id, the records in the log are the same as after a fence. So the test only
    checks a lower and an upper bound of the number of fences."""
    seen.needs(STREAMS)
    killed_ms = seen.scenario.killed_ms
    causes_seen: Counter[str] = Counter()
    for name in (one for one in seen.counted if one.startswith((SHOP, SHIPPING))):
        records = seen.history[name]
        aborts = [record for record in records if record.is_abort]
        timeouts = [abort for abort in aborts if abort.ran_out]
        left_open = sum(abort.start_ms < killed_ms <= abort.last_update_ms for abort in aborts)
        too_old = sum(timeout.last_update_ms >= killed_ms for timeout in timeouts)
        started = sum(
            (printed.state, after.state) == (states.COMPLETE_ABORT, states.EMPTY)
            for printed, after in pairwise(records)
        )
        said = Counter(seen.counted[name].aborts)
        what = f"{name}: {said}, {left_open} left open, {too_old} of these timed out, {started} starts after an abort"
        assert left_open - too_old <= said[CauseCode.FENCED] <= started, what
        assert said[CauseCode.FENCED] + said[CauseCode.CLIENT_ABORT] == len(aborts) - len(timeouts), what
        causes_seen += said
    assert causes_seen.keys() >= {CauseCode.CLIENT_ABORT, CauseCode.TIMEOUT}, causes_seen


def test_the_timeline_of_each_id_adds_up_to_its_counts(seen: Seen) -> None:
    for name, items in seen.timeline.items():
        rows = [item.transition for item in items if isinstance(item, Row)]
        folded = sum(item.commits for item in items if isinstance(item, Folded))
        prepared = [row for row in rows if row.to_state in (states.PREPARE_COMMIT, states.PREPARE_ABORT)]
        ends = Counter(row.cause for row in prepared if row.cause not in (None, CauseCode.EMPTY_ABORT))
        commits = ends.pop(CauseCode.COMMIT, 0)
        completed = sum(row.to_state == states.COMPLETE_COMMIT for row in rows)
        assert Ends(folded + commits, {str(cause): times for cause, times in ends.items()}) == seen.counted[name], (
            f"{name}: {items}"
        )
        assert commits == completed, f"{name}: {items}"
