"""Tests of `txnscope explain --segments`: its answers about the golden segments agree with Kafka's own dumps and
indexes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from service.cli import main
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.batches import ABORT, COMMIT, TRANSACTIONAL, Rec, batch, control_batch
from tests.helpers.paths import GOLDEN
from tests.service.wire.dumps import name_of, read_dump, segments

DATA_LOGS = [pytest.param(log, id=name_of(log)) for log in segments("*/[a-z]*")]
OFFSETS_LOGS = [pytest.param(log, id=name_of(log)) for log in segments("*/__consumer_offsets-*")]
_ABORTED = re.compile(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+)")
_OPEN = re.compile(r"producerId: (\d+) .*currentTxnFirstOffset: OptionalLong\[(\d+)\]")


class Fate(NamedTuple):
    """The kind of one offset, its producer, and the marker that ended its transaction."""

    kind: str
    producer_id: int | None
    marker_offset: int | None


def explained(capsys: pytest.CaptureFixture[str], offset: int, to: int, *files: object) -> list[dict[str, Any]]:
    assert main(["explain", f"@{offset}", "--to", str(to), "--json", "--segments", *map(str, files)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["truncated_at"], answer["as_of"]) == (None, None)
    spans: list[dict[str, Any]] = answer["spans"]
    assert [span["from"] for span in spans] == [offset, *(span["to"] for span in spans[:-1])]
    return spans


def fates(spans: list[dict[str, Any]]) -> dict[int, Fate]:
    return {
        offset: Fate(span["kind"], span["producer_id"], span["marker_offset"])
        for span in spans
        for offset in range(span["from"], span["to"])
    }


def dumped(log: Path) -> dict[int, Fate]:
    """Returns the fate of each offset according to Kafka's dump. The next marker of a producer decides the fate of the
    transactional batches before it."""
    batches = [(batch.words, batch.records) for batch in read_dump(log).batches]
    markers = [(int(w["baseOffset"]), w["producerId"], r[0].marker) for w, r in batches if w["isControl"] == "true"]
    found: dict[int, Fate] = {}
    for words, _ in batches:
        first, last = int(words["baseOffset"]), int(words["lastOffset"])
        pid = int(words["producerId"])
        fate = Fate("non_transactional", None if pid < 0 else pid, None)
        if words["isControl"] == "true":
            fate = Fate("marker", pid, first)
        elif words["isTransactional"] == "true":
            later = [(at, said) for at, whose, said in markers if at > last and whose == words["producerId"]]
            at, said = min(later, default=(None, None))
            kind = {None: "open", "COMMIT": "committed", "ABORT": "aborted"}[said[0] if said else None]
            fate = Fate(kind, pid, at)
        found |= dict.fromkeys(range(first, last + 1), fate)
    gaps = dict.fromkeys(range(min(found), max(found)), Fate("gap", None, None))
    return gaps | found


@pytest.mark.parametrize("log", [*DATA_LOGS, *OFFSETS_LOGS])
def test_every_offset_equals_the_dump_of_kafkas_tool(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = dumped(log)
    assert fates(explained(capsys, min(expected), max(expected) + 1, log)) == expected
    for offset in list(expected)[:: max(len(expected) // 7, 1)]:
        assert fates(explained(capsys, offset, offset + 1, log)) == {offset: expected[offset]}


def test_aborted_transactions_equal_those_of_the_brokers_own_index(capsys: pytest.CaptureFixture[str]) -> None:
    """The first offset and the marker of each aborted transaction equal those in the broker's `.txnindex`."""
    checked = 0
    for log in segments("*/[a-z]*"):
        index = log.with_suffix(".txnindex.dump.txt")
        if not index.exists():
            continue
        expected = {tuple(map(int, entry)) for entry in _ABORTED.findall(index.read_text())}
        begins: dict[tuple[int, int], int] = {}
        for span in explained(capsys, min(dumped(log)), max(dumped(log)) + 1, log):
            if span["kind"] == "aborted":
                begins.setdefault((span["producer_id"], span["marker_offset"]), span["from"])
        reported = {(pid, first, marker) for (pid, marker), first in begins.items()}
        assert reported == expected, log
        checked += len(expected)
    assert checked > 20


def test_open_transactions_equal_those_of_the_brokers_producer_state(capsys: pytest.CaptureFixture[str]) -> None:
    checked = 0
    for snapshot in sorted(segments("main/c-late-0")[0].parents[2].glob("*/*/*.snapshot.dump.txt")):
        log = next(iter(snapshot.parent.glob("*.log")))
        expected = {(int(pid), int(first)) for pid, first in _OPEN.findall(snapshot.read_text())}
        spans = explained(capsys, min(dumped(log)), max(dumped(log)) + 1, log)
        begins: dict[int, int] = {}
        for span in spans:
            if span["kind"] == "open":
                begins.setdefault(span["producer_id"], span["from"])
        assert set(begins.items()) == expected, log
        checked += len(expected)
    assert checked > 0


