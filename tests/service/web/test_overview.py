"""The overview while all is known: the words that people read."""

from __future__ import annotations

import re

import pytest

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Participants
from tests.helpers.partitions import WithPartitions, entry, moving_partition
from tests.helpers.stores import NOW_MS, Id
from tests.service.store.histories import MINUTE, committed
from tests.service.store.logs import batch, read
from tests.service.web.opened import h1, links_of, page_of, quiet, words_of
from tests.service.web.stories import empty_store, group, hanging, on, tell, wait

pytestmark = pytest.mark.cluster(of=empty_store)


def test_the_story_of_the_design(url: str) -> None:
    tell(url).close()
    html = page_of(url)
    words = words_of(html, "content")
    assert h1(html) == "1 transaction hangs. It will not heal by itself."
    assert "payments-3 has blocked payments-7 for 21 s." in words
    assert "Group settlement is stopped, fraud-scoring will stop in 19 offsets." in words
    assert (
        "2 more partitions are blocked: ledger-4 heals when broker 1 acknowledges, settlements-2 frees itself in 47 s."
        in words
    )
    assert "aborts itself in 47 s 14:14:38, at the latest 14:14:53; its records are then discarded" in words
    assert "completing, in PrepareCommit" in words
    assert "6 partitions cannot be judged: no permission on topic hr.payroll: grant READ on it." in words
    assert "<title>1 hanging · prod-eu · txnscope</title>" in html


def test_six_facts_each_with_its_context(url: str) -> None:
    tell(url).close()
    words = words_of(page_of(url), "facts")
    assert words.startswith(
        "Hanging transactions 1 will not heal by itself Blocked partitions 3 of 5 judged; 6 unknown"
    )
    assert "Groups stopped 3 1 more will stop" in words
    assert "Open transactions 2 oldest 9 m 13 s, settlement-nightly" in words
    assert re.search(r"Commits [0-9]+ /s over the last 5 m", words)
    assert re.search(r"Aborts < 0.01 % last hour: 43 of 1.22 M$", words)


def test_medians_where_they_were_counted(cluster: WithPartitions, url: str) -> None:
    logged = [one for n in range(5) for one in committed(3 * n, MINUTE - 90_000, b"a-%d" % n, markers_ms=20)]
    cluster.writer.apply(batch(logged, read(0, 15, partition=1)), NOW_MS - 90_000)
    quiet(cluster)
    assert "half within 100 ms, markers 25 ms" in words_of(page_of(url), "facts")


def test_before_a_whole_minute_was_counted_rates_are_not_known(url: str) -> None:
    cluster = empty_store(url, started_ms=NOW_MS - 20_000)
    cluster.read([Id(b"a")])
    cluster.look(moving_partition())
    cluster.close()
    words = words_of(page_of(url))
    assert "Commits not known yet after the first whole minute" in words
    assert "No whole minute has been counted yet." in words


def test_other_findings_the_worst_first(url: str) -> None:
    tell(url).close()
    html = page_of(url)
    words = words_of(html, "others")
    assert "3 open" in words
    places = [words.index(kind) for kind in ("fencing conflict", "coverage gap", "expiring id")]
    assert places == sorted(places)
    assert "will not stop by itself find the second producer" in words
    assert "14 times" in words
    assert "unknown until that is granted" in words
    assert any(link.endswith("/transaction?id=orders-etl-0") for link in links_of(html))
    assert any("/findings/" in link for link in links_of(html))


def test_what_ended_in_the_last_hour(url: str) -> None:
    tell(url).close()
    html = page_of(url)
    words = words_of(html, "ended")
    assert "1.22 M transactions" in words
    assert "A client abort 29 T timeout 14 F fenced 0 ? unattributed 0" in words
    assert "13:13 13:43 14:13" in words
    assert html.count('class="tx tx--timeout"') == 10
    assert "between 10,600 and 30,100 commits" in html


