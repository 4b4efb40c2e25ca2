"""Tests of tables at a terminal: the history of an id, findings, and ids that expire soon."""

from __future__ import annotations

import json

from service.domain.findings.kinds import Kind
from service.domain.transaction_log import states
from service.store import clusters
from tests.helpers.findings import WithFindings, observe
from tests.helpers.stores import DESCRIPTION, NOW_MS
from tests.helpers.terminal import Ask
from tests.service.store.histories import MINUTE, aborted, committed
from tests.service.store.logs import batch, entry, read


def test_the_transaction_command_explains_the_last_abort_in_words(cluster: WithFindings, ask: Ask) -> None:
    log = [entry(0, states.EMPTY, at_ms=MINUTE - 300_000), *committed(1, MINUTE - 240_000)]
    log += [*aborted(4, MINUTE - 60_000), *committed(7, MINUTE), *committed(10, MINUTE + 1_000)]
    cluster.writer.apply(batch(log, read(0, len(log))), NOW_MS)
    code, out, err = ask("transaction", "pay")
    assert (code, err) == (0, "")
    facts, why, table = out.split("\n\n")
    assert ["aborts", "1", "(1", "client)"] in [line.split() for line in facts.splitlines()]
    assert why.split(". ")[0] == "Aborted last at 2026-09-21T14:11:59.990Z: client_abort (likely)".replace("_", " ")
    assert "Aborted by its own client" in why
    heads, newest, complete, prepare, commit, first = table.splitlines()
    assert "counted" not in out, "the timeline begins with the first record of the id"
    assert heads.split() == ["AT", "FROM", "->", "TO", "PRODUCER", "ID", "OPEN", "FOR", "MARKERS", "CAUSE", "NOTE"]
    assert "2 commits" in newest
    assert "1 commit " in commit
    assert "PrepareAbort -> CompleteAbort" in complete
    assert "Ongoing -> PrepareAbort" in prepare
    assert "client abort (likely)" in prepare
    assert "initialized (certain)" in first
    code, out, err = ask("transaction", "pay", "--limit", "2")
    assert "only the newest 2 rows of its timeline are shown (--limit)" in err


def test_an_abort_whose_record_was_written_again_is_explained_by_the_first(cluster: WithFindings, ask: Ask) -> None:
    """The repeated record has no cause of its own."""
    ongoing, prepare, complete = aborted(0, MINUTE)
    again = prepare._replace(record=prepare.record._replace(offset=2))
    log = [ongoing, prepare, again, complete._replace(record=complete.record._replace(offset=3))]
    cluster.writer.apply(batch(log, read(0, len(log))), NOW_MS)
    code, out, err = ask("transaction", "pay")
    assert (code, err) == (0, "")
    assert "Aborted last at" in out


def test_an_id_that_was_never_aborted_has_no_explanation(cluster: WithFindings, ask: Ask) -> None:
    log = committed(0, MINUTE)
    cluster.writer.apply(batch(log, read(0, len(log))), NOW_MS)
    assert "Aborted" not in ask("transaction", "pay")[1]


def test_a_timeline_from_the_middle_says_since_when_commits_are_counted(cluster: WithFindings, ask: Ask) -> None:
    history = [*aborted(0, MINUTE - 900_000), *committed(3, MINUTE - 840_000)]
    cluster.writer.apply(batch(history, read(0, 6, counts=False)), NOW_MS)
    cluster.writer.apply(batch(committed(6, MINUTE), read(6, 9)), NOW_MS)
    says = "From 2026-09-21T14:03:50.123Z on, ordinary commits are counted by minute instead of listed."
    assert says in ask("transaction", "pay")[1].splitlines()
    assert says not in ask("transaction", "pay", "--limit", "1")[1].splitlines(), (
        "the note is shown, although all rows shown are newer"
    )
    assert json.loads(ask("transaction", "pay", "--json")[1])["counted_since"] == "2026-09-21T14:03:50.123Z"


def test_the_findings_command_lists_open_findings_unless_all_are_requested(cluster: WithFindings, ask: Ask) -> None:
    cluster.read(now_ms=NOW_MS)
    cluster.see(observe(), observe(Kind.LONG_RUNNING, name=b"flink", owner="etl", muted_until_ms=NOW_MS))
    cluster.see(observe(Kind.LONG_RUNNING, name=b"flink", owner="etl", muted_until_ms=NOW_MS), now_ms=NOW_MS + 1)
    code, out, err = ask("findings")
    heads, row = out.splitlines()
    assert (code, heads.split()) == (0, ["SEVERITY", "STATUS", "KIND", "OPENED", "COUNT", "FINDING", "ID"])
    assert row.split()[:3] == ["warning", "confirmed", "long_running_transaction"]
    assert "read_committed consumers may wait behind it on orders-0 [etl] (muted until 2026-09-21T14:13:50.123Z)" in row
    assert err.startswith("1 row as of 2026")
    assert len(ask("findings", "--all")[1].splitlines()) == 3
    code, out, _ = ask("findings", "--all", "--kind", "overdue_transaction", "--json")
    (item,) = json.loads(out)["items"]
    assert (item["status"], item["resolution"]) == ("resolved", "healed")
    assert "there are more" not in err


def test_an_unknown_producer_id_is_reported_in_one_line(cluster: WithFindings, ask: Ask) -> None:
    log = [*committed(0, MINUTE - 60_000, pid=7), *committed(3, MINUTE, pid=8)]
    cluster.writer.apply(batch(log, read(0, len(log))), NOW_MS)
    for more in ((), ("--json",), ("--state", "Ongoing")):
        reported = ask("transactions", "--producer-id", "9", *more)
        words = "txnscope transactions: cluster 'orders' has no transactional id with producer id 9\n"
        assert reported == (2, "", words)
    assert ask("transactions", "--producer-id", "7")[0] == 0, "pay had producer id 7 before"


def test_expiring_ids_are_listed_soonest_first(cluster: WithFindings, ask: Ask) -> None:
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)  # the ids expire after an hour
    log = [
        entry(0, states.EMPTY, b"soon", at_ms=NOW_MS - 3_000_000),
        entry(1, states.EMPTY, b"past", at_ms=NOW_MS - 3_700_000),
    ]
    cluster.writer.apply(batch(log, read(0, 2)), NOW_MS)
    code, out, _ = ask("expiring", "--within", "1h")
    heads, past, soon = out.splitlines()
    assert (code, heads.split()[0]) == (0, "TRANSACTIONAL.ID")
    assert past.split()[:2] == ["past", "past"]
    assert soon.split()[:3] == ["soon", "10m", "0s"]
    assert ask("expiring", "--within", "5m")[1].splitlines()[1:] == [past]
