"""Tests of the fates of the offsets in small logs, batch by batch, by the rules of `ProducerAppendInfo` and of
compaction."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.domain.partitions.facts import BatchOffsets, MarkerType
from service.domain.partitions.offset_spans import SpanBuilder

AT_MS = 1_790_000_000_000


def parse(text: str) -> list[BatchOffsets | None]:
    """Parses a log: batches, separated by commas.

    - `7+3 a`: a transactional batch of producer a with offsets 7 to 9.
    - `7 C a`, `7 A a`: a COMMIT or ABORT marker of producer a.
    - `7 E a`: a marker of producer a that compaction has emptied.
    - `7+3 n`: a batch without a transaction; `7+3 n a` if it is of producer a.
    - `torn`: an undecodable batch.
    """
    pieces: list[BatchOffsets | None] = []
    for line in filter(None, (line.strip() for line in text.split(","))):
        if line == "torn":
            pieces.append(None)
            continue
        where, *words = line.split()
        first, _, count = where.partition("+")
        offset = int(first)
        producer = ord(words[-1]) if words[-1].islower() and words[-1] != "n" else -1
        epoch = 3 if producer >= 0 else -1
        if words[0] in ("C", "A", "E"):
            marker = {"C": MarkerType.COMMIT, "A": MarkerType.ABORT, "E": None}[words[0]]
            pieces.append(BatchOffsets(offset, offset + 1, producer, epoch + 1, True, True, marker, AT_MS + offset))
        else:
            pieces.append(BatchOffsets(offset, offset + int(count or 1), producer, epoch, words[0] != "n"))
    return pieces


def walked(pieces: Sequence[BatchOffsets | None], offset: int, to: int, most_spans: int = 100) -> SpanBuilder:
    walk = SpanBuilder(offset, to, most_spans)
    for piece in pieces:
        if walk.is_done:
            break
        if piece is None:
            walk.add_unreadable()
        else:
            walk.add_batch(piece)
    return walk


def reported(walk: SpanBuilder, hanging: dict[str, int] | None = None) -> list[str]:
    """Returns the spans as text. For example, `7-9 committed a 12` stands for records of producer a that the marker at
    12 ended. `hanging` maps the name of a producer to the first offset of its hanging transaction."""
    lines = []
    for span in walk.spans({ord(name): start for name, start in (hanging or {}).items()}):
        producer = None if span.producer_id is None else chr(span.producer_id)
        assert span.marker_offset is None or span.ended_ms == AT_MS + span.marker_offset
        words = (f"{span.first}-{span.next - 1}", span.kind, producer, span.marker_offset)
        lines.append(" ".join(str(word) for word in words if word is not None))
    return lines


LOG = "0+5 a, 5+2 n, 7+3 b, 10+2 a, 12 A a, 13 C b, 14+4 a, 18 C a, 19+1 c"
NEIGHBOURS = ["1-3 committed a 6", "4-4 committed b 9", "5-5 committed a 6", "6-6 marker a 6", "7-7 committed a 8"]


def test_records_of_two_epochs_end_with_one_marker_but_are_two_spans() -> None:
    early, late, marker = (
        BatchOffsets(0, 2, 7, 3, True),
        BatchOffsets(2, 4, 7, 4, True),
        BatchOffsets(4, 5, 7, 5, True, True, MarkerType.ABORT, 1),
    )
    walk = walked([early, late, marker], 0, 4)
    assert [(s.first, s.next, s.kind, s.producer_epoch) for s in walk.spans({})] == [
        (0, 2, "aborted", 3),
        (2, 4, "aborted", 4),
    ]


def test_reading_passes_the_request_only_while_a_marker_is_missing() -> None:
    pieces = parse(LOG)
    walk = SpanBuilder(0, 1)
    taken = 0
    while not walk.is_done:
        piece = pieces[taken]
        assert piece is not None
        walk.add_batch(piece)
        taken += 1
    assert taken == 5, "the marker of a is the fifth batch"
    assert walked(pieces, 5, 7).is_done
    assert walked(pieces, 19, 20).waiting == {ord("c"): 19}


EXPLAINED = [
    # a marker ends the records that its own producer wrote before it
    (LOG, (0, 1, 20, 19), ["0-0 aborted a 12"]),
    (LOG, (2, 5, 20, 19), ["2-4 aborted a 12"]),
    (LOG, (4, 8, 20, 19), ["4-4 aborted a 12", "5-6 non_transactional", "7-7 committed b 13"]),
    (LOG, (10, 15, 20, 19), ["10-11 aborted a 12", "12-12 marker a 12", "13-13 marker b 13", "14-14 committed a 18"]),
    (LOG, (17, 20, 20, 19), ["17-17 committed a 18", "18-18 marker a 18", "19-19 open c"]),
    (LOG, (19, 99, 20, 19), ["19-19 open c"]),
    # neighbouring batches form one span only within one transaction
    ("0+2 a, 2+2 a, 4+1 b, 5+1 a, 6 C a, 7+1 a, 8 C a, 9 C b", (1, 8, 10, 10), NEIGHBOURS),
    # offsets without a batch are gaps
    ("3+2 a, 9 C a", (0, 8, 22, 22), ["0-2 gap", "3-4 committed a 9", "5-7 gap"]),
    ("3+2 a, 6+2 a, 9 C a", (0, 8, 22, 22), ["0-2 gap", "3-4 committed a 9", "5-5 gap", "6-7 committed a 9"]),
    ("20+2 n", (0, 8, 22, 22), ["0-7 gap"]),
    ("", (0, 8, 22, 22), ["0-7 gap"]),
    # a marker that compaction emptied has no outcome
    ("0+2 a, 2 E a, 3+1 a, 4 A a", (0, 4, 5, 5), ["0-1 unknown a 2", "2-2 marker a 2", "3-3 aborted a 4"]),
    # below the LSO no transaction is open: if compaction removed the marker, the outcome is unknown
    ("0+2 a, 2+2 b", (0, 4, 4, 2), ["0-1 unknown a", "2-3 open b"]),
    # the offsets of undecodable bytes are unknown, but the batches around them are not
    ("0+2 n, torn, 6+2 n", (0, 8, 8, 8), ["0-1 non_transactional", "2-5 unknown", "6-7 non_transactional"]),
    ("0+2 n, torn, 2+6 n", (0, 8, 8, 8), ["0-7 non_transactional"]),
    ("0+2 n, torn", (0, 8, 8, 8), ["0-1 non_transactional", "2-7 unknown"]),
    # the undecodable bytes may have been the marker of a
    (
        "0+2 a, torn, 3+4 a, 7 C a",
        (0, 8, 8, 8),
        ["0-1 unknown a", "2-2 unknown", "3-6 committed a 7", "7-7 marker a 7"],
    ),
    # a fetch that begins inside a batch returns the whole batch; a batch that is returned twice counts once
    (
        "0+2 a, 2 C a, 2 C a, 0+2 a, 3+1 n",
        (1, 4, 4, 4),
        ["1-1 committed a 2", "2-2 marker a 2", "3-3 non_transactional"],
    ),
]


@pytest.mark.parametrize(("log", "bounds", "spans"), EXPLAINED, ids=str)
def test_each_offset_has_its_fate(log: str, bounds: tuple[int, int, int, int], spans: list[str]) -> None:
    """`bounds` are the first requested offset, the offset after the last one, the end of the log, and its LSO."""
    offset, to, end, lso = bounds
    walk = walked(parse(log), offset, to)
    walk.finish(end, lso, is_whole=True)
    assert reported(walk) == spans


def test_an_early_stop_leaves_open_only_what_the_lso_proves() -> None:
    for lso, kind in ((0, "open"), (1, "open"), (2, "unknown"), (50, "unknown")):
        walk = walked(parse("0+2 a, 2+2 n"), 0, 2)
        walk.finish(4, lso, is_whole=False)
        assert reported(walk) == [f"0-1 {kind} a"], lso


def test_offsets_that_were_not_reached_are_left_out() -> None:
    walk = walked(parse("0+2 n, 2+2 a"), 0, 9)
    walk.finish(4, 9, is_whole=False)
    assert reported(walk) == ["0-1 non_transactional", "2-3 unknown a"]


def test_a_span_that_the_leader_reports_open_needs_no_marker() -> None:
    walk = walked(parse("0+2 a, 2+2 b"), 0, 4)
    walk.mark_open(ord("a"))
    walk.mark_open(ord("z"))
    walk.add_batch(BatchOffsets(4, 5, ord("b"), 4, True, True, MarkerType.COMMIT, AT_MS + 4))
    assert walk.is_done
    assert reported(walk) == ["0-1 open a", "2-3 committed b 4"]


def test_a_transaction_hangs_from_where_its_finding_begins() -> None:
    walk = walked(parse("0+2 a, 2 A a, 3+2 a, 5+2 b, 7+2 a"), 0, 9)
    walk.finish(9, 3, is_whole=True)
    assert reported(walk, {"a": 3}) == [
        "0-1 aborted a 2",
        "2-2 marker a 2",
        "3-4 hanging a",
        "5-6 open b",
        "7-8 hanging a",
    ]
    assert reported(walk, {"a": 4})[2] == "3-4 open a", "the finding is about a later transaction"


def test_a_walk_that_reaches_the_bound_of_spans_reports_where() -> None:
    log = "0+2 a, 2+2 b, 4+2 a, 6+2 b, 8 C a, 9 A b"
    walk = walked(parse(log), 1, 8, most_spans=2)
    assert walk.is_done
    assert walk.to == 4
    assert reported(walk) == ["1-1 committed a 8", "2-3 aborted b 9"]


@pytest.mark.parametrize(
    ("text", "offset", "markers"),
    [
        ("0 C a, 1+2 a, 3 C a", 0, {0: True, 3: False}),  # the topic was recreated during the transaction
        ("0+1 a, 1 A a, 2 A a, 3+1 b, 4 C b", 0, {1: False, 2: True, 4: False}),
        ("0 C a, 1+2 a, 3 C a, 4 C a", 3, {3: False, 4: False}),  # the offsets before the log start are unknown
        ("5 C a", 0, {5: False}),  # the deleted offsets may have been records of the transaction
        ("0+1 b, torn, 4 C a", 0, {4: False}),
    ],
)
def test_a_marker_with_nothing_before_it_ends_nothing(text: str, offset: int, markers: dict[int, bool]) -> None:
    walk = walked(parse(text), offset, 10)
    walk.finish(10, 10, is_whole=True)
    assert {span.first: span.ends_nothing for span in walk.spans({}) if span.kind == "marker"} == markers
