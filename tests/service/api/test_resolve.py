"""Tests of resolving a finding: permissions, refusals, and the audit.

The brokers are stubs. tests/integration/test_resolve.py uses real brokers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from service.access.actions import Outcome
from service.api.routes import resolve
from service.domain.findings.kinds import Kind
from service.domain.partitions.facts import MarkerType
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Participants
from service.domain.transaction_log.states import TOPIC
from service.domain.worlds.transactions import Range
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from service.store import audit_events
from service.store.audit_events import Attempt
from service.store.errors import StoreUnavailable
from tests.helpers.builders.entry_facts import facts_of
from tests.helpers.findings import observe
from tests.helpers.partitions import LSO, PID, hanging_finding
from tests.helpers.resolving import (
    COORDINATOR_EPOCH,
    EPOCH,
    FENCED,
    KEYS,
    PLACE,
    ResolveApi,
    Sent,
    hanging,
    resolve_api,
    shows,
)
from tests.helpers.stores import NOW_MS, Id


@pytest.fixture
def here(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResolveApi]:
    with resolve_api(url, monkeypatch) as one:
        yield one


def refused(here: ResolveApi, says: str) -> None:
    """Checks that a dry run and an execution are both refused. No marker may be written, and the audit must be
    empty."""
    for body in ({"dry_run": True}, {"dry_run": False}):
        answer = here.post(body)
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:txnscope:not-now"), answer.text
        assert says in answer.json()["detail"]
    assert (here.brokers.sent, here.audited()) == ([], [])


@pytest.mark.parametrize("body", [None, {}, {"dry_run": True}])
def test_a_request_is_a_dry_run_by_default(here: ResolveApi, body: Any) -> None:
    answer = here.post(body)
    reported = answer.json()
    assert answer.status_code == 200
    assert (reported["dry_run"], reported["executed"], reported["marker"]) == (True, False, "ABORT")
    assert (reported["topic"], reported["partition"], reported["finding_id"]) == (*PLACE, here.finding())
    assert (reported["producer_id"], reported["producer_epoch"], reported["coordinator_epoch"]) == (
        PID,
        EPOCH,
        COORDINATOR_EPOCH,
    )
    assert reported["command"].startswith("kafka-transactions.sh --bootstrap-server b:9092 abort --topic")
    assert reported["steps"][-1] == "write ABORT to broker 2, the leader of orders-0"
    assert (here.brokers.sent, here.audited()) == ([], [])


def test_an_executed_request_writes_the_marker_and_is_audited(here: ResolveApi) -> None:
    answer = here.post({"dry_run": False}, key=KEYS["bob"])
    assert (answer.status_code, answer.json()["dry_run"], answer.json()["executed"]) == (200, False, True)
    assert answer.json()["steps"][-1] == "wrote ABORT to broker 2, the leader of orders-0"
    assert here.brokers.sent == [Sent(2, PID, EPOCH, COORDINATOR_EPOCH, commit=False)]
    assert here.audited() == [("bob", Outcome.BEGUN), ("bob", Outcome.WRITTEN)]
    with here.cluster.engine.connect() as connection:
        newest = audit_events.of_subject(connection, here.cluster.id, *PLACE, PID, LSO)[0]
    expected = Attempt(
        newest.at_ms,
        here.finding(),
        "bob",
        MarkerType.ABORT,
        *PLACE,
        PID,
        EPOCH,
        COORDINATOR_EPOCH,
        LSO,
        Outcome.WRITTEN,
    )
    assert newest == expected


@pytest.mark.parametrize(("decision", "commit"), [("commit", True), ("abort", False), ("none", False)])
def test_the_decision_determines_the_marker(
    url: str, monkeypatch: pytest.MonkeyPatch, decision: str, commit: bool
) -> None:
    with resolve_api(url, monkeypatch, decision=decision, bootstrap=None) as here:
        reported = here.execute().json()
        assert (reported["marker"], reported["command"]) == ("COMMIT" if commit else "ABORT", None)
        assert reported["marker"] in reported["reason"]
        assert [one.commit for one in here.brokers.sent] == [commit]


def test_a_partition_without_a_marker_gets_coordinator_epoch_0(here: ResolveApi) -> None:
    """A leader that knows no marker of the producer reports coordinator epoch -1. The request then has epoch 0, as with
    Kafka's own tool. A leader that knows a marker would refuse a request with epoch -1."""
    here.brokers.seen[PLACE] = shows(hanging(coordinator_epoch=-1))
    assert here.execute().json()["coordinator_epoch"] == 0
    assert here.brokers.sent[0].coordinator_epoch == 0


