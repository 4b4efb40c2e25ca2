"""Tests of the texts on the overview page."""

from __future__ import annotations

import re

import pytest

from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.reasons.unread import DESCRIBE, READ, NoBroker, NoTransactionLog, TransactionsSeen
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogBatch, Participants
from service.domain.transaction_log.states import TOPIC
from service.store import lease, progress
from service.store.writers.findings import FindingWriter
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions, entry, moving_partition, unanswered_partition
from tests.helpers.reasons import denied
from tests.helpers.stores import NOW_MS, Id
from tests.service.store.histories import MINUTE, committed
from tests.service.store.logs import batch, read
from tests.service.web.page_text import shows
from tests.service.web.stories import (
    DENIED,
    HOUR_MS,
    empty_store,
    group,
    hanging,
    on,
    overview,
    quiet,
    tell,
    wait,
)

pytestmark = pytest.mark.cluster(of=empty_store)


def test_the_page_shows_the_incident_of_the_design(url: str) -> None:
    tell(url).close()
    page = overview(url)
    words = page.texts["content"]
    assert page.title == "1 transaction hangs. No coordinator is set to end it."
    assert shows(words, "payments-3", "payments-7", "21 s", "settlement", "fraud-scoring", "19 offsets")
    assert shows(words, "2 more partitions", "ledger-4", "broker 1", "settlements-2", "47 s")
    assert shows(words, "aborts itself", "47 s", "14:14:38", "14:14:53")
    assert "PrepareCommit" in words
    assert shows(words, "6 partitions", "hr.payroll", "READ")
    assert "<title>1 hanging · prod-eu · txnscope</title>" in page.html


def test_each_of_six_facts_has_its_context(url: str) -> None:
    tell(url).close()
    words = overview(url).texts["facts"]
    assert shows(words, "Hanging transactions 1", "Blocked partitions 3", "of 11 watched", "6 unknown")
    assert shows(words, "Groups waiting 3", "1 more", "Open transactions 2", "9 m 13 s", "settlement-nightly")
    assert re.search(r"Commits [0-9]+ /s over the last 5 m", words)
    assert re.search(r"Aborts < 0.01 % last hour: 43 of 1.22 M$", words)


def test_medians_are_shown_where_they_were_counted(cluster: WithPartitions, url: str) -> None:
    logged = [entry for n in range(5) for entry in committed(3 * n, MINUTE - 90_000, b"a-%d" % n, markers_ms=20)]
    cluster.writer.apply(batch(logged, read(0, 15, partition=1)), NOW_MS - 90_000)
    quiet(cluster)
    assert shows(overview(url).texts["facts"], "half took at most 100 ms", "markers 25 ms")


def test_rates_are_unknown_before_a_whole_minute_was_counted(url: str) -> None:
    cluster = empty_store(url, started_ms=NOW_MS - 20_000)
    cluster.read([Id(b"a")])
    cluster.look(moving_partition())
    cluster.close()
    assert shows(overview(url).texts[""], "Commits not known yet", "No whole minute")


def test_other_findings_are_listed_with_the_worst_first(url: str) -> None:
    tell(url).close()
    page = overview(url)
    words = page.texts["others"]
    assert "3 open" in words
    places = [words.index(kind) for kind in ("fencing conflict", "coverage gap", "expiring id")]
    assert places == sorted(places)
    assert shows(words, "14 times", "goes on as long as its cause", "unknown")
    assert any(link.endswith("/transaction?id=orders-etl-0") for link in page.links.values())
    assert any("/findings/" in link for link in page.links.values())


def test_the_page_shows_transactions_ended_in_the_last_hour(url: str) -> None:
    tell(url).close()
    page = overview(url)
    words = page.texts["ended"]
    assert "1.22 M transactions" in words
    assert shows(words, "A client abort 29", "T timeout 14", "F fenced 0", "? unattributed 0")
    assert "13:13 13:43 14:13" in words
    assert page.html.count('class="tx tx--timeout"') == 10
    assert "between 10,600 and 30,100 commits" in page.html


def test_the_headline_is_green_when_nothing_hangs(cluster: WithPartitions, url: str) -> None:
    quiet(cluster)
    cluster.see(hanging("orders", 0))
    cluster.see(now_ms=NOW_MS)
    page = overview(url)
    words = page.texts["verdict"]
    assert page.title == "Nothing hangs. Nothing is blocked."
    assert shows(words, "2 partitions", "1.2 s", "1 transaction", "4.4 s", "orders-0", "resolved 1.2 s ago")
    assert "No partition is blocked." in page.texts[""]
    assert "Hanging transactions 0 confirmed only after 3 steps" in page.texts["facts"]
    assert "Resolved in the last 24 hours: 1" in page.texts[""]
    assert "verdict--ok" in page.html


