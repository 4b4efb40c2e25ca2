"""A finding in REST says what was decided, who waits, and which command ends it."""

from __future__ import annotations

from pathlib import Path

from service.domain.findings.finding import Subject
from service.domain.worlds.verdict import Proof, ProofKind
from tests.helpers.findings import WithFindings, observe
from tests.helpers.stores import NOW_MS, client_of


def test_the_way_out_is_shown(tmp_path: Path) -> None:
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


def test_the_worlds_that_are_left_and_the_proofs_are_shown(tmp_path: Path) -> None:
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
