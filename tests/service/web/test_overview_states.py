"""The overview where not all is known, fresh, or to be heard of: the words that people read."""

from __future__ import annotations

import re

import pytest

from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.reasons.unread import NoBroker, NoTransactionLog, TransactionsSeen
from service.domain.source_state import SourceName
from service.domain.transaction_log.facts import LogBatch
from service.domain.transaction_log.states import TOPIC
from service.store import lease, progress
from service.store.writers.findings import FindingWriter
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions, entry, moving_partition, unanswered_partition
from tests.helpers.reasons import denied
from tests.helpers.stores import NOW_MS, Id
from tests.service.web.opened import h1, links_of, page_of, quiet, words_of
from tests.service.web.stories import DENIED, HOUR_MS, empty_store, group, hanging, on, tell, wait

pytestmark = pytest.mark.cluster(of=empty_store)


def test_nothing_hangs_in_what_can_be_judged(cluster: WithPartitions, url: str) -> None:
    quiet(cluster)
    cluster.look(unanswered_partition(DENIED, 0, "hr.payroll"))
    html = page_of(url)
    assert h1(html) == "Nothing hangs in the 2 of 3 partitions that can be judged."
    assert "verdict--info" in html
    assert "verdict--ok" not in html
    assert "1 partition cannot be judged: no permission on topic hr.payroll" in words_of(html, "verdict")
    assert "/clusters/prod-eu/pipeline#unknown" in links_of(html)


def test_nothing_hangs_while_some_is_left_out(cluster: WithPartitions, url: str) -> None:
    quiet(cluster)
    FindingWriter(cluster.engine, cluster.lease).save_truncated({Kind.HANGING: 50})
    html = page_of(url)
    assert h1(html) == "Nothing hangs as far as was read."
    assert "verdict--ok" not in html
    assert "cannot be judged" not in words_of(html, "verdict")
    assert "Left out, too many at once: 50 hanging_transaction." in words_of(html, "verdict")


def test_what_is_muted_is_marked_and_does_not_head_the_page(cluster: WithPartitions, url: str) -> None:
    cluster.read([Id(b"payments-3", producer_id=7)])
    cluster.look(*on("payments", 7, entry(7)))
    cluster.see(hanging(muted_until_ms=NOW_MS + HOUR_MS, owner="payments team"))
    html = page_of(url)
    assert h1(html) == "1 hanging transaction is muted. Nothing else hangs."
    assert "verdict--info" in html
    assert "payments-3 hanging muted" in words_of(html, "chain")
    assert "Hanging transactions 1 will not heal by itself; 1 muted" in words_of(html, "facts")
    assert h1(page_of(url, HOUR_MS)).startswith("Unknown"), "an hour without data"


def test_no_transactions_yet(cluster: WithPartitions, url: str) -> None:
    cluster.read()
    cluster.look(moving_partition(0))
    html = page_of(url)
    assert h1(html) == "No transactions seen yet."
    assert "If you expected transactions" in words_of(html)
    assert "broker-1:9092" in words_of(html, "expected")
    assert "cluster id kafka-prod-eu" in words_of(html, "expected")
    assert "Commits none in the last 5 m" in words_of(html, "facts")


def test_the_first_read_shows_its_progress_and_no_numbers(cluster: WithPartitions, url: str) -> None:
    """Half of the history is read, of one of the two partitions of another log all."""
    history = empty_store(url, "first", partitions=0, started_ms=NOW_MS - 60_000)
    with history.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE clusters SET counted_since_ms = NULL WHERE id = {history.id}")
    starts = [progress.PartitionStart(p, "T", 1, 5, 0, end) for p, end in ((0, 100), (1, 2))]
    progress.start_positions(history.engine, history.lease, SourceName.TRANSACTION_LOG, TOPIC, starts, NOW_MS - 40_000)
    history._next = {0: 0, 1: 0}
    history.read((Id(b"a-%d" % n) for n in range(49)), behind=51)
    history.read((Id(b"b-%d" % n) for n in range(2)), partition=1)
    history.close()
    html = page_of(url, path="/clusters/first")
    words = words_of(html, "content")
    assert h1(html) == "Reading the transaction log: 50 %, about 40 s left."
    assert "Nothing is judged before the log is read to its end" in words
    assert "1 of 2 log partitions are at their end" in words
    assert "51 of 102 offsets" in words
    assert "unknown until the log is read" in words
    assert "Hanging transactions" not in words
    assert "First read, 50 %" in words_of(html, "live")


def test_nothing_was_read_at_all(cluster: WithPartitions, url: str) -> None:
    cluster.writer.report_trouble(NoBroker("kafka:9092"))
    html = page_of(url)
    assert h1(html) == "Unknown: nothing of prod-eu has been read yet."
    assert "No complete read of the transaction log: no broker of kafka:9092 answers;" in words_of(html, "verdict")
    assert "Hanging transactions" not in words_of(html)
    assert "Nothing read yet" in words_of(html, "live")


def test_stale_data_are_the_last_known(url: str) -> None:
    tell(url).close()
    html = page_of(url, 43_000)
    words = words_of(html)
    assert h1(html) == "Last known: 1 transaction hangs. It will not heal by itself."
    assert "Nothing new of the transaction log and the data partitions since 14:13:50 (43 s): no streaming" in words
    assert "What you see is the state of 14:13:50. Nothing new is judged until reading goes on." in words
    assert "As of 14:13:50, payments-3 blocked payments-7 since 14:13:30. Group settlement was stopped" in words
    assert "fraud-scoring was about to stop." in words
    assert "Not checked since then." in words
    assert 'class="content is-old"' in html
    assert "Late, data 43 s old" in words_of(html, "live")