def test_the_headline_names_a_blocked_partition_when_nothing_hangs(cluster: WithPartitions, url: str) -> None:
    own = Id(b"slow", states.ONGOING, start_ms=NOW_MS - 20_000, producer_id=7, timeout_ms=60_000)
    cluster.read([own._replace(topics=(Participants("orders", (0,)),))])
    cluster.look(*on("orders", 0, entry(7)))
    wait(cluster, [group("reporting", "orders", 0)])
    page = overview(url)
    assert page.title == "Nothing hangs. 1 partition is blocked."
    assert shows(page.texts["verdict"], "slow", "orders-0", "21 s", "39 s", "reporting")


def test_the_hanging_transaction_with_most_stopped_groups_is_named(cluster: WithPartitions, url: str) -> None:
    cluster.read([Id(b"p-%d" % n, producer_id=n) for n in (1, 2, 3)])
    cluster.look(*(fact for n in (1, 2, 3) for fact in on("orders", n, entry(n))))
    wait(cluster, [group("g", "orders", 2)])
    cluster.see(*(hanging("orders", n, b"p-%d" % n, n) for n in (1, 2, 3)))
    page = overview(url)
    assert page.title == "3 transactions hang. No coordinator is set to end them."
    assert shows(page.texts["verdict"], "p-2", "orders-2", "21 s", "g")
    assert "Hanging transactions 3 no coordinator is set to end them" in page.texts["facts"]
    assert page.texts["chain"].count("no coordinator is set to end it") == 3


def test_a_decision_to_commit_heads_the_page_with_a_warning(cluster: WithPartitions, url: str) -> None:
    cluster.read([Id(b"payments-3", producer_id=7)])
    cluster.look(*on("payments", 7, entry(7)))
    cluster.see(hanging(decision="commit", bootstrap=None))
    page = overview(url)
    assert "do not abort it" in page.texts["verdict"]
    assert shows(page.texts["chain"], "do not abort it", "COMMIT")
    assert "command is ready" not in page.texts[""]


def test_a_committed_transaction_among_several_hanging_ones_is_named(cluster: WithPartitions, url: str) -> None:
    cluster.read([Id(b"p-%d" % n, producer_id=n) for n in (1, 2)])
    cluster.look(*(fact for n in (1, 2) for fact in on("orders", n, entry(n))))
    cluster.see(hanging("orders", 1, b"p-1", 1), hanging("orders", 2, b"p-2", 2, decision="commit", bootstrap=None))
    assert shows(overview(url).texts["verdict"], "1 of them", "committed", "do not abort it")
    wait(cluster, [group("g", "orders", 2)])
    assert shows(overview(url).texts["verdict"], "committed", "p-2", "do not abort it")


def test_an_unknown_decision_has_no_command(cluster: WithPartitions, url: str) -> None:
    cluster.look(*on("payments", 7, entry(7)))
    cluster.see(hanging(decision="unknown", bootstrap=None))
    assert shows(overview(url).texts["chain"], "not known", "no command")


def test_a_hang_on_a_partition_that_is_not_stalled_heads_the_page_too(cluster: WithPartitions, url: str) -> None:
    cluster.read([Id(b"payments-3", producer_id=7)])
    cluster.look(moving_partition(7, "payments"))
    cluster.see(hanging())
    page = overview(url)
    assert page.title.startswith("1 transaction hangs.")
    assert shows(page.texts["verdict"], "payments-7", "payments-3", "hangs", "stop at 100")
    assert any(link.endswith("#do") for link in page.links.values())
    assert "hanging" in page.texts["others"]


def test_the_headline_counts_partitions_that_can_be_judged(cluster: WithPartitions, url: str) -> None:
    quiet(cluster)
    cluster.look(unanswered_partition(DENIED, 0, "hr.payroll"))
    page = overview(url)
    assert page.title == "Nothing hangs in the 2 of 3 partitions that can be judged."
    assert "Hanging transactions 0 where partitions can be judged" in page.texts["facts"]
    assert "verdict--info" in page.html
    assert "verdict--ok" not in page.html
    assert shows(page.texts["verdict"], "1 partition", "hr.payroll")
    assert "/clusters/prod-eu/pipeline#unknown" in page.links.values()


def test_the_headline_is_not_green_while_findings_are_truncated(cluster: WithPartitions, url: str) -> None:
    quiet(cluster)
    FindingWriter(cluster.engine, cluster.lease).save_truncated({Kind.HANGING: 50})
    page = overview(url)
    assert page.title == "Nothing hangs in the part that was read."
    assert "verdict--ok" not in page.html
    assert "cannot be judged" not in page.texts["verdict"]
    assert "50 hanging_transaction" in page.texts["left-out"]