# permissions


def test_without_operators_every_request_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with resolve_api(url, monkeypatch, operators=None) as here:
        answer = here.execute()
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:txnscope:not-allowed")
    assert answer.json()["detail"].startswith("this service accepts no changes; ")


def test_a_missing_key_and_a_wrong_key_get_the_same_answer(here: ResolveApi) -> None:
    path = f"/api/v1/clusters/orders/findings/{here.finding()}/resolve"
    for key in (None, "", "wrong", KEYS["ann"] + "x", KEYS["ann"][:-1], "\u00fc" * 18):
        headers = {} if key is None else {b"Authorization": f"Bearer {key}".encode("latin-1")}
        answer = here.client.post(path, json={"dry_run": False}, headers=headers)
        assert (answer.status_code, answer.json()["detail"]) == (
            403,
            "this request needs an operator's key, in the header Authorization: Bearer KEY"
            " (for commands: --key-file FILE)",
        )
    assert (here.brokers.looks, here.brokers.sent, here.audited()) == (0, [], [])


@pytest.mark.parametrize(
    ("header", "status"), [(f"bearer {KEYS['ann']}", 200), (KEYS["ann"], 403), (f"Basic {KEYS['ann']}", 403)]
)
def test_the_key_comes_as_a_bearer_token(here: ResolveApi, header: str, status: int) -> None:
    path = f"/api/v1/clusters/orders/findings/{here.finding()}/resolve"
    assert here.client.post(path, headers={"Authorization": header}).status_code == status


def test_a_key_appears_in_no_answer_and_no_log_line(here: ResolveApi, caplog: pytest.LogCaptureFixture) -> None:
    def breaks() -> int:
        raise ZeroDivisionError

    here.brokers.answer = breaks
    with caplog.at_level(logging.DEBUG):
        answers = [here.execute(), here.post({"dry_run": False, "key": KEYS["ann"]}), here.post({"dry_run": "x"})]
    assert [answer.status_code for answer in answers] == [500, 422, 422]
    reported = caplog.text + "".join(answer.text for answer in answers) + here.client.get("/metrics").text
    assert not [key for key in KEYS.values() if key in reported]


# request bodies


def test_only_dry_run_false_is_a_request_to_write(here: ResolveApi) -> None:
    bodies: list[Any] = [{"dry_run": "false"}, {"dry_run": 0}, {"dry_run": None}, {"dryrun": False}, [], 0]
    for body in bodies:
        assert here.post(body).status_code == 422, body
    assert here.brokers.looks == 0


def test_a_body_of_another_content_type_writes_nothing(here: ResolveApi) -> None:
    path = f"/api/v1/clusters/orders/findings/{here.finding()}/resolve"
    headers = {"Authorization": f"Bearer {KEYS['ann']}"}
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = here.client.post(path, content='{"dry_run": false}', headers=headers | {"Content-Type": kind})
        assert answer.status_code == 422
    assert here.client.post(path, content=b'{"dry_run": ', headers=headers).status_code == 422
    assert here.client.post(path, content=b" " * 1_100_000, headers=headers).status_code == 413
    assert here.client.post(f"{path}?dry_run=false", headers=headers).status_code == 422
    assert here.brokers.sent == []


def test_the_answer_is_not_cached_and_has_no_etag(here: ResolveApi) -> None:
    path = f"/api/v1/clusters/orders/findings/{here.finding()}/resolve"
    headers = {"Authorization": f"Bearer {KEYS['ann']}", "If-None-Match": "*"}
    answer = here.client.post(path, json={"dry_run": False}, headers=headers)
    assert (answer.status_code, answer.headers["Cache-Control"], "ETag" in answer.headers) == (200, "no-store", False)
    for ask in (here.client.get, here.client.head):
        assert ask(path, headers=headers).status_code == 405