def test_old_data_without_a_finding_are_not_green(cluster: WithPartitions, url: str) -> None:
    quiet(cluster)
    html = page_of(url, 43_000)
    assert h1(html) == "Last known: nothing hung. Nothing new is judged."
    assert "verdict--ok" not in html


def test_kafka_is_away(url: str) -> None:
    cluster = tell(url)
    cluster.read(trouble=NoBroker("kafka:9092"))
    lease.renew(cluster.engine, cluster.lease, NOW_MS + 371_000)
    cluster.close()
    html = page_of(url, 372_000)
    words = words_of(html, "content")
    assert h1(html) == "Unknown: no broker of prod-eu has answered for 6 m 12 s."
    assert (
        "No complete read of the transaction log since 14:13:50 (6 m 12 s): no broker of kafka:9092 answers." in words
    )
    assert "Nothing new of the data partitions since 14:13:50 (6 m 12 s): the streaming application runs but" in words
    assert "It cannot be said whether anything hangs now." in words
    assert "Below is the last state that was seen, at 14:13:50: 1 transaction hung then." in words
    assert "transaction_state 14:13:50 no broker of kafka:9092 answers" in words
    assert "Last known state, 14:13:50 6 m 12 s old: do not act on it without a fresh look" in words
    assert "Stopped, data 6 m 12 s old" in words_of(html, "live")
    assert "<title>Unknown · prod-eu · txnscope</title>" in html


def test_nobody_writes_the_store(url: str) -> None:
    tell(url).close()
    words = words_of(page_of(url, 372_000), "verdict")
    assert "nothing of prod-eu has been read for 6 m 12 s" in words
    assert (
        "Nothing new of the transaction log and the data partitions since 14:13:50 (6 m 12 s):"
        " no streaming application reads this cluster; the last one died or makes no progress."
    ) in words


def test_without_the_log_the_rest_stays_fresh(cluster: WithPartitions, url: str) -> None:
    """A log without permission makes its partitions unknown, not all data old."""
    cluster.writer.report_trouble(denied("__transaction_state"))
    cluster.look(moving_partition(0))
    html = page_of(url)
    assert "Live, data 1.2 s old" in words_of(html, "live")
    assert h1(html) == "Nothing hangs. Nothing is blocked.", "not that there are no transactions"
    assert "no permission on topic __transaction_state: grant READ on it" in words_of(html, "verdict")
    assert "history of transactions are not known" in words_of(html, "verdict")


def test_brokers_without_a_log_are_no_cluster_without_transactions(url: str) -> None:
    other = empty_store(url, "other", partitions=0)
    other.look(moving_partition(0))
    other.writer.apply(LogBatch((), (), (), NoTransactionLog(TransactionsSeen.LISTED)), NOW_MS)
    html = page_of(url, path="/clusters/other")
    assert h1(html) == "Nothing hangs. Nothing is blocked."
    assert "the brokers list no topic __transaction_state, although they list" in words_of(html, "verdict")
    assert "Open transactions not known the transaction log cannot be read" in words_of(html, "facts")
    for page in ("transactions", "expiring"):
        assert "__transaction_state, although they list transactional ids" in words_of(
            page_of(url, path=f"/clusters/other/{page}"), "content"
        ), page
    assert "Live, data 1.2 s old" in words_of(html, "live")
    other.close()


def test_before_the_first_transaction_there_is_no_log(url: str) -> None:
    new = empty_store(url, "new", partitions=0)
    new.look(moving_partition(0))
    new.writer.apply(LogBatch((), (), ()), NOW_MS)
    html = page_of(url, path="/clusters/new")
    assert h1(html) == "No transactions seen yet."
    assert "Apache Kafka creates the topic with the first transactional.id" in words_of(html, "verdict")
    new.close()


def test_ids_and_groups_are_text_and_never_cut(cluster: WithPartitions, url: str) -> None:
    name = b"<script>alert(1)</script>" + b"x" * 200
    cluster.read([Id(name, producer_id=7)])
    cluster.look(*on("payments", 7, entry(7)))
    wait(cluster, [group("<i>&\"'", "payments", 7)])
    cluster.see(hanging(name=name), observe(Kind.OVERDUE, b"\x00\xff"))
    html = page_of(url)
    assert "<script>alert" not in html
    assert "<i>" not in html
    assert name.decode() in words_of(html, "chain")
    assert "<i>&\"'" in words_of(html, "chain")
    assert "style=" not in html
    assert not re.search(r"\son[a-z]+=", html)


def test_a_muted_event_is_marked_among_the_others(cluster: WithPartitions, url: str) -> None:
    quiet(cluster)
    late = observe(Kind.OVERDUE, b"batch", severity=Severity.CRITICAL, owner="etl", muted_until_ms=NOW_MS + HOUR_MS)
    cluster.see(late, observe(Kind.EXPIRING, b"old", subject=Subject(prefix="old-")))
    words = words_of(page_of(url), "others")
    assert "muted until 15:13:50 by etl" in words
    assert words.index("expiring id") < words.index("overdue")