def test_a_muted_finding_is_marked_and_does_not_head_the_page(cluster: WithPartitions, url: str) -> None:
    cluster.read([Id(b"payments-3", producer_id=7)])
    cluster.look(*on("payments", 7, entry(7)))
    cluster.see(hanging(muted_until_ms=NOW_MS + HOUR_MS, owner="payments team"))
    page = overview(url)
    title = "1 hanging transaction is muted. Nothing else hangs. 1 partition is blocked, but its finding is muted."
    assert page.title == title
    assert "verdict--info" in page.html
    assert "payments-3 hanging muted" in page.texts["chain"]
    assert "Hanging transactions 1 no coordinator is set to end it; 1 muted" in page.texts["facts"]
    assert overview(url, HOUR_MS).title.startswith("Unknown"), "after an hour without new data, nothing is known"


def test_nothing_is_claimed_of_a_cluster_whose_topics_are_all_hidden(cluster: WithPartitions, url: str) -> None:
    """Without the DESCRIBE permission, Kafka hides the topics and refuses access to the transaction log."""
    cluster.writer.report_trouble(denied("__transaction_state", DESCRIBE, READ))
    cluster.look()
    page = overview(url)
    assert page.title == "Unknown: no topic that transactions write to is visible."
    assert shows(page.texts["verdict"], "no permission on topic __transaction_state", "It cannot be said")
    for name in ("Hanging transactions", "Blocked partitions", "Groups waiting", "Open transactions"):
        assert f"{name} not known" in page.texts["facts"]
    assert "No partition is blocked" not in page.texts["chain"]
    assert "/clusters/prod-eu/pipeline#unknown" in page.links.values()
    landing = overview(url, path="/").texts["cluster-1"]
    assert "no topic that transactions write to is visible" in landing
    assert shows(landing, "0 open findings")
    assert "open transaction" not in landing
    assert "blocked" not in landing


def test_no_partition_counts_as_free_while_none_can_be_judged(cluster: WithPartitions, url: str) -> None:
    cluster.read([Id(b"a")])
    cluster.look(moving_partition(0, "hr.payroll"))
    cluster.look(unanswered_partition(DENIED, 0, "hr.payroll"))
    page = overview(url)
    assert page.title == "Unknown: none of the partitions can be judged."
    assert shows(page.texts["facts"], "Blocked partitions not known", "Groups waiting not known")
    assert shows(page.texts["chain"], "not known", "1 partition cannot be judged")
    assert "0 blocked" not in overview(url, path="/").texts["cluster-1"]


def test_the_page_reports_that_no_transaction_was_seen_yet(cluster: WithPartitions, url: str) -> None:
    cluster.read()
    cluster.look(moving_partition(0))
    page = overview(url)
    assert page.title == "No transactional.id is in use."
    assert shows(page.texts["expected"], "broker-1:9092", "kafka-prod-eu")
    assert "Commits none" in page.texts["facts"]


def test_the_first_read_shows_its_progress_and_no_numbers(cluster: WithPartitions, url: str) -> None:
    """The first read has reached the middle of partition 0 and the end of partition 1."""
    history = empty_store(url, "first", partitions=0, started_ms=NOW_MS - 60_000)
    with history.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE clusters SET counted_since_ms = NULL WHERE id = {history.id}")
    starts = [progress.PartitionStart(p, "T", 1, 5, 0, end) for p, end in ((0, 100), (1, 2))]
    progress.start_positions(history.engine, history.lease, SourceName.TRANSACTION_LOG, TOPIC, starts, NOW_MS - 40_000)
    history._next = {0: 0, 1: 0}
    history.read((Id(b"a-%d" % n) for n in range(49)), behind=51)
    history.read((Id(b"b-%d" % n) for n in range(2)), partition=1)
    history.close()
    page = overview(url, path="/clusters/first")
    words = page.texts["content"]
    assert page.title == "Reading the transaction log: 50 %, about 40 s left."
    assert shows(words, "1 of 2 log partitions", "51 of 102 offsets")
    assert "Hanging transactions" not in words
    assert "First read, 50 %" in page.texts["live"]


def test_the_page_is_unknown_if_nothing_was_read(cluster: WithPartitions, url: str) -> None:
    cluster.writer.report_trouble(NoBroker("kafka:9092"))
    page = overview(url)
    assert page.title == "Unknown: nothing of prod-eu has been read yet."
    assert shows(page.texts["verdict"], "the transaction log", "kafka:9092")
    assert "Hanging transactions" not in page.texts[""]
    assert "Nothing read yet" in page.texts["live"]


def test_stale_data_are_marked_as_last_known(url: str) -> None:
    tell(url).close()
    page = overview(url, 43_000)
    words = page.texts[""]
    assert page.title == "Last known: 1 transaction hangs. No coordinator is set to end it."
    assert shows(words, "the transaction log and the data partitions", "14:13:50 (43 s)")
    assert shows(words, "As of 14:13:50", "payments-3", "payments-7", "14:13:30", "settlement", "fraud-scoring")
    assert 'class="content is-old"' in page.html
    assert "Late, data 43 s old" in page.texts["live"]