def test_spans_are_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    (log,) = (log for log in segments("main/c-late-0") if "4.3.1" in log.parts)
    assert main(["explain", "c-late-0@0", "--to", "99", "--segments", str(log.parent)]) == 0
    out, err = capsys.readouterr()
    rows_of_table, sum_of_aborted = out.split("\n\n")
    heads, *rows = [line.split("  ") for line in rows_of_table.splitlines()]
    assert heads[0] == "OFFSETS"
    assert [[cell.strip() for cell in row if cell.strip()][:3] for row in rows] == [
        ["0..1", "aborted", "8 epoch 0"],
        ["2", "marker", "8 epoch 0"],
        ["3..4", "open", "8 epoch 0"],
    ]
    assert "ABORT at 2" in out
    assert " ".join(sum_of_aborted.split()) == (
        "Only aborted records from 0 to 2: 1 transaction of producer id 8, 2 records; an open transaction begins at 3:"
        " read_committed consumers wait there until it ends."
    )
    assert err == "open spans have no marker in these files, which end at offset 5\n"


def test_segments_of_the_coordinators_log_give_names_and_causes(capsys: pytest.CaptureFixture[str]) -> None:
    """The golden scenarios contain clients of the old protocol and of TV2, timeouts, and transactions that an
    administrator ended."""
    main_group = GOLDEN / "4.3.1" / "main"
    reported = {}
    for name in ("a-orders-0", "f-dead-0", "q-force-0", "l-abort-0", "c-late-0"):
        for span in explained(capsys, 0, 5, main_group / name, *main_group.glob("__transaction_state-*")):
            cause = span["cause"] and f"{span['cause']} {span['confidence']}"
            reported[name, span["from"]] = span["kind"], span["transactional_id"], cause
    assert {place: reported[place] for place in SOME} == SOME


SOME = {
    ("a-orders-0", 0): ("committed", "a-shop-1", "commit likely"),
    ("a-orders-0", 3): ("aborted", "a-shop-1", "client_abort likely"),
    ("f-dead-0", 0): ("aborted", "f-old", "timeout likely"),
    ("q-force-0", 0): ("aborted", "q-force-1", "admin ambiguous"),  # the segment ends too soon after the decision
    ("l-abort-0", 0): ("aborted", "l-abort-1", "client_abort likely"),
    # an administrator wrote the marker 1.4 s after the client's abort
    ("l-abort-0", 2): ("aborted", "l-abort-1", "client_abort ambiguous"),
    # an administrator wrote the marker; compaction removed records of the id
    ("l-abort-0", 4): ("aborted", "l-abort-2", None),
    ("c-late-0", 3): ("open", "c-late-1", None),
}


@pytest.fixture
def halves(tmp_path: Path) -> list[Path]:
    """Writes two segments of one partition. Two transactions begin in the first segment and end in the second one: one
    transaction is committed, and one is aborted."""
    data = batch([Rec(b"k", b"v", n) for n in range(3)], 10, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=1)
    other = batch([Rec(b"k", b"v")], 13, attributes=TRANSACTIONAL, producer_id=8, producer_epoch=1)
    first, second = tmp_path / "00000000000000000010.log", tmp_path / "00000000000000000020.log"
    first.write_bytes(data + other)
    second.write_bytes(
        control_batch(COMMIT, 20, producer_id=7, producer_epoch=1)
        + control_batch(ABORT, 21, producer_id=8, producer_epoch=1)
        + bytes(64)  # preallocated
    )
    return [first, second]


