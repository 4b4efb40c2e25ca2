"""Tests of `txnscope inspect`: its lines about the golden segments agree with the output of Kafka's own tool."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest

from service.cli import main
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.batches import ABORT, COMMIT, Rec, batch, control_batch
from tests.helpers.paths import GOLDEN
from tests.service.wire.dumps import name_of, read_dump, segments

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
TRANSACTION_LOGS = [pytest.param(log, id=name_of(log)) for log in segments("*/__transaction_state-*")]
DATA_LOGS = [pytest.param(log, id=name_of(log)) for log in segments("*/[a-z]*")]
AT_MS = 1_700_000_000_000


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert main(["inspect", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize("log", TRANSACTION_LOGS)
def test_each_transition_is_a_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = ".dump-4.3.1.txt"
    dump = read_dump(log, other if log.with_suffix(other).exists() else ".dump.txt")
    dumped = [record for batch in dump.batches for record in batch.records]
    lines = lines_of(capsys, log)
    assert len(lines) == len(dumped)
    for line, record in zip(lines, dumped, strict=True):
        offset, time, state, *rest = line.split()
        assert (int(offset), ms(time)) == (record.offset, record.timestamp_ms)
        if state == "UNDECODABLE":
            assert rest[0] in ("unknown_value_version:", "unknown_key_version:")
            continue
        assert f'"transactionalId":"{rest[0]}"' in record.key
        if record.value_size < 0:
            assert (state, rest[1:]) == ("Expired", ["cause=expired", "confidence=certain"])
            continue
        data = record.fields["data"]
        shown = dict(field.split("=") for field in rest[1:])
        topics = data["transactionPartitions"] or []
        assert state == STATES[data["transactionStatus"]]
        assert shown["producer_id"] == str(data["producerId"])
        assert shown["epoch"] == str(data["producerEpoch"])
        assert shown["timeout_ms"] == str(data["transactionTimeoutMs"])
        assert (-1 if shown["started"] == "-" else ms(shown["started"])) == data["transactionStartTimestampMs"]
        named = [f"{topic['topic']}-{number}" for topic in topics for number in topic["partitionIds"]]
        assert shown["partitions"] == (",".join(named) or "-")
        for tag in ("previousProducerId", "nextProducerId"):
            name = re.sub("([A-Z])", r"_\1", tag).lower()
            assert shown.get(name, "-1") == str(data.get(tag, -1))


@pytest.mark.parametrize("log", DATA_LOGS)
def test_each_batch_and_each_marker_is_a_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(capsys, log)
    batches = read_dump(log).batches
    assert len(lines) == len(batches)
    for line, (words, records) in zip(lines, batches, strict=True):
        offsets, time, kind, *rest = line.split()
        shown = dict(field.split("=") for field in rest)
        first, _, last = offsets.partition("..")
        assert (first, last or first) == (words["baseOffset"], words["lastOffset"])
        assert ms(time) == int(words.get("CreateTime") or words["LogAppendTime"])
        assert shown.get("producer_id", "-1") == words["producerId"]
        assert shown.get("epoch", "-1") == words["producerEpoch"]
        if words["isControl"] == "true":
            assert (kind, int(shown["coordinator_epoch"])) == records[0].marker
        else:
            assert kind == ("transactional" if words["isTransactional"] == "true" else "data")
            assert shown["records"] == words["count"]
            assert shown["codec"] == words["compresscodec"]
            assert shown["bytes"] == words["size"]
            assert shown.get("sequence", "-1..-1") == f"{words['baseSequence']}..{words['lastSequence']}"


def test_a_copy_in_any_directory_is_known_by_its_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "00000000000000000000.log"
    copy.write_bytes(build.transition("pay", 0, timestamp_ms=AT_MS, data=build.value()))
    (line,) = lines_of(capsys, copy)
    assert line.startswith("0 2023-11-14T22:13:20.000Z Ongoing pay producer_id=4001 ")
    (line,) = lines_of(capsys, "--as", "data", copy)
    assert line.startswith("0 2023-11-14T22:13:20.000Z data records=1 codec=none ")


def test_group_offsets_are_no_transitions(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for log in segments("*/__consumer_offsets-*"):
        copy = tmp_path / "copy.log"
        copy.write_bytes(log.read_bytes())
        assert lines_of(capsys, copy) == lines_of(capsys, log)
        assert all(line.split()[2] in ("data", "transactional", "COMMIT", "ABORT") for line in lines_of(capsys, copy))


def test_decoding_goes_on_after_undecodable_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = [build.transition(f"id-{n}", n, timestamp_ms=AT_MS, data=build.value()) for n in range(5)]
    spoilt = bytearray(good[1])
    spoilt[-1] ^= 1
    future = build.transition("id-2", 2, timestamp_ms=AT_MS, data=b"\0\7" + build.value()[2:])
    log = tmp_path / "mixed.log"
    log.write_bytes(good[0] + bytes(spoilt) + future + good[3] + good[4][:40])
    lines = lines_of(capsys, log)
    assert [line.split()[0] for line in lines] == ["0", "1", "2", "3", "the"]
    assert lines[1].startswith(f"1 (at byte {len(good[0])}) UNDECODABLE bad_crc: CRC-32C ")
    assert lines[2].endswith(" unknown_value_version: value version 7 (0 or 1 expected) transactional_id=id-2")
    assert lines[4] == "the last 40 bytes are no whole batch (offset 4)"


def test_an_impossible_length_ends_the_file_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "cut.log"
    first = batch([Rec(b"k", b"v")], 0, timestamp_ms=AT_MS)
    log.write_bytes(first + (1).to_bytes(8, "big") + (3).to_bytes(4, "big") + b"x" * 100)
    lines = lines_of(capsys, log)
    assert lines[1] == f"1 (at byte {len(first)}) UNDECODABLE bad_length: batch length 3 (at least 14 expected)"
    assert lines[2].startswith("the last 112 bytes were not read")


def test_a_preallocated_tail_is_not_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "new.log"
    log.write_bytes(control_batch(COMMIT, 0) + bytes(4096))
    marker, tail = lines_of(capsys, log)
    assert marker.split()[2] == "COMMIT"
    assert tail == "the last 4096 bytes are zeros: preallocated and not written yet"


def test_an_empty_file_has_no_lines_whatever_the_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXNSCOPE_PORT", "not a port")
    log = tmp_path / "empty.log"
    log.touch()
    assert lines_of(capsys, log) == []


def test_control_characters_of_an_id_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "odd.log"
    data = build.value(topics=[("caf\udce9\n", [1])])
    log.write_bytes(build.transition(b"\x1b[31m\n\xff", 0, timestamp_ms=AT_MS, data=data))
    (line,) = lines_of(capsys, log)
    assert " Ongoing \\u{1b}[31m\\u{a}\\x{ff} producer_id=" in line
    assert " partitions=caf\\udce9\\n-1" in line


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_each_end_has_its_cause(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The scenarios that wrote the golden segments ended their transactions for known causes."""
    said: dict[tuple[str, str], tuple[str, str]] = {}
    for line in lines_of(capsys, *sorted((GOLDEN / version / "main").glob("__transaction_state-*"))):
        if " Prepare" in line:
            words = line.split()
            fields = dict(field.split("=") for field in words[4:])
            said.setdefault((words[2], words[3]), (fields["cause"], fields["confidence"]))
    assert said["PrepareCommit", "a-shop-1"] == ("commit", "likely")
    assert said["PrepareAbort", "a-shop-1"] == ("client_abort", "likely")
    assert said["PrepareAbort", "f-old"] == ("timeout", "likely")
    assert said["PrepareAbort", "q-force-1"] in (("admin", "likely"), ("admin", "ambiguous"))