def test_an_unknown_finding_or_cluster_is_404(here: ResolveApi) -> None:
    answer = here.post({"dry_run": False}, finding="nope")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:txnscope:no-such-finding")
    path = f"/api/v1/clusters/nope/findings/{here.finding()}/resolve"
    assert here.client.post(path, headers={"Authorization": f"Bearer {KEYS['ann']}"}).status_code == 404


# refusals


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"confirmed": False}, "the finding is not confirmed: only a confirmed"),
        ({"decision": "unknown"}, "it is not known whether the transaction was committed"),
        ({"decision": None}, "it is not known whether the transaction was committed"),
    ],
)
def test_only_a_confirmed_and_decided_finding_gets_a_marker(
    url: str, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], says: str
) -> None:
    with resolve_api(url, monkeypatch, **fields) as here:
        refused(here, says)
        assert here.brokers.looks == 0


def test_only_a_hanging_transaction_gets_a_marker(here: ResolveApi) -> None:
    here.cluster.see(hanging_finding(decision="none"), observe(Kind.OVERDUE))
    items = here.client.get("/api/v1/clusters/orders/findings").json()["items"]
    (other,) = (item["id"] for item in items if item["kind"] == Kind.OVERDUE)
    answer = here.post({"dry_run": False}, finding=other)
    of_kind = "of kind overdue_transaction, not hanging_transaction"
    assert (answer.status_code, of_kind in answer.json()["detail"]) == (409, True)


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (None, "orders-0 cannot be read now"),
        (shows(), "producer id 7 has no open transaction on orders-0 any more"),
        (shows(hanging(producer_id=8)), "producer id 7 has no open transaction"),
        (shows(hanging(transaction_start_offset=LSO + 4)), f"it began at offset {LSO + 4}"),
        (shows(described=False), "the open transactions of orders-0 cannot be read: READ on the topic is missing, or"),
    ],
    ids=["silent", "closed", "another's", "another start", "denied"],
)
@pytest.mark.parametrize("look", [1, 3])
def test_a_partition_that_has_changed_is_refused(here: ResolveApi, look: int, seen: Any, says: str) -> None:
    """The partition changes before the request takes the first sample of it, or before the last one. The last sample
    follows the read of the log."""

    def change(number: int) -> None:
        here.brokers.seen.pop(PLACE, None)
        if number < look:
            here.brokers.seen[PLACE] = shows(hanging())
        elif seen is not None:
            here.brokers.seen[PLACE] = seen
        here.brokers.looks %= 3

    here.brokers.before_look = change
    answer = here.execute()
    assert (answer.status_code, says in answer.json()["detail"]) == (409, True), answer.text
    assert (here.brokers.sent, here.audited()) == ([], [])


def test_a_higher_epoch_than_in_the_finding_is_that_of_the_marker(here: ResolveApi) -> None:
    """The finding keeps the epoch with which it began. A later writer of the producer id has raised the epoch."""
    here.brokers.seen[PLACE] = shows(hanging(producer_epoch=EPOCH + 1))
    refused(here, f"pay may still write with producer id {PID} and epoch {EPOCH + 1}")
    here.cluster.read([FENCED._replace(producer_epoch=EPOCH + 2)])
    here.brokers.log_ends(2)
    here.brokers.facts = facts_of("abort", PID, EPOCH + 1, LSO, NOW_MS)
    assert here.execute().json()["producer_epoch"] == EPOCH + 1
    assert here.brokers.sent == [Sent(2, PID, EPOCH + 1, COORDINATOR_EPOCH, commit=False)]


def test_an_epoch_that_rises_during_the_request_is_refused(here: ResolveApi) -> None:
    def change(number: int) -> None:
        here.brokers.seen[PLACE] = shows(hanging(producer_epoch=EPOCH + (number == 3)))
        here.brokers.looks %= 3

    here.brokers.before_look = change
    refused(here, f"a producer has just written to the transaction under epoch {EPOCH + 1}")


