"""Tests of `txnscope explain --segments` if a marker is missing. The id's records in the transaction log restrict the
possible outcomes of the partition's records."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from service.cli import main
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.batches import ABORT, COMMIT, TRANSACTIONAL, Rec, batch, control_batch

T_MS = 1_700_000_000_000
STATES = {
    "Empty": build.EMPTY,
    "Ongoing": build.ONGOING,
    "PrepareCommit": build.PREPARE_COMMIT,
    "PrepareAbort": build.PREPARE_ABORT,
    "CompleteCommit": build.COMPLETE_COMMIT,
    "CompleteAbort": build.COMPLETE_ABORT,
}
Explained = Callable[[str, Sequence[bytes]], list[dict[str, Any]]]


def coordinators_log(text: str) -> bytes:
    """Returns the transaction log of one id.

    Each line of `text` is `ms State(epoch) [tv2] [topic …]`. `ms` is the time after T_MS. A topic means its partition
    0. The start time in a record is the time of the last Ongoing.
    """
    log, start_ms = b"", -1
    for offset, line in enumerate(filter(None, map(str.strip, text.splitlines()))):
        at, what, *more = line.split()
        name, _, epoch = what.rstrip(")").partition("(")
        at_ms = T_MS + int(at)
        if name == "Ongoing":
            start_ms = at_ms
        topics = [(topic, [0]) for topic in more if topic != "tv2"]
        data = build.value(
            producer_id=2,
            producer_epoch=int(epoch),
            status=STATES[name],
            topics=topics,
            last_update_ms=at_ms,
            start_ms=start_ms,
            tagged=build.tags(client_transaction_version=2) if "tv2" in more else None,
        )
        log += build.transition("pay", offset, timestamp_ms=at_ms, data=data)
    return log


def data(offset: int, after_ms: int, count: int = 1, epoch: int = 0) -> bytes:
    records = [Rec(b"k", b"v", n) for n in range(count)]
    return batch(
        records,
        offset,
        timestamp_ms=T_MS + after_ms,
        attributes=TRANSACTIONAL,
        producer_id=2,
        producer_epoch=epoch,
        base_sequence=0,
    )


def marker(offset: int, after_ms: int, kind: int, epoch: int = 0) -> bytes:
    return control_batch(kind, offset, producer_id=2, producer_epoch=epoch, timestamp_ms=T_MS + after_ms)


@pytest.fixture
def explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Explained:
    """Returns a function that runs `explain` on partition y-0 with the id's log. The function returns the spans of the
    JSON answer. Afterwards, `capsys` contains the same answer as text."""

    def spans(log: str, partition: Sequence[bytes]) -> list[dict[str, Any]]:
        files = []
        for name, content in (("y-0", b"".join(partition)), ("__transaction_state-0", coordinators_log(log))):
            (tmp_path / name).mkdir(exist_ok=True)
            files.append(tmp_path / name / "00000000000000000000.log")
            files[-1].write_bytes(content)
        capsys.readouterr()
        asked = ["explain", "@0", "--to", "99", "--segments", *map(str, files)]
        assert main([*asked, "--json"]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["spans"]
        assert main(asked) == 0
        return found

    return spans


LOST_COMMIT = """
    0 Empty(0)
    100 Ongoing(0) y
    5000 PrepareCommit(0) y
    5003 CompleteCommit(0)
    25000 Ongoing(0) y
    30000 PrepareAbort(0) y
    30005 CompleteAbort(0)