def test_a_transaction_may_end_in_another_file(halves: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    expected = {11: Fate("committed", 7, 20), 12: Fate("committed", 7, 20), 13: Fate("aborted", 8, 21)}
    expected |= dict.fromkeys(range(14, 20), Fate("gap", None, None)) | {20: Fate("marker", 7, 20)}
    for files in (halves, halves[::-1], [halves[0].parent]):
        assert fates(explained(capsys, 11, 21, *files)) == expected
    assert fates(explained(capsys, 11, 12, halves[0])) == {11: Fate("open", 7, None)}


def test_a_damaged_batch_leaves_outcomes_unknown(halves: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    spoilt = bytearray(halves[1].read_bytes())
    spoilt[70] ^= 1
    halves[1].write_bytes(spoilt)
    found = fates(explained(capsys, 11, 22, *halves))
    assert found[11] == Fate("unknown", 7, None)
    assert found[13] == Fate("unknown", 8, None), "the damaged batch may be the marker of producer id 8, too"
    assert found[20].kind == "unknown"
    assert found[21] == Fate("marker", 8, 21)
    spoilt[8:12] = (3).to_bytes(4, "big")
    halves[1].write_bytes(spoilt)
    assert main(["explain", "@11", "--to", "22", "--segments", *map(str, halves)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].split()[:2] == ["13", "unknown"]
    assert err == "reading stopped at offset 14: run explain again from that offset\n"


def test_a_long_run_of_aborted_records_has_a_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1,051 aborted transactions have more spans than a table shows."""
    log, offset, nine = bytearray(), 0, [Rec(b"k", b"v", n) for n in range(9)]
    for number in range(1_050):
        for _ in range(2):
            log += batch(nine, offset, producer_id=7 + number % 2, producer_epoch=0, attributes=TRANSACTIONAL)
            offset += 9
            log += batch([Rec(b"k", b"v")], offset, producer_id=9, producer_epoch=0, attributes=TRANSACTIONAL)
            offset += 1
        log += control_batch(ABORT, offset, producer_id=7 + number % 2, producer_epoch=0)
        offset += 1
    log += control_batch(ABORT, offset, producer_id=9, producer_epoch=0)
    log += batch([Rec(b"k", b"v")], offset + 1)
    data, coordinators = tmp_path / "data.log", tmp_path / "log.log"
    data.write_bytes(log)
    coordinators.write_bytes(build.transition("x", 0, timestamp_ms=1, data=build.value(producer_id=7)))
    place = ["explain", "@0", "--to", str(offset + 2), "--segments", str(data), str(coordinators)]
    assert main(place) == 0
    out, err = capsys.readouterr()
    assert " ".join(out.split("\n\n")[1].split()) == (
        f"Only aborted records from 0 to {offset:,}: 1,051 transactions of x, producer id 8, producer id 9,"
        f" 21,000 records; the first readable record is at {offset + 1:,}."
    )
    assert err == "reading stopped at offset 8400: run explain again from that offset\n"
    assert main([*place, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)["only_aborted"]
    assert (run["to"], run["records"], run["transactions"]) == (offset + 1, 21_000, 1_051)
    assert (run["first_readable"], run["ended_by"], run["more_owners"]) == (offset + 1, "readable", 0)
    assert [(owner["transactional_id"], owner["transactions"]) for owner in run["owners"]] == [
        ("x", 525),
        (None, 525),
        (None, 1),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["orders"], "'orders' is no TOPIC-PARTITION@OFFSET, like orders-0@17"),
        (["orders-0@x"], "'orders-0@x' is no TOPIC-PARTITION@OFFSET"),
        (["orders-0@5", "--to", "5"], "--to 5 has to be above the offset 5"),
        (["@5"], "'@5' has no partition: give TOPIC-PARTITION@OFFSET, or --segments FILE"),
        (["@9", "--segments", "{0}"], "no file has offset 9: the first begins at 10"),
        (["@22", "--segments", "{0}", "{1}"], "no file has offset 22: the last one ends at 22"),
        (
            ["@10", "--to", "30", "--segments", "{0}", "{0}"],
            "begins at offset 10, but the file before it ends at 14: does one of them belong to another partition?",
        ),
        (["@1", "--segments", "no/such.log"], "no/such.log: No such file or directory"),
        (["@1", "--segments", "/dev/null"], "/dev/null: no record batch in these files"),
    ],
)
def test_an_impossible_request_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, halves: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *(argument.format(*halves) for argument in arguments)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("txnscope explain: ")
    assert words in err


def test_a_marker_at_the_head_of_a_recreated_topic_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The topic begins with two markers, of transactions that wrote before the topic was deleted. These markers end
    nothing, even if the request is about one of them only."""
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(
        control_batch(COMMIT, 0, producer_id=7, producer_epoch=1)
        + control_batch(COMMIT, 1, producer_id=8, producer_epoch=1)
        + batch([Rec(b"k", b"v")], 2, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=1)
        + control_batch(COMMIT, 3, producer_id=7, producer_epoch=1)
    )
    for offset in range(4):
        (span,) = explained(capsys, offset, offset + 1, file)
        assert span.get("ends_nothing", False) == (offset < 2)
    assert main(["explain", "@1", "--segments", str(file)]) == 0
    assert "COMMIT, ends nothing" in capsys.readouterr().out
