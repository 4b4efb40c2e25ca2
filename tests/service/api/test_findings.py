"""Tests of findings over REST: pages, filters, one finding in full, counts, metrics, and the event stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.worlds.verdict import Proof, ProofKind
from service.store.writers.findings import EVENTS_KEPT
from tests.helpers.findings import Listener, WithFindings, observe
from tests.helpers.stores import NOW_MS, client_of

PATH = "/api/v1/clusters/orders/findings"


GAP = observe(Kind.COVERAGE_GAP, subject=Subject(topic="__transaction_state", partition=3), log_partition=None)


def stored(cluster: WithFindings) -> None:
    cluster.read(now_ms=NOW_MS)


pytestmark = pytest.mark.cluster(stored=stored)


def test_a_finding_has_every_promised_field(cluster: WithFindings) -> None:
    heals = observe(self_heals_at_ms=NOW_MS + 1_000, owner="payments", muted_until_ms=NOW_MS, name=b"p\xff")
    cluster.see(heals)
    with client_of(cluster.url) as client:
        (item,) = client.get(PATH).json()["items"]
        alone = client.get(item["href"]).json()
    assert alone.pop("as_of") == "2026-09-21T14:13:50.123Z"
    assert alone == item
    assert item.pop("id").isalnum()
    assert item.pop("href").startswith(PATH)
    now = "2026-09-21T14:13:50.123Z"
    assert item == {
        "cluster": "orders",
        "kind": "overdue_transaction",
        "severity": "warning",
        "status": "confirmed",
        "confidence": "certain",
        "subject": {
            "topic": None,
            "partition": None,
            "transactional_id": "p\\x{ff}",
            "transactional_id_b64": "cP8",
            "producer_id": None,
            "producer_epoch": None,
            "start_offset": None,
            "group": None,
            "prefix": None,
        },
        "opened_at": now,
        "confirmed_at": now,
        "resolved_at": None,
        "last_seen_at": now,
        "count": 1,
        "reopened": False,
        "resolution": None,
        "acknowledgement": None,
        "owner": "payments",
        "application": None,
        "muted_until": now,
        "summary": heals.summary,
        "evidence": [{"at": now, "source": "__transaction_state-0@7", "text": "fact"}],
        "blocked_groups": [],
        "self_heals_at": "2026-09-21T14:13:51.123Z",
        "decision": None,
        "possible": [],
        "proofs": [],
        "advice": heals.advice,
        "command": None,
    }


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["c", "gap", "b", "a"]),
        ("kind=overdue_transaction", ["c", "b", "a"]),
        ("kind=overdue_transaction&kind=coverage_gap", ["c", "gap", "b", "a"]),
        ("status=resolved", ["a"]),
        ("status=candidate&status=confirmed", ["c", "gap", "b"]),
        ("severity=critical", ["b"]),
        ("transactional_id=b", ["b"]),
        ("topic=__transaction_state&partition=3", ["gap"]),
        ("partition=4", []),
    ],
)
def test_filters_select_findings(cluster: WithFindings, query: str, names: list[str]) -> None:
    b = observe(name=b"b", severity=Severity.CRITICAL)
    cluster.see(observe(name=b"a"), now_ms=NOW_MS)
    cluster.see(observe(name=b"a"), b, now_ms=NOW_MS + 1)
    cluster.see(b, GAP, now_ms=NOW_MS + 2)
    cluster.see(b, GAP, observe(name=b"c"), now_ms=NOW_MS + 3)
    with client_of(cluster.url) as client:
        items = client.get(f"{PATH}?{query}").json()["items"]
    assert [one["subject"]["transactional_id"] or "gap" for one in items] == names


def test_words_are_without_names_where_that_is_asked_for(cluster: WithFindings) -> None:
    cluster.see(observe())
    with client_of(cluster.url) as client:
        (apart,) = client.get(f"{PATH}?names=apart").json()["items"]
        words = apart.pop("words_apart")
        (inline,) = client.get(PATH).json()["items"]
        assert apart == inline
        assert client.get(f"{PATH}?names=away").status_code == 422
    assert words["summary"] == inline["summary"].replace("pay ", "[transactional_id] ").replace("orders-0", "[name 1]")
    assert words["advice"] == inline["advice"]
    assert words["outlook"] == "ends when its coordinator aborts it"
    assert (words["names"], words["cause"]) == ({"[name 1]": "orders-0"}, None)


def test_pages_contain_every_finding_once(cluster: WithFindings) -> None:
    cluster.see(*(observe(name=b"%02d" % n) for n in range(25)))  # all at the same time
    with client_of(cluster.url) as client:
        seen: list[str] = []
        cursor = ""
        while True:
            page = client.get(f"{PATH}?limit=10{cursor}").json()
            seen += [one["subject"]["transactional_id"] for one in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert sorted(seen) == [f"{n:02d}" for n in range(25)]
        other = client.get(f"{PATH}?limit=10&status=resolved{cursor}")
        assert (other.status_code, other.json()["type"]) == (400, "urn:txnscope:bad-cursor")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{PATH}/nobody", 404),
        (f"{PATH}?kind=nothing", 422),
        (f"{PATH}?knd=coverage_gap", 422),
        ("/api/v1/clusters/other/findings", 404),
        ("/api/v1/events?cluster=other", 404),
    ],
)
def test_a_bad_request_about_findings_is_a_problem_document(cluster: WithFindings, path: str, status: int) -> None:
    with client_of(cluster.url) as client:
        answered = client.get(path)
    assert (answered.status_code, answered.headers["content-type"]) == (status, "application/problem+json")


def test_an_answer_known_already_is_not_sent_again_until_something_changes(cluster: WithFindings) -> None:
    cluster.see(observe())
    with client_of(cluster.url) as client:
        tag = client.get(PATH).headers["etag"]
        assert client.get(PATH, headers={"If-None-Match": tag}).status_code == 304
        cluster.see(now_ms=NOW_MS + 1)
        assert client.get(PATH, headers={"If-None-Match": tag}).status_code == 200


def test_findings_are_counted_in_the_cluster_and_in_metrics(cluster: WithFindings) -> None:
    suspected = observe(Kind.COORDINATOR_MISMATCH, confirmed=False)
    cluster.see(observe(), GAP, suspected)
    cluster.see(GAP, suspected, now_ms=NOW_MS + 1)
    with client_of(cluster.url) as client:
        counts = client.get("/api/v1/clusters/orders").json()["findings"]
        metrics = client.get("/metrics").text
    assert counts == [
        {"kind": "coordinator_mismatch", "status": "candidate", "count": 1},
        {"kind": "coverage_gap", "status": "confirmed", "count": 1},
        {"kind": "overdue_transaction", "status": "resolved", "count": 1},
    ]
    for kind, status, value in (
        ("coordinator_mismatch", "candidate", 1),
        ("coordinator_mismatch", "confirmed", 0),
        ("overdue_transaction", "resolved", 1),
        ("data_gap", "confirmed", 0),
    ):
        assert f'kafka_txn_findings{{cluster="orders",kind="{kind}",status="{status}"}} {value}.0' in metrics
    assert 'kind="data_gap",status="candidate"' not in metrics


@pytest.fixture
def listen(cluster: WithFindings) -> Iterator[Any]:
    listeners: list[Listener] = []

    def begin(*arguments: str | None) -> Listener:
        listeners.append(Listener(cluster.url, *arguments))
        return listeners[-1]

    yield begin
    for listener in listeners:
        listener.close()


def test_listeners_get_events_from_now_on(cluster: WithFindings, listen: Any) -> None:
    cluster.see(GAP)
    listener = listen()
    assert listener.hear() == {"retry": 2_000}
    cluster.see(GAP, observe())
    cluster.see(GAP, now_ms=NOW_MS + 1)
    opened, resolved = listener.hear(), listener.hear()
    assert (opened["event"], resolved["event"]) == ("opened", "resolved")
    assert int(resolved["id"]) == int(opened["id"]) + 1
    with client_of(cluster.url) as client:
        shown = client.get(PATH, params={"kind": Kind.OVERDUE}).json()["items"][0]
    assert json.loads(resolved["raw_data"]) == shown


def test_a_listener_that_reconnects_continues_after_its_last_event(cluster: WithFindings, listen: Any) -> None:
    cluster.see(observe())
    cluster.see(GAP, now_ms=NOW_MS + 1)
    listener = listen("1")
    listener.hear()
    assert [listener.hear()["event"] for _ in range(2)] == ["opened", "resolved"]


@pytest.mark.parametrize("last", ["3", "99999999", "x"])
def test_a_listener_that_was_away_too_long_gets_a_reset(cluster: WithFindings, listen: Any, last: str) -> None:
    with cluster.engine.begin() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO finding_events VALUES ({EVENTS_KEPT}, {cluster.id}, 'forgotten', 'opened', 0, true)"
        )
    listener = listen(last)
    listener.hear()
    assert listener.hear() == {"id": str(EVENTS_KEPT), "event": "reset", "raw_data": "{}"}
    cluster.see(observe())
    assert listener.hear()["id"] == str(EVENTS_KEPT + 1)


def test_a_finding_shows_decision_command_and_blocked_groups(tmp_path: Path) -> None:
    cluster = WithFindings(f"sqlite:///{tmp_path / 'store.db'}")
    cluster.read()
    subject = Subject("orders", 0, b"pay", 7, 3, 100)
    cluster.see(
        observe(decision="none", bootstrap="b:9092", blocked_groups=("a", "b"), subject=subject), observe(name=b"x")
    )
    with client_of(cluster.url) as client:
        items = client.get("/api/v1/clusters/orders/findings").json()["items"]
    shown = {item["subject"]["transactional_id"]: item for item in items}
    ways = {name: (item["decision"], item["command"], item["blocked_groups"]) for name, item in shown.items()}
    command = "kafka-transactions.sh --bootstrap-server b:9092 abort --topic orders --partition 0 --start-offset 100"
    assert ways == {"pay": ("none", command, ["a", "b"]), "x": (None, None, [])}
    cluster.close()


def test_a_finding_shows_its_possible_worlds_and_proofs(tmp_path: Path) -> None:
    cluster = WithFindings(f"sqlite:///{tmp_path / 'store.db'}")
    cluster.read()
    proof = Proof(ProofKind.LISTING, NOW_MS, "__transaction_state-3", "2 transactions ended without listing orders-0")
    cluster.see(observe(decision="none", possible=("none",), proofs=(proof,)))
    with client_of(cluster.url) as client:
        (item,) = client.get("/api/v1/clusters/orders/findings").json()["items"]
    assert item["possible"] == ["none"]
    (shown,) = item["proofs"]
    assert shown.pop("at").startswith("20")
    assert shown == {"kind": "listing", "source": proof.source, "text": proof.text}
    cluster.close()
