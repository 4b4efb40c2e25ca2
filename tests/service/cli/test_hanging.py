"""Tests of `txnscope hanging` and `txnscope partitions` as users and scripts run them: tables and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.cli.commands import hanging
from service.cli.rest import Service
from service.domain.findings.finding import Subject
from service.domain.partitions.group_offsets import OFFSETS_TOPIC, GroupOffset, offsets_partition
from service.domain.reasons.unread import NoBroker
from service.domain.worlds.verdict import Proof, ProofKind, World
from service.store.writers.groups import GroupWriter
from tests.helpers.partitions import (
    WithPartitions,
    entry,
    hanging_finding,
    moving_partition,
    owner,
    read,
    stalled_partition,
    unanswered_partition,
)
from tests.helpers.paths import ROOT
from tests.helpers.stores import NOW_MS
from tests.helpers.terminal import Ask, service_of


@pytest.fixture
def ask(cluster: WithPartitions, tmp_path: Path) -> Iterator[Ask]:
    """Yields a function that runs `txnscope …` in a child process against a service over the cluster's store.

    The function returns the exit code, stdout and stderr.
    """
    ours = {k: v for k, v in os.environ.items() if not k.startswith("TXNSCOPE_")} | {"PYTHONPATH": str(ROOT)}
    with service_of(cluster.url) as url:

        def run(name: str, *arguments: str) -> tuple[int, str, str]:
            command = [sys.executable, "-m", "service.cli", name, "--url", url, *arguments]
            done = subprocess.run(command, cwd=tmp_path, env=ours, capture_output=True, text=True)
            return done.returncode, done.stdout, done.stderr

        yield run


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_each_row_has_owner_place_start_blocked_groups_and_remediation(cluster: WithPartitions, ask: Ask) -> None:
    at_ms = now_ms()
    cluster.look(moving_partition(at_ms=at_ms), at_ms=at_ms)
    paste = "kafka-transactions.sh --bootstrap-server b:9092 abort --topic orders --partition 0 --start-offset 100"
    stuck = hanging_finding(blocked_groups=("billing", "audit"), decision="none", bootstrap="b:9092", owner="team-a")
    proof = Proof(ProofKind.EPOCH, at_ms, "orders-0@100", "1 transaction wrote under other epochs than the entry's, 3")
    stuck = stuck._replace(possible=(World.ABORT, World.NONE), proofs=(proof,))
    cluster.see(stuck, hanging_finding(1, 8, None, decision="commit"), now_ms=at_ms - 200_000)
    code, out, err = ask("hanging")
    assert (code, err) == (1, "")
    blocks = {block.split("  ")[0]: block for block in out.strip().split("\n\n")}
    first, second = blocks["orders-0"], blocks["orders-1"]
    facts = dict(line.split(maxsplit=1) for line in first.splitlines()[:7])
    assert "possible    abort or none" in first
    assert "by epoch    1 transaction wrote under other epochs" in first
    assert facts["orders-0"] == "offset 100"
    assert facts["who"] == "pay, producer id 7 epoch 3 [team-a]"
    assert facts["found"].endswith("Z (3m 20s ago)")
    assert facts["waiting"] == "billing, audit"
    assert facts["decision"].startswith("none: ")
    assert first.splitlines()[-1] == paste, "the command has a line of its own, so that a user can paste it"
    assert "no transactional.id is known, producer id 8" in second
    assert "no known consumer group" in second
    assert "decision    commit: its coordinator committed it" in second
    assert "kafka-transactions.sh --bootstrap-server" not in second


def test_no_hanging_transaction_is_reported_with_the_judged_partitions(cluster: WithPartitions, ask: Ask) -> None:
    at_ms = now_ms()
    cluster.look(moving_partition(at_ms=at_ms), moving_partition(1, at_ms=at_ms), at_ms=at_ms)
    code, out, err = ask("hanging")
    assert (code, err) == (0, "")
    assert out.startswith("no confirmed hanging transaction: all 2 watched partitions are judged, as of 20")
    page = json.loads(ask("hanging", "--json")[1])
    assert page["items"] == []
    assert page["coverage"] == {"watched": 2, "judged": 2, "unknown": 0, "why": None}


def test_unjudged_partitions_leave_no_all_clear(cluster: WithPartitions, ask: Ask) -> None:
    at_ms = now_ms()
    cluster.look(moving_partition(at_ms=at_ms), unanswered_partition("no leader", 1, at_ms=at_ms), at_ms=at_ms)
    code, out, err = ask("hanging")
    assert code == 4
    assert "no confirmed hanging transaction: 1 of 2 watched partitions are judged" in out
    assert err == "not everything can be judged: orders-1: no leader\n"
    assert ask("hanging", "--allow-partial")[0] == 0
    assert ask("hanging", "--json")[0] == 4
    cluster.see(hanging_finding())
    assert ask("hanging", "--allow-partial")[0] == 1, (
        "a hanging transaction decides the exit code before unjudged partitions do"
    )


def test_the_reason_is_named_where_nothing_was_sampled_and_nothing_fails() -> None:
    """The coverage contains no reason, for example if the cluster has no transaction log. The command then says that no
    data partition has been sampled."""
    asked = Service.__new__(Service)  # gets no request
    assert hanging._gap({"why": None}, None, asked) == "no data partition has been sampled yet"


@pytest.mark.parametrize("looked", ["never", "in trouble", "long ago", "set back", "at nothing"])
def test_without_a_recent_sample_there_is_no_all_clear(cluster: WithPartitions, ask: Ask, looked: str) -> None:
    says = {
        "never": "data partitions are not watched",
        "in trouble": "no broker of b:9092 answers",
        "long ago": "the last sample of the partitions is ",
        "set back": "the last sample of the partitions is ",
        "at nothing": "no topic is visible: there is none, or DESCRIBE is denied",
    }[looked]
    if looked == "in trouble":
        cluster.partitions.report_trouble(NoBroker("b:9092"))
    if looked == "long ago":
        cluster.look(moving_partition(at_ms=NOW_MS), at_ms=NOW_MS)
    if looked == "set back":
        cluster.look(moving_partition(at_ms=now_ms() + 60_000), at_ms=now_ms() + 60_000)
    if looked == "at nothing":
        cluster.look(at_ms=now_ms())
    code, _, err = ask("hanging")
    assert code == 4
    assert err.startswith(f"not everything can be judged: {says}")


def test_partitions_are_printed_as_a_table(cluster: WithPartitions, ask: Ask) -> None:
    cluster.read([owner(b"pay")])
    cluster.look(
        stalled_partition(),
        read(entry()),
        stalled_partition(1),
        read(entry(99), partition=1),
        moving_partition(2),
        moving_partition(0, "audit"),
    )
    code, out, err = ask("partitions")
    heads, audit, orders, unknown, well = out.splitlines()
    assert (code, heads.split()[:3]) == (0, ["PARTITION", "LAG", "LSO"])
    assert audit.split() == ["audit-0", "0", "110", "110", "-", "-", "-", "0", "0", "yes"]
    assert orders.split() == ["orders-0", "10", "100", "110", "20s", "pay", "open", "1", "0", "yes"]
    assert "producer id 99" in unknown
    assert "no: producer id 99: no owner of its producer id is known" in unknown
    assert well.split()[0] == "orders-2"
    assert err.startswith("4 rows as of 2026-09-21T14:13:50.123Z")
    assert len(ask("partitions", "--lagging")[1].splitlines()) == 3
    assert len(ask("partitions", "--topic", "audit")[1].splitlines()) == 2
    code, out, _ = ask("partitions", "--lagging", "--limit", "1", "--json")
    page = json.loads(out)
    assert (code, [one["partition"] for one in page["items"]], bool(page["next_cursor"])) == (0, [0], True)
    assert "there are more (--limit)" in ask("partitions", "--limit", "1")[2]


def test_an_unknown_cluster_is_one_line_and_exit_code_2(cluster: WithPartitions, ask: Ask) -> None:
    for name in ("hanging", "partitions"):
        code, out, err = ask(name, "--cluster", "other")
        assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_hang_on_the_offsets_topic_names_the_groups_of_the_offsets(cluster: WithPartitions, ask: Ask) -> None:
    at_ms = now_ms()
    home = offsets_partition("billing", 50)
    others = [moving_partition(number, OFFSETS_TOPIC, at_ms=at_ms) for number in range(50) if number != home]
    cluster.look(stalled_partition(home, OFFSETS_TOPIC, at_ms=at_ms), *others, at_ms=at_ms)
    names = ["billing", *(f"idle-{n}" for n in range(10_000) if offsets_partition(f"idle-{n}", 50) == home)][:2]
    rows = [GroupOffset("billing", "orders", p, -1, 2, True, 7) for p in (0, 3)]
    rows += [
        GroupOffset(names[1], "orders", 1, -1, 0, True, 7),
        GroupOffset("billing", "pay", 0, 5, 2, True, 8),
    ]
    GroupWriter(cluster.engine, cluster.lease).replace(rows, at_ms)
    subject = Subject(OFFSETS_TOPIC, home, b"pay", 7, 3, 100)
    cluster.see(hanging_finding(subject=subject, blocked_groups=("billing",)), now_ms=at_ms)
    code, out, _ = ask("hanging")
    assert code == 1
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "waiting billing" in lines
    assert "offsets of billing on orders-0 and orders-3: a member that starts now waits" in lines
    assert f"offsets of {names[1]} on orders-1: a member that starts now waits" in lines
    assert not any("pay-0" in line for line in lines), "the offset on pay-0 is pending in another transaction"


def test_groups_whose_offsets_are_not_read_are_mentioned(cluster: WithPartitions, ask: Ask) -> None:
    at_ms = now_ms()
    home = offsets_partition("billing", 50)
    cluster.look(stalled_partition(home, OFFSETS_TOPIC, at_ms=at_ms), at_ms=at_ms)
    cluster.see(hanging_finding(subject=Subject(OFFSETS_TOPIC, home, b"pay", 7, 3, 100)), now_ms=at_ms)
    rows = [GroupOffset("billing", "orders", p, -1, 2, True, 7) for p in range(hanging._GROUPS_READ)]
    GroupWriter(cluster.engine, cluster.lease).replace(rows, at_ms)
    mentioned = "only the first 2,000 offsets of groups are read: more groups may wait"
    assert mentioned not in ask("hanging")[2]
    GroupWriter(cluster.engine, cluster.lease).replace([*rows, rows[0]._replace(topic="pay")], at_ms)
    assert mentioned in ask("hanging")[2]