def test_old_data_without_a_finding_are_not_green(cluster: WithPartitions, url: str) -> None:
    quiet(cluster)
    page = overview(url, 43_000)
    assert page.title == "Last known: nothing hung. Nothing new is judged."
    assert "verdict--ok" not in page.html


def test_the_page_is_unknown_while_no_broker_answers(url: str) -> None:
    cluster = tell(url)
    cluster.read(trouble=NoBroker("kafka:9092"))
    lease.renew(cluster.engine, cluster.lease, NOW_MS + 371_000)
    cluster.close()
    page = overview(url, 372_000)
    words = page.texts["content"]
    assert page.title == "Unknown: no broker of prod-eu has answered for 6 m 12 s."
    assert shows(words, "the transaction log", "14:13:50 (6 m 12 s)", "no broker of kafka:9092 answers")
    assert shows(words, "the data partitions", "14:13:50 (6 m 12 s)", "the streaming application runs")
    assert shows(words, "at 14:13:50", "1 transaction hung", "transaction_state 14:13:50", "Last known state, 14:13:50")
    assert "Stopped, data 6 m 12 s old" in page.texts["live"]
    assert "<title>Unknown · prod-eu · txnscope</title>" in page.html


def test_a_missing_streaming_application_is_named(url: str) -> None:
    tell(url).close()
    words = overview(url, 372_000).texts["verdict"]
    assert shows(
        words, "prod-eu", "6 m 12 s", "the transaction log and the data partitions", "no streaming application"
    )


def test_data_of_partitions_stay_fresh_without_the_log(cluster: WithPartitions, url: str) -> None:
    """Without READ permission on the transaction log, data of the partitions stay current, and only facts from the log
    are unknown."""
    cluster.writer.report_trouble(denied("__transaction_state"))
    cluster.look(moving_partition(0))
    page = overview(url)
    assert "Live, data 1.2 s old" in page.texts["live"]
    assert page.title == "Nothing hangs. Nothing is blocked.", (
        "the headline must not claim that there are no transactions"
    )
    assert shows(page.texts["verdict"], "__transaction_state", "READ", "not known")


def test_a_missing_log_does_not_mean_that_there_are_no_transactions(url: str) -> None:
    other = empty_store(url, "other", partitions=0)
    other.look(moving_partition(0))
    other.writer.apply(LogBatch((), (), (), NoTransactionLog(TransactionsSeen.LISTED)), NOW_MS)
    page = overview(url, path="/clusters/other")
    assert page.title == "Nothing hangs. Nothing is blocked."
    assert "__transaction_state" in page.texts["verdict"]
    assert "Open transactions not known" in page.texts["facts"]
    for name in ("transactions", "expiring"):
        assert "__transaction_state" in overview(url, path=f"/clusters/other/{name}").texts["content"], name
    assert "Live, data 1.2 s old" in page.texts["live"]
    other.close()


def test_a_missing_log_is_expected_before_the_first_transaction(url: str) -> None:
    new = empty_store(url, "new", partitions=0)
    new.look(moving_partition(0))
    new.writer.apply(LogBatch((), (), ()), NOW_MS)
    page = overview(url, path="/clusters/new")
    assert page.title == "No transactional.id is in use."
    assert "the first transactional.id" in page.texts["verdict"]
    new.close()


def test_ids_and_groups_are_escaped_and_never_cut(cluster: WithPartitions, url: str) -> None:
    name = b"<script>alert(1)</script>" + b"x" * 200
    cluster.read([Id(name, producer_id=7)])
    cluster.look(*on("payments", 7, entry(7)))
    wait(cluster, [group("<i>&\"'", "payments", 7)])
    cluster.see(hanging(name=name), observe(Kind.OVERDUE, b"\x00\xff"))
    page = overview(url)
    assert "<script>alert" not in page.html
    assert "<i>" not in page.html
    assert name.decode() in page.texts["chain"]
    assert "<i>&\"'" in page.texts["chain"]
    assert "style=" not in page.html
    assert not re.search(r"\son[a-z]+=", page.html)


def test_a_muted_event_is_marked_among_the_others(cluster: WithPartitions, url: str) -> None:
    quiet(cluster)
    late = observe(Kind.OVERDUE, b"batch", severity=Severity.CRITICAL, owner="etl", muted_until_ms=NOW_MS + HOUR_MS)
    cluster.see(late, observe(Kind.EXPIRING, b"old", subject=Subject(prefix="old-")))
    words = overview(url).texts["others"]
    assert "muted until 15:13:50 by etl" in words
    assert words.index("expiring id") < words.index("overdue")
