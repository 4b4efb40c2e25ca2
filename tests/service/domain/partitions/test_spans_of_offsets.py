"""Fates of the offsets of small logs, batch by batch; the rules of `ProducerAppendInfo` and of compaction."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.domain.partitions.facts import BatchOffsets, MarkerType
from service.domain.partitions.offset_spans import SpanBuilder

AT_MS = 1_790_000_000_000


def parse(text: str) -> list[BatchOffsets | None]:
    """`7+3 a` is a transactional batch of producer a with offsets 7 to 9, `7 C a` and `7 A a` are markers, `7 E a` one
    that compaction emptied, `7+3 n` and `7+3 n a` carry no transaction, `torn` are bytes that cannot be read."""
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
    """`7-9 committed a 12`: of producer a, with its marker at 12."""
    lines = []
    for span in walk.spans({ord(name): start for name, start in (hanging or {}).items()}):
        producer = None if span.producer_id is None else chr(span.producer_id)
        assert span.marker_offset is None or span.ended_ms == AT_MS + span.marker_offset
        words = (f"{span.first}-{span.next - 1}", span.kind, producer, span.marker_offset)
        lines.append(" ".join(str(word) for word in words if word is not None))
    return lines


def explained(text: str, offset: int, to: int, end: int, lso: int | None = None) -> list[str]:
    walk = walked(parse(text), offset, to)
    walk.finish(end, end if lso is None else lso, is_whole=True)
    return reported(walk)


LOG = "0+5 a, 5+2 n, 7+3 b, 10+2 a, 12 A a, 13 C b, 14+4 a, 18 C a, 19+1 c"


@pytest.mark.parametrize(
    ("offset", "to", "spans"),
    [
        (0, 1, ["0-0 aborted a 12"]),
        (2, 5, ["2-4 aborted a 12"]),
        (4, 8, ["4-4 aborted a 12", "5-6 non_transactional", "7-7 committed b 13"]),
        (10, 15, ["10-11 aborted a 12", "12-12 marker a 12", "13-13 marker b 13", "14-14 committed a 18"]),
        (17, 20, ["17-17 committed a 18", "18-18 marker a 18", "19-19 open c"]),
        (19, 99, ["19-19 open c"]),
    ],
)
def test_a_marker_ends_what_its_producer_wrote_before_it_and_no_other(offset: int, to: int, spans: list[str]) -> None:
    assert explained(LOG, offset, to, end=20, lso=19) == spans


def test_neighbouring_batches_are_one_span_only_in_one_transaction() -> None:
    log = "0+2 a, 2+2 a, 4+2 b, 6+2 a, 8 C a, 9+2 a, 11 C a, 12 C b"
    assert explained(log, 1, 10, end=13) == [
        "1-3 committed a 8",
        "4-5 committed b 12",
        "6-7 committed a 8",
        "8-8 marker a 8",
        "9-9 committed a 11",
    ]


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


@pytest.mark.parametrize(
    ("log", "spans"),
    [
        ("3+2 a, 9 C a", ["0-2 gap", "3-4 committed a 9", "5-7 gap"]),
        ("3+2 a, 6+2 a, 9 C a", ["0-2 gap", "3-4 committed a 9", "5-5 gap", "6-7 committed a 9"]),
        ("20+2 n", ["0-7 gap"]),
        ("", ["0-7 gap"]),
    ],
)
def test_offsets_without_a_batch_are_gaps(log: str, spans: list[str]) -> None:
    assert explained(log, 0, 8, end=22) == spans


def test_a_marker_that_compaction_emptied_says_nothing() -> None:
    assert explained("0+2 a, 2 E a, 3+1 a, 4 A a", 0, 4, end=5) == [
        "0-1 unknown a 2",
        "2-2 marker a 2",
        "3-3 aborted a 4",
    ]


def test_below_the_lso_nothing_is_open() -> None:
    """An emptied batch of a producer whose marker compaction took: decided, nobody knows how."""
    assert explained("0+2 a, 2+2 b", 0, 4, end=4, lso=2) == ["0-1 unknown a", "2-3 open b"]


@pytest.mark.parametrize(
    ("log", "spans"),
    [
        # nobody knows which offsets are those of broken bytes, but what lies before and behind is known
        ("0+2 n, torn, 6+2 n", ["0-1 non_transactional", "2-5 unknown", "6-7 non_transactional"]),
        ("0+2 n, torn, 2+6 n", ["0-7 non_transactional"]),
        ("0+2 n, torn", ["0-1 non_transactional", "2-7 unknown"]),
        # they may have been the marker of a
        ("0+2 a, torn, 3+4 a, 7 C a", ["0-1 unknown a", "2-2 unknown", "3-6 committed a 7", "7-7 marker a 7"]),
    ],
)
def test_bytes_that_cannot_be_read_make_unknown_only_what_depends_on_them(log: str, spans: list[str]) -> None:
    assert explained(log, 0, 8, end=8) == spans


def test_where_reading_stops_early_only_what_the_lso_proves_is_open() -> None:
    for lso, kind in ((0, "open"), (1, "open"), (2, "unknown"), (50, "unknown")):
        walk = walked(parse("0+2 a, 2+2 n"), 0, 2)
        walk.finish(4, lso, is_whole=False)
        assert reported(walk) == [f"0-1 {kind} a"], lso


def test_offsets_that_were_not_reached_are_not_told_of() -> None:
    walk = walked(parse("0+2 n, 2+2 a"), 0, 9)
    walk.finish(4, 9, is_whole=False)
    assert reported(walk) == ["0-1 non_transactional", "2-3 unknown a"]


def test_what_a_leader_calls_open_needs_no_marker() -> None:
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
    assert reported(walk, {"a": 4})[2] == "3-4 open a", "a finding about something later"


def test_many_spans_end_early_and_say_where() -> None:
    log = "0+2 a, 2+2 b, 4+2 a, 6+2 b, 8 C a, 9 A b"
    walk = walked(parse(log), 1, 8, most_spans=2)
    assert walk.is_done
    assert walk.to == 4
    assert reported(walk) == ["1-1 committed a 8", "2-3 aborted b 9"]


def test_a_batch_that_comes_twice_counts_once() -> None:
    """A fetch may begin in the middle of a batch, and brings all of it."""
    assert explained("0+2 a, 2 C a, 2 C a, 0+2 a, 3+1 n", 1, 4, end=4) == [
        "1-1 committed a 2",
        "2-2 marker a 2",
        "3-3 non_transactional",
    ]


@pytest.mark.parametrize(
    ("text", "offset", "markers"),
    [
        ("0 C a, 1+2 a, 3 C a", 0, {0: True, 3: False}),  # the topic was created again inside the transaction
        ("0+1 a, 1 A a, 2 A a, 3+1 b, 4 C b", 0, {1: False, 2: True, 4: False}),
        ("0 C a, 1+2 a, 3 C a, 4 C a", 3, {3: False, 4: False}),  # what is before is not known
        ("5 C a", 0, {5: False}),  # what was deleted may have been its records
        ("0+1 b, torn, 4 C a", 0, {4: False}),
    ],
)
def test_a_marker_with_nothing_before_it_ends_nothing(text: str, offset: int, markers: dict[int, bool]) -> None:
    walk = walked(parse(text), offset, 10)
    walk.finish(10, 10, is_whole=True)
    assert {one.first: one.ends_nothing for one in walk.spans({}) if one.kind == "marker"} == markers