@pytest.mark.parametrize(
    ("stored", "derived", "says"),
    [
        ("none", "commit", "the finding's decision is none, but the brokers' logs prove commit"),
        ("abort", "commit", "the finding's decision is abort, but the brokers' logs prove commit"),
        ("commit", "abort", "the finding's decision is commit, but the brokers' logs prove abort"),
    ],
)
def test_a_decision_that_the_logs_contradict_is_not_written(
    url: str, monkeypatch: pytest.MonkeyPatch, stored: str, derived: str, says: str
) -> None:
    """A dry run is refused, too."""
    with resolve_api(url, monkeypatch, decision=stored) as here:
        here.brokers.facts = facts_of(derived, PID, EPOCH, LSO, NOW_MS)
        refused(here, says)
        assert says in here.post().json()["detail"]


def test_a_decision_that_can_no_longer_be_proven_is_not_written(here: ResolveApi) -> None:
    """The log was cleaned after the decision. A committed transaction may have been among the removed records."""
    history = here.brokers.facts.history
    assert history is not None
    gone = history._replace(to_offset=9, holes=(Range(0, 9),))
    here.brokers.facts = here.brokers.facts._replace(history=gone)
    refused(here, "the decision cannot be proven now: not all records of __transaction_state-0 in [0, 9)")


LISTED = (Participants("orders", (0,)),)


@pytest.mark.parametrize(
    ("owner", "says"),
    [
        (
            FENCED._replace(state=states.ONGOING, topics=LISTED),
            "pay is Ongoing, and its transaction includes the partition: the marker of that transaction",
        ),
        (FENCED._replace(state=states.ONGOING, topics=LISTED, start_ms=NOW_MS - 7_200_000), "pay is Ongoing"),
        (FENCED._replace(state=states.PREPARE_COMMIT, topics=LISTED), "pay is PrepareCommit"),
        (FENCED._replace(state=states.PREPARE_ABORT, topics=LISTED, producer_epoch=EPOCH), "pay is PrepareAbort"),
        (FENCED._replace(state=states.UNKNOWN), "cannot be decoded"),
        (FENCED._replace(producer_epoch=EPOCH), "pay may still write with producer id 7 and epoch 3"),
        (FENCED._replace(producer_epoch=EPOCH - 1), "pay may still write"),
        (FENCED._replace(state=states.ONGOING, producer_epoch=EPOCH), "pay may still write"),
    ],
)
def test_an_id_that_may_still_own_the_records_prevents_the_marker(here: ResolveApi, owner: Id, says: str) -> None:
    here.cluster.read([owner])
    here.brokers.log_ends(2)
    refused(here, says)


@pytest.mark.parametrize(
    "owner",
    [
        FENCED._replace(state=states.ONGOING),
        FENCED._replace(state=states.ONGOING, topics=(Participants("orders", (1,)),)),
        FENCED._replace(state=states.EXPIRED, producer_epoch=EPOCH),
        FENCED._replace(producer_id=PID + 1, producer_epoch=0),
    ],
    ids=["open elsewhere", "open on another partition", "expired", "another producer id"],
)
def test_an_id_that_no_longer_owns_the_records_allows_the_marker(here: ResolveApi, owner: Id) -> None:
    here.cluster.read([owner])
    here.brokers.log_ends(2)
    assert here.execute().status_code == 200


def test_the_refusal_of_an_unfenced_id_says_how_to_fence_it(here: ResolveApi) -> None:
    here.cluster.read([FENCED._replace(producer_epoch=EPOCH)])
    here.brokers.log_ends(2)
    reported = here.post().json()["detail"]
    assert "First fence this id: stop its producer and start it again" in reported
    assert "kafka-transactions.sh forceTerminateTransaction --transactionalId pay" in reported