def test_a_later_segment_refines_the_cause_of_an_earlier_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def record(offset: int, after_ms: int, status: int, epoch: int) -> bytes:
        topics = [("orders", [0])] if status in (build.ONGOING, build.PREPARE_ABORT) else ()
        data = build.value(
            producer_epoch=epoch, status=status, topics=topics, last_update_ms=AT_MS + after_ms, start_ms=AT_MS
        )
        return build.transition("pay", offset, timestamp_ms=AT_MS + after_ms, data=data)

    first, second = tmp_path / "00000000000000000000.log", tmp_path / "00000000000000000003.log"
    first.write_bytes(
        record(0, 0, build.ONGOING, 5) + record(1, 20, build.PREPARE_ABORT, 6) + record(2, 23, build.COMPLETE_ABORT, 6)
    )
    second.write_bytes(record(3, 120, build.EMPTY, 7))
    assert lines_of(capsys, first)[1].endswith("cause=fenced confidence=ambiguous")
    assert lines_of(capsys, second, first)[4].endswith("cause=fenced confidence=likely")
    data = tmp_path / "orders.log"
    data.write_bytes(control_batch(ABORT, 9, producer_id=4001, producer_epoch=6, timestamp_ms=AT_MS + 21))
    (_, line) = lines_of(capsys, data, first, second)[:2]
    assert line.endswith("coordinator_epoch=3 transactional_id=pay cause=fenced confidence=likely")


def test_rows_of_several_files_name_their_file(capsys: pytest.CaptureFixture[str]) -> None:
    log = segments("main/__transaction_state-*")[0]
    alone = lines_of(capsys, log)
    assert lines_of(capsys, log.parent, log) == [
        f"# {log}: transaction log",
        *alone,
        f"# {log}: transaction log",
        *alone,
    ]


@pytest.mark.parametrize("missing", ["no/such.log", "."])
def test_a_path_without_a_segment_is_named(
    missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", missing]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"txnscope inspect: {missing}: ")
    assert said.count("\n") == 1
