"""Tests of ending hanging transactions on real brokers, over REST and on the command line: which requests are refused,
which markers are written, and how readers and the finding change."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest

from deploy.demo.workload.refused_marker import leave_prepared
from service.access.actions import Outcome
from service.domain.findings.kinds import Resolution
from tests.helpers.brokers import SKIPS_THE_LOST, Cluster, on
from tests.helpers.waiting import OPEN_MS
from tests.integration.hang_lab import HangLab, hang_lab, hang_labs
from tests.integration.resolve_clients import KEYS, ResolveClients, committed_on, resolve_clients
from tests.lab.asking import ends, open_on
from tests.lab.hangs import UNGUARDED, Hang, late_write, never_added, old_producer, orphan_producer
from tests.lab.lost_leaders import LOST, PROPERTIES, still_hangs, stopped_leader

pytestmark = [pytest.mark.broker, pytest.mark.spark]

GUARDLESS_CLUSTER = PROPERTIES | UNGUARDED | {"broker.session.timeout.ms": "3000"}
"""Settings without the guard against hanging transactions, and with a short session timeout of brokers, so that a
stopped broker can start again soon. On 4.3, a broker can start only after its former session has expired."""


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ResolveClients]]:
    """Yields a function that returns an operator's clients for the lab of a Kafka version. The first call for a version
    starts the lab."""
    directory = tmp_path_factory.mktemp("resolving")
    with ExitStack() as everything:
        lab = everything.enter_context(hang_labs(directory))
        yield cache(lambda version: everything.enter_context(resolve_clients(lab(version), lab(version).bootstrap)))


@pytest.fixture
def here(at: Callable[[str], ResolveClients], version: str) -> ResolveClients:
    return at(version)


def fenced(lab: HangLab, hang: Hang) -> None:
    """Starts the application of the hanging transaction again, which raises the epoch and fences the old instance."""
    assert hang.transactional_id is not None
    assert old_producer(lab.connection, hang.transactional_id).producer_epoch > hang.producer_epoch


@on("3.9.2")
def test_a_late_write_is_aborted_once_its_id_is_fenced(here: ResolveClients) -> None:
    lab = here.lab
    lab.create_topic("r-late")
    hang = late_write(old_producer(lab.connection, "r-late-1"), "r-late", 0)
    finding = lab.wait_until_confirmed(hang).id
    for body in ({}, {"dry_run": False}):
        answer = here.post(finding, body)
        assert answer.status_code == 409
        assert "r-late-1 may still write with producer id" in answer.json()["detail"]
    fenced(lab, hang)
    here.until_accepted(finding)
    before = ends(lab.connection, "r-late", 0)
    reported = here.post(finding).json()
    assert (reported["executed"], reported["marker"], reported["producer_epoch"]) == (
        False,
        "ABORT",
        hang.producer_epoch,
    )
    assert reported["coordinator_epoch"] >= 0
    assert here.post(finding, {"dry_run": False}, key="not-a-key-of-anybody").status_code == 403
    assert here.post("0" * 16, {"dry_run": False}).status_code == 404
    assert (ends(lab.connection, "r-late", 0), open_on(lab.connection, "r-late", 0)) == (before, [hang.open])
    assert here.audited(hang) == []
    reported = here.post(finding, {"dry_run": False}, key=KEYS["bob"]).json()
    assert (reported["executed"], reported["marker"]) == (True, "ABORT")
    lab.wait_until_resolved(hang, Resolution.OUR_MARKER)
    lab.wait_until_free("r-late")
    assert here.audited(hang) == [("bob", Outcome.BEGUN), ("bob", Outcome.WRITTEN)]
    assert committed_on(lab.bootstrap, "r-late", 1) == []
    answer = here.post(finding, {"dry_run": False})
    assert (answer.status_code, answer.json()["detail"]) == (409, "the finding has ended already: our_marker")


@on("3.9.2")
def test_the_command_line_aborts_an_orphaned_transaction(here: ResolveClients) -> None:
    lab = here.lab
    lab.create_topic("r-cli")
    producer = orphan_producer(lab.connection, "r-nobody")
    hang = never_added(producer, "r-cli", 0)
    finding = lab.wait_until_confirmed(hang).id
    before = here.finding(finding)

    dry = here.cli(finding)
    assert (dry.returncode, dry.stderr) == (0, "")
    first, *_, pasteable = dry.stdout.splitlines()
    who = f"producer id {hang.producer_id}, epoch {hang.producer_epoch} (coordinator epoch 0)"
    assert first == f"would write ABORT to r-cli-0 for {who}"
    assert "dry run, nothing was written: add --execute" in dry.stdout
    assert pasteable.endswith(f"abort --topic r-cli --partition 0 --start-offset {hang.start_offset}")
    assert json.loads(here.cli(finding, "--json").stdout)["executed"] is False

    for name, text in (("two", f"{KEYS['ann']}\n{KEYS['bob']}\n"), ("other", "the-key-of-nobody-0\n")):
        file = here.key_file.with_name(f"{name}.key")
        file.touch(0o600)
        file.write_text(text)
    for code, says, arguments in (
        (2, "an operator's key", ["--operator-key-file", str(here.key_file.with_name("other.key"))]),
        (2, "the file has to contain one key", ["--operator-key-file", str(here.key_file.with_name("two.key"))]),
        (2, "No such file", ["--operator-key-file", str(here.key_file.with_name("no.key"))]),
        (2, "there is no cluster 'nope'", ["--cluster", "nope"]),
        (3, "no answer from", ["--url", "http://127.0.0.1:1", "--cluster", "test"]),
    ):
        done = here.cli(finding, "--execute", *arguments)
        assert (done.returncode, done.stdout, says in done.stderr) == (code, "", True), done.stderr
        assert done.stderr.count("\n") == 1
        assert not [key for key in KEYS.values() if key in done.stderr]
    assert here.cli("nope", "--execute").returncode == 2
    assert open_on(lab.connection, "r-cli", 0) == [hang.open]

    done = here.cli(finding, "--execute")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"wrote ABORT to r-cli-0 for {who}")
    lab.wait_until_resolved(hang, Resolution.OUR_MARKER)
    late = here.cli(finding, "--execute")
    assert (late.returncode, "the finding has ended already" in late.stderr) == (2, True)

    again = never_added(producer, "r-cli", 0)
    says = f"is not that of the finding: it began at offset {again.start_offset}"
    assert says in here.refusal(before), (
        "the finding is about an earlier transaction of this producer id, so it must not end this one"
    )
    lab.wait_until_confirmed(again)


@on("3.9.2")
def test_no_marker_is_written_for_a_transaction_that_will_end(here: ResolveClients) -> None:
    """The coordinator will end the transaction, although a finding claims that the transaction hangs."""
    lab = here.lab
    lab.create_topic("r-owned", 2)
    live = old_producer(lab.connection, "r-live", OPEN_MS)
    live.add("r-owned", 0)
    start = live.produce("r-owned", 0, [b"open"])
    claim = Hang("r-owned", 0, start, live.producer_id, live.producer_epoch, "r-live", "none")
    stuck = old_producer(lab.connection, "r-stuck")
    at_offset = leave_prepared(stuck, "r-owned", 1)
    (one,) = open_on(lab.connection, "r-owned", 1)
    completing = Hang("r-owned", 1, at_offset, one.producer_id, one.producer_epoch, "r-stuck", "none")
    for hang, state in ((claim, "Ongoing"), (completing, "Prepare")):
        lab.app.wait_until_read()
        says = here.refusal(here.claimed(hang))
        assert "the marker of that transaction will end these records" in says
        assert state in says
    live.end(commit=True)
    assert "has no open transaction on r-owned-0 any more" in here.refusal(here.claimed(claim))
    assert committed_on(lab.bootstrap, "r-owned", 1) == [b"open"]


@on("3.9.2")
def test_no_marker_is_written_while_the_log_is_not_read_to_its_end(here: ResolveClients) -> None:
    """The unread part of the log may contain the end of the transaction."""
    lab = here.lab
    lab.create_topic("r-behind")
    hang = late_write(old_producer(lab.connection, "r-behind-1"), "r-behind", 0)
    finding = lab.wait_until_confirmed(hang).id
    fenced(lab, hang)
    lab.app.wait_until_read()
    with paused(lab.app.process.pid):
        assert here.post(finding).status_code == 200
        old_producer(lab.connection, "r-behind-1")
        answer = here.post(finding, {"dry_run": False})
        assert (answer.status_code, "is not read to its end" in answer.json()["detail"]) == (409, True)
    assert open_on(lab.connection, "r-behind", 0) == [hang.open]
    assert here.audited(hang) == []
    here.until_accepted(finding)  # the request is accepted when the log is read to its end again
    with ThreadPoolExecutor(2) as both:  # two replicas of the service, which do not know about each other
        answers = list(both.map(lambda one: one.post(finding, {"dry_run": False}), (here, here.other())))
    assert sorted({answer.status_code for answer in answers}) in ([200], [200, 409]), [a.text for a in answers]
    lab.wait_until_resolved(hang, Resolution.OUR_MARKER)
    lab.wait_until_free("r-behind")


@on("4.3.1")
def test_a_committed_transaction_gets_its_skipped_commit_marker(tmp_path: Path, version: str) -> None:
    """A COMMIT marker was skipped (KAFKA-20734). After the marker is written, both halves of the transaction are
    readable. An ABORT, which Kafka's own tool would write, would destroy one half."""
    with (
        Cluster(version, tmp_path / "kafka", GUARDLESS_CLUSTER) as brokers,
        hang_lab(brokers.nodes[1], tmp_path, brokers.bootstrap) as lab,
        resolve_clients(lab, brokers.bootstrap) as here,
    ):
        with stopped_leader(brokers, "r-lost") as torn:
            assert "cannot be read now" in here.refusal(here.claimed(torn.hang()))
        if version not in SKIPS_THE_LOST:
            lab.wait_until_free("r-lost", LOST)
            return
        assert still_hangs(brokers, torn)
        finding = lab.wait_until_confirmed(torn.hang()).id
        answer = here.post(finding)
        assert (answer.status_code, "r-lost may still write" in answer.json()["detail"]) == (409, True)
        name = ["forceTerminateTransaction", "--transactionalId", "r-lost"]
        lab.tool("--bootstrap-server", brokers.bootstrap, *name)
        here.until_accepted(finding)
        reported = here.post(finding).json()
        assert (reported["marker"], reported["command"], reported["producer_epoch"]) == (
            "COMMIT",
            None,
            torn.producer_epoch,
        )
        with frozen(brokers, torn.victim):
            answer = here.post(finding, {"dry_run": False})
            # the frozen broker leads the partition, and may also be the broker asked for the leader
            refusals = {409: "cannot be read now", 503: "does not answer"}
            assert refusals[answer.status_code] in answer.json()["detail"]
        here.until_accepted(finding)
        assert still_hangs(brokers, torn)
        done = here.cli(finding, "--execute")
        assert done.stdout.startswith(f"wrote COMMIT to r-lost-{LOST} for "), done.stderr
        lab.wait_until_resolved(torn.hang(), Resolution.OUR_MARKER)
        lab.wait_until_free("r-lost", LOST)
        assert sorted(committed_on(brokers.bootstrap, "r-lost", 2)) == [b"half", b"of it", b"the rest"]
        assert here.audited(torn.hang()) == [("ann", Outcome.BEGUN), ("ann", Outcome.WRITTEN)]


@contextmanager
def paused(leader: int) -> Iterator[None]:
    """Freezes the application during the block, which means all processes of the process group `leader`."""
    os.killpg(leader, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(leader, signal.SIGCONT)


@contextmanager
def frozen(brokers: Cluster, node: int) -> Iterator[None]:
    brokers.nodes[node].pause()
    try:
        yield
    finally:
        brokers.nodes[node].resume()