def test_nothing_hangs(cluster: WithPartitions, url: str) -> None:
    quiet(cluster)
    cluster.see(hanging("orders", 0))
    cluster.see(now_ms=NOW_MS)
    html = page_of(url)
    words = words_of(html, "verdict")
    assert h1(html) == "Nothing hangs. Nothing is blocked."
    assert "All 2 partitions were judged in the last 1.2 s. 1 transaction is open, the oldest for 4.4 s" in words
    assert "all within their timeouts." in words
    assert "no coordinator will end it; read_committed consumers stop at 100; resolved 1.2 s ago. See it" in words
    assert "No partition is blocked." in words_of(html)
    assert "Resolved in the last 24 hours: 1" in words_of(html)
    assert "verdict--ok" in html


def test_blocked_and_nothing_hangs(cluster: WithPartitions, url: str) -> None:
    own = Id(b"slow", states.ONGOING, start_ms=NOW_MS - 20_000, producer_id=7, timeout_ms=60_000)
    cluster.read([own._replace(topics=(Participants("orders", (0,)),))])
    cluster.look(*on("orders", 0, entry(7)))
    wait(cluster, [group("reporting", "orders", 0)])
    html = page_of(url)
    assert h1(html) == "Nothing hangs. 1 partition is blocked."
    assert "slow holds orders-0 for 21 s: aborts itself in 39 s. Group reporting is stopped." in words_of(
        html, "verdict"
    )


def test_three_hang_and_the_one_with_most_stopped_groups_is_named(cluster: WithPartitions, url: str) -> None:
    cluster.read([Id(b"p-%d" % n, producer_id=n) for n in (1, 2, 3)])
    cluster.look(*(fact for n in (1, 2, 3) for fact in on("orders", n, entry(n))))
    wait(cluster, [group("g", "orders", 2)])
    cluster.see(*(hanging("orders", n, b"p-%d" % n, n) for n in (1, 2, 3)))
    html = page_of(url)
    assert h1(html) == "3 transactions hang. They will not heal by themselves."
    assert "p-2 has blocked orders-2 for 21 s. Group g is stopped." in words_of(html, "verdict")
    assert words_of(html, "chain").count("will not heal by itself") == 3


def test_a_decision_to_commit_is_named_before_somebody_aborts_it(cluster: WithPartitions, url: str) -> None:
    cluster.read([Id(b"payments-3", producer_id=7)])
    cluster.look(*on("payments", 7, entry(7)))
    cluster.see(hanging(decision="commit", bootstrap=None))
    html = page_of(url)
    assert "The coordinator committed it: do not abort it" in words_of(html, "verdict")
    assert "committed: do not abort it, it needs a COMMIT marker" in words_of(html, "chain")
    assert "command is ready" not in words_of(html)


def test_of_several_the_committed_one_is_told_apart(cluster: WithPartitions, url: str) -> None:
    cluster.read([Id(b"p-%d" % n, producer_id=n) for n in (1, 2)])
    cluster.look(*(fact for n in (1, 2) for fact in on("orders", n, entry(n))))
    cluster.see(hanging("orders", 1, b"p-1", 1), hanging("orders", 2, b"p-2", 2, decision="commit", bootstrap=None))
    assert "1 of them was committed by the coordinator: do not abort it" in words_of(page_of(url), "verdict")
    wait(cluster, [group("g", "orders", 2)])
    assert "The coordinator committed that of p-2: do not abort it" in words_of(page_of(url), "verdict")


def test_a_decision_that_is_not_known_has_no_command(cluster: WithPartitions, url: str) -> None:
    cluster.look(*on("payments", 7, entry(7)))
    cluster.see(hanging(decision="unknown", bootstrap=None))
    assert "the decision is not known: no command" in words_of(page_of(url), "chain")


def test_what_hangs_behind_another_heads_the_page_too(cluster: WithPartitions, url: str) -> None:
    cluster.read([Id(b"payments-3", producer_id=7)])
    cluster.look(moving_partition(7, "payments"))
    cluster.see(hanging())
    html = page_of(url)
    assert h1(html).startswith("1 transaction hangs.")
    assert "payments-7: the transaction of payments-3 (producer id 7, epoch 3)" in words_of(html, "verdict")
    assert any(link.endswith("#do") for link in links_of(html))
    assert "hanging" in words_of(html, "others")
