"""Tests of the blocking chain as read from a store: the blockers' names, groups and findings, and the order of
blockers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from service.domain.findings.kinds import Kind
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Participants
from service.store.queries import partitions
from service.store.queries.findings import FindingSelection, read_page
from service.views.partitions import judged as judged_partitions
from service.views.partitions.blocking_chain import Link, links
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions, entry, stalled_partition
from tests.helpers.stores import NOW_MS, Id
from tests.service.views.findings.test_heal import LIMITS
from tests.service.web.stories import empty_store, group, hanging, on, wait

pytestmark = pytest.mark.cluster(of=empty_store)

Chain = Callable[[], list[Link]]


@pytest.fixture
def chain(cluster: WithPartitions) -> Chain:
    def chain() -> list[Link]:
        with cluster.engine.connect() as connection:
            found, _ = read_page(connection, cluster.id, FindingSelection(), None, 100)
            judged = judged_partitions.judge(connection, cluster.id, partitions.stalled(connection, cluster.id))
            victims = partitions.read_affected_groups(connection, cluster.id)
            return links(judged, victims, found, LIMITS, NOW_MS)

    return chain


def ongoing(name: bytes, topic: str, producer_id: int, *, age_ms: int = 20_000, timeout_ms: int = 900_000) -> Id:
    at_ms = NOW_MS - age_ms
    own = Id(name, states.ONGOING, start_ms=at_ms, last_update_ms=at_ms, producer_id=producer_id, timeout_ms=timeout_ms)
    return own._replace(topics=(Participants(topic, (0,)),))


def test_a_blocker_has_a_name_and_a_remediation(cluster: WithPartitions, chain: Chain) -> None:
    cluster.read([Id(b"payments-3", producer_id=7)])
    cluster.look(*on("payments", 7, entry(7)))
    cluster.see(hanging())
    (link,) = chain()
    assert (link.place, link.who, link.relation, link.row.hidden_records) == ("payments-7", "payments-3", "hanging", 10)
    assert link.finding is not None
    assert (link.tone, link.finding.observation.decision) == ("critical", "none")
    assert link.finding.command is not None
    assert link.judged.owner is not None
    assert link.judged.owner.transactional_id == b"payments-3"


def test_an_orphan_is_named_by_its_producer_id(cluster: WithPartitions, chain: Chain) -> None:
    cluster.look(*on("payments", 7, entry(4711)))
    (link,) = chain()
    assert (link.who, link.judged.owner) == ("producer id 4711", None)


def test_an_unknown_blocker_has_its_reason(cluster: WithPartitions, chain: Chain) -> None:
    cluster.look(stalled_partition(3, "payments"))
    (link,) = chain()
    assert (link.who, link.relation, link.heal.text) == ("unknown", "unknown", "unknown")
    assert str(link.judged.why) == link.heal.more != ""


def test_blocked_groups_are_listed_with_stopped_ones_first(cluster: WithPartitions, chain: Chain) -> None:
    cluster.look(*on("payments", 7, entry(7)))
    wait(cluster, [group("a-soon", "payments", 7, 81), group("z-stopped", "payments", 7), group("far", "payments", 8)])
    (link,) = chain()
    assert [(group.offset.group, group.to_go) for group in link.waiting] == [("z-stopped", None), ("a-soon", 19)]
    assert link.stopped == 1


def test_the_worst_link_of_the_chain_comes_first(cluster: WithPartitions, chain: Chain) -> None:
    """Links are sorted by their outlook, a hang first. Links with the same outlook are sorted by the number of stopped
    groups, and then by the time left."""
    ids = [
        ongoing(b"soon", "a", 11, timeout_ms=30_000),
        ongoing(b"later", "b", 12),
        ongoing(b"waited-for", "c", 13),
        Id(b"hung", producer_id=14),
        Id(b"completing", states.PREPARE_COMMIT, producer_id=15, topics=(Participants("e", (0,)),)),
    ]
    cluster.read(ids)
    cluster.look(
        *(fact for number, topic in enumerate("abcde") for fact in on(topic, 0, entry(11 + number))),
        stalled_partition(0, "f", stalled_since_ms=NOW_MS - 90_000),
    )
    wait(cluster, [group("g", "c", 0)])
    cluster.see(hanging("d", 0, b"hung", 14))
    assert [link.who for link in chain()] == ["hung", "completing", "unknown", "waited-for", "soon", "later"]


def test_a_muted_link_of_the_chain_comes_last(cluster: WithPartitions, chain: Chain) -> None:
    cluster.read([ongoing(b"open", "a", 11), Id(b"hung", producer_id=14)])
    cluster.look(*on("a", 0, entry(11)), *on("d", 0, entry(14)))
    cluster.see(hanging("d", 0, b"hung", 14, muted_until_ms=NOW_MS + 1))
    assert [(link.who, link.is_muted) for link in chain()] == [("open", False), ("hung", True)]


def test_a_stuck_completion_shows_its_state_and_links_its_finding(cluster: WithPartitions, chain: Chain) -> None:
    cluster.read([Id(b"ledger", states.PREPARE_COMMIT, producer_id=9, topics=(Participants("ledger", (4,)),))])
    cluster.look(*on("ledger", 4, entry(9)))
    assert [(link.state, link.finding) for link in chain()] == [("in PrepareCommit", None)]
    cluster.see(observe(Kind.STUCK_COMPLETION, b"ledger"))
    (link,) = chain()
    assert link.state == "stuck in PrepareCommit"
    assert link.finding is not None
    assert link.heal.text == "heals when broker 1 acknowledges"


def test_a_decision_to_commit_is_shown_without_a_command(cluster: WithPartitions, chain: Chain) -> None:
    cluster.look(*on("payments", 7, entry(7)))
    cluster.see(hanging(decision="commit", bootstrap=None))
    (link,) = chain()
    assert link.finding is not None
    assert (link.finding.observation.decision, link.finding.command) == ("commit", None)