def created_again(here: ResolveApi) -> None:
    here.brokers.seen[PLACE] = here.brokers.seen[PLACE]._replace(topic_id="another")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(lambda here: here.cluster.see(), "the finding has ended already: ", id="it is over"),
        pytest.param(created_again, "topic orders was deleted and created again", id="another topic of the name"),
        pytest.param(
            lambda here: here.brokers.log_ends(2), "the transaction log is not read to its end", id="log behind"
        ),
        # a new leader may truncate the records of the former one
        pytest.param(
            lambda here: here.brokers.log_ends(1, epoch=6),
            "the transaction log is not read to its end",
            id="new leader",
        ),
        pytest.param(
            lambda here: here.brokers.seen.pop((TOPIC, 0)), "__transaction_state-0 cannot be read now", id="no leader"
        ),
    ],
)
def test_a_refusal_has_its_reason(here: ResolveApi, change: Callable[[ResolveApi], object], says: str) -> None:
    change(here)
    refused(here, says)


def test_an_owner_that_is_read_during_the_checks_prevents_the_marker(here: ResolveApi) -> None:
    """The end offset of the log is requested first. Then the request waits until the store has the log up to this
    offset. If one of the records read meanwhile shows an owner of the producer id, no marker is written."""
    here.brokers.log_ends(2)
    late = threading.Timer(0.05, lambda: here.cluster.read([FENCED._replace(state=states.ONGOING, topics=LISTED)]))
    late.start()
    refused(here, "pay is Ongoing, and its transaction includes the partition: the marker of that transaction")
    late.join()


class TestOrphan:
    """Tests of a producer id without a known owner. Every partition of the transaction log could contain an owner."""

    @pytest.fixture
    def here(self, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResolveApi]:
        with resolve_api(url, monkeypatch) as one:
            one.cluster.see(hanging_finding(producer_id=PID + 90, name=None, decision="none"))
            one.brokers.seen[PLACE] = shows(hanging(producer_id=PID + 90))
            yield one

    def finding(self, here: ResolveApi) -> str:
        items = here.client.get("/api/v1/clusters/orders/hanging").json()["items"]
        return str(items[0]["id"])

    def test_an_orphan_is_ended_after_a_complete_read(self, here: ResolveApi) -> None:
        assert here.post({"dry_run": False}, finding=self.finding(here)).status_code == 200
        assert [one.producer_id for one in here.brokers.sent] == [PID + 90]

    def test_an_orphan_is_not_ended_while_part_of_the_log_is_unread(self, here: ResolveApi) -> None:
        here.brokers.log_ends(0, partition=1)
        answer = here.post({"dry_run": False}, finding=self.finding(here))
        assert answer.status_code == 409
        assert "the store may lack partitions of __transaction_state" in answer.json()["detail"]

    def test_an_orphan_is_not_ended_while_an_id_cannot_be_decoded(self, here: ResolveApi) -> None:
        here.cluster.read([Id(b"who knows", states.UNKNOWN, producer_id=-1)])
        here.brokers.log_ends(2)
        answer = here.post({"dry_run": False}, finding=self.finding(here))
        assert answer.status_code == 409
        assert "cannot be decoded: that id may be the owner" in answer.json()["detail"]
        assert here.brokers.sent == []


# effects of the marker


def test_a_refusal_of_the_broker_has_its_status_and_reason(here: ResolveApi) -> None:
    for code, status, says in (
        (47, 409, "producer id 7 has a newer epoch or marker on orders-0 (error 47 INVALID_PRODUCER_EPOCH)"),
        (52, 409, "(error 52 TRANSACTION_COORDINATOR_FENCED)"),
        (31, 502, "the permission to write markers is missing: grant CLUSTER_ACTION on the cluster"),
        (8, 503, "broker 2 cannot write the marker now (error 8 BROKER_NOT_AVAILABLE)"),
        (19, 502, "broker 2 refuses the marker (error 19 NOT_ENOUGH_REPLICAS)"),
    ):
        before = len(here.audited())
        here.brokers.answer = lambda code=code: code  # type: ignore[misc]
        answer = here.execute()
        assert answer.status_code == status
        assert answer.json()["detail"].startswith("nothing was written: ")
        assert says in answer.json()["detail"]
        assert ("Retry-After" in answer.headers) == (status == 503)
        assert here.audited()[before:] == [("ann", Outcome.BEGUN), ("ann", Outcome.REFUSED)]