"""


def test_one_marker_after_two_transactions_of_one_epoch_is_ambiguous(
    explained: Explained, capsys: pytest.CaptureFixture[str]
) -> None:
    """The leader lost the COMMIT marker of a transaction. The next transaction, under the same epoch, was aborted, and
    its ABORT marker seems to end both transactions."""
    first, _ = explained(LOST_COMMIT, [data(0, 120, 3), data(3, 25_010), marker(4, 30_002, ABORT)])
    assert (first["from"], first["to"], first["kind"], first["cause"]) == (0, 4, "aborted", "client_abort")
    assert first["confidence"] == "likely"
    decision = first["decision"]
    assert (decision["marker"], decision["confidence"], decision["may_be_other"]) == ("COMMIT", "ambiguous", True)
    said = " ".join(capsys.readouterr().out.split())
    assert "The marker (ABORT at 4) may cover two transactions of the same producer id: an earlier transaction" in said
    assert "was decided COMMIT, and its marker is missing here." in said


def test_epochs_distinguish_two_transactions_before_one_marker(
    explained: Explained, capsys: pytest.CaptureFixture[str]
) -> None:
    log = """
        100 Ongoing(0) tv2 y
        5000 PrepareCommit(1) tv2 y
        5003 CompleteCommit(1) tv2
        25000 Ongoing(1) tv2 y
        30000 PrepareAbort(2) tv2 y
        30005 CompleteAbort(2) tv2
        40000 Ongoing(2) tv2 x
    """
    first, second, last = explained(log, [data(0, 120, 3), data(3, 25_010, epoch=1), marker(4, 30_002, ABORT, 2)])
    assert (first["from"], first["to"], first["kind"]) == (0, 3, "aborted")
    assert (first["cause"], first["confidence"]) == ("commit", "certain"), (
        "the cause is that of the records' own transaction"
    )
    assert (first["decision"]["marker"], first["decision"]["confidence"]) == ("COMMIT", "certain")
    assert not first["decision"]["may_be_other"]
    assert [(one["cause"], one["confidence"], "decision" in one) for one in (second, last)] == [
        ("client_abort", "likely", False)
    ] * 2
    said = " ".join(capsys.readouterr().out.split())
    assert "was decided COMMIT, and its marker is missing here. The marker of a later transaction of the same" in said


@pytest.mark.parametrize(
    ("prepare", "complete", "marker_", "cause"),
    [
        ("4000 PrepareAbort(0) y", "4003 CompleteAbort(0)", "ABORT", "client_abort"),
        ("4000 PrepareCommit(0) y", "4003 CompleteCommit(0)", "COMMIT", "commit"),
        ("4000 PrepareCommit(0) y", "", "COMMIT", "commit"),
    ],
)
def test_a_decided_transaction_without_its_marker_is_not_open(
    explained: Explained, capsys: pytest.CaptureFixture[str], prepare: str, complete: str, marker_: str, cause: str
) -> None:
    log = f"""
        100 Ongoing(0) y
        {prepare}
        {complete}
    """
    hole = [data(0, 120, 3), batch([Rec(b"k", b"v")], 4, timestamp_ms=T_MS + 9_000)]
    first, gap, _ = explained(log, hole)
    assert (first["kind"], first["cause"], gap["kind"]) == ("unknown", cause, "gap")
    assert (first["decision"]["marker"], first["decision"]["confidence"]) == (marker_, "likely")
    assert first["decision"]["at"] == "2023-11-14T22:13:24.000Z"
    out, err = capsys.readouterr()
    assert f"{marker_}, missing" in out
    assert f"is likely decided {marker_}, and its marker is missing here (lost or skipped" in " ".join(out.split())
    assert err == ""


def test_without_its_prepare_record_only_the_end_is_known(explained: Explained) -> None:
    (first,) = explained("4003 CompleteAbort(0)", [data(0, 120, 3)])
    assert (first["kind"], first["decision"]["marker"], first["decision"]["confidence"]) == (
        "unknown",
        "ABORT",
        "ambiguous",
    )


def test_records_that_may_be_of_the_open_transaction_stay_open(explained: Explained) -> None:
    log = LOST_COMMIT.partition("30000")[0]
    (first,) = explained(log, [data(0, 120, 3), data(3, 25_010)])
    assert (first["kind"], first["decision"]["marker"], first["decision"]["may_be_other"]) == ("open", "COMMIT", True)
    (first,) = explained("100 Ongoing(0) y", [data(0, 120, 3)])
    assert (first["kind"], "decision" in first) == ("open", False)


def test_complete_histories_are_not_ambiguous(explained: Explained) -> None:
    """Short transactions of one epoch, a broker's clock that is 2 s ahead, and other partitions in between cause no
    doubt."""
    lines, partition, offset = [], [], 0
    for number in range(40):
        at, outcome = number * 30, "Commit" if number % 3 else "Abort"
        here = "x" if number % 4 == 1 else "y"
        lines += [f"{at} Ongoing(0) {here}", f"{at + 10} Prepare{outcome}(0) {here}", f"{at + 20} Complete{outcome}(0)"]
        if here == "y":
            partition += [data(offset, at + 5), marker(offset + 1, at + 2_012, COMMIT if number % 3 else ABORT)]
            offset += 2
    spans = explained("\n".join(lines), partition)
    assert {span["kind"] for span in spans} == {"committed", "aborted", "marker"}
    assert not any("decision" in span for span in spans)


def test_a_later_decision_does_not_explain_records_that_ended_before(explained: Explained) -> None:
    """The transaction log has only a later transaction. The partition has only an earlier one, with its ABORT
    marker."""
    log = "25000 Ongoing(0) y\n30000 PrepareCommit(0) y\n30003 CompleteCommit(0)"
    spans = explained(log, [data(0, 120, 3), marker(3, 5_002, ABORT)])
    assert [(span["kind"], "decision" in span) for span in spans] == [("aborted", False), ("marker", False)]


def test_a_recreated_topic_has_no_decision_of_its_predecessor(explained: Explained) -> None:
    log = LOST_COMMIT + "60000 Ongoing(0) y\n61000 PrepareCommit(0) y\n61003 CompleteCommit(0)"
    spans = explained(log, [data(0, 60_100, 2), marker(2, 61_001, COMMIT)])
    assert [(span["kind"], "decision" in span) for span in spans] == [("committed", False), ("marker", False)]


def test_a_hole_before_the_records_allows_no_decision(explained: Explained) -> None:
    """Offsets that compaction removed may have held the missing marker, so no decision is claimed."""
    before = batch([Rec(b"k", b"v")], 0)
    spans = explained(LOST_COMMIT, [before, data(2, 120), marker(3, 30_002, ABORT)])
    assert [(span["kind"], "decision" in span) for span in spans] == [
        ("non_transactional", False),
        ("gap", False),
        ("aborted", False),
        ("marker", False),
    ]