@pytest.mark.parametrize("code", [-1, 6, 7, 20])
def test_a_marker_that_the_leader_may_have_appended_is_not_said_to_be_unwritten(here: ResolveApi, code: int) -> None:
    here.brokers.answer = lambda: code
    answer = here.execute()
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("it is not known whether")
    assert here.audited() == [("ann", Outcome.BEGUN), ("ann", Outcome.UNKNOWN)]


def test_without_an_answer_of_the_broker_the_outcome_is_unknown(here: ResolveApi) -> None:
    def unanswered_partition() -> int:
        raise KafkaUnavailable("broker 2 does not answer: timed out")

    here.brokers.answer = unanswered_partition
    answer = here.execute()
    assert answer.status_code == 503
    assert "it is not known whether ABORT was written to orders-0 (broker 2 does not" in answer.json()["detail"]
    assert here.audited() == [("ann", Outcome.BEGUN), ("ann", Outcome.UNKNOWN)]


def test_a_broker_that_does_not_know_the_request_wrote_no_marker(here: ResolveApi) -> None:
    def refuses() -> int:
        raise KafkaRefused("broker 2 refuses: unsupported version")

    here.brokers.answer = refuses
    assert here.execute().status_code == 502
    assert here.audited() == [("ann", Outcome.BEGUN), ("ann", Outcome.REFUSED)]


@pytest.mark.parametrize(
    ("failure", "status"),
    [(KafkaUnavailable("no broker answers"), 503), (KafkaRefused("broker 2 refuses: not authorized"), 502)],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_observations_that_kafka_does_not_answer_are_in_the_audit(
    here: ResolveApi, failure: Exception, status: int, dry_run: bool
) -> None:
    def fails(_: int) -> None:
        raise failure

    here.brokers.before_look = fails
    assert here.post({"dry_run": dry_run}).status_code == status
    answer = here.client.get("/api/v1/clusters/orders/audit", headers={"Authorization": f"Bearer {KEYS['ann']}"})
    (row,) = answer.json()["items"]
    assert (row["action"], row["who"], row["outcome"]) == ("resolve", "ann", "refused")
    assert row["detail"] == f"{'dry run: ' if dry_run else ''}{failure}"


def test_no_marker_is_written_without_an_audit_record(here: ResolveApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("store: disk full")

    monkeypatch.setattr(audit_events, "record_attempt", full)
    answer = here.execute()
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:txnscope:store-not-ready")
    assert here.brokers.sent == []


def test_a_written_marker_is_reported_even_if_the_audit_fails_afterwards(
    here: ResolveApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    record = audit_events.record_attempt

    def full(engine: Any, cluster_id: int, attempt: Attempt, address: str | None = None) -> None:
        if attempt.outcome != Outcome.BEGUN:
            raise StoreUnavailable("store: disk full")
        record(engine, cluster_id, attempt, address)

    monkeypatch.setattr(audit_events, "record_attempt", full)
    answer = here.execute()
    assert (answer.status_code, answer.json()["executed"]) == (200, True)
    assert here.audited() == [("ann", Outcome.BEGUN)]
    assert "the audit lacks the outcome written" in caplog.text


def test_checks_that_take_too_long_write_no_marker(here: ResolveApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client may have stopped waiting for the answer."""
    monkeypatch.setattr(resolve, "LOOKS_WITHIN_S", 0.0)
    answer = here.execute()
    assert (answer.status_code, "nothing was written" in answer.json()["detail"]) == (503, True)
    assert (here.brokers.sent, here.audited()) == ([], [])
    assert here.post().status_code == 200


def test_of_two_concurrent_requests_one_finds_the_transaction_gone(here: ResolveApi) -> None:
    def ends_it() -> int:
        here.brokers.seen[PLACE] = shows()
        return 0

    here.brokers.answer = ends_it
    finding = here.finding()
    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(lambda key: here.post({"dry_run": False}, finding, key), KEYS.values()))
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert len(here.brokers.sent) == 1
