"""Explains offsets from segment files of their partition, without a broker or a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from service.api.schemas.offsets import AbortedRun, LogExplanation, LogSpan
from service.cli.errors import CommandFailed
from service.cli.segments.files import is_transaction_log, map_file, segments
from service.cli.segments.owners import Owners, owners_of
from service.domain.partitions.endings import cause_of_marker
from service.domain.partitions.offset_spans import HEAD, Span, SpanBuilder
from service.partition_log import walk_through
from service.wire.batches import read_batches

_NO_LSO: Final = -1
"""No LSO is known: a transaction without a marker in the files counts as open."""


class _Segment(NamedTuple):
    path: Path
    first: int
    data: bytes
    is_log: bool


def explain_segments(names: Sequence[str], offset: int, to: int) -> tuple[LogExplanation, int]:
    """Returns the explanation and the offset up to which the files were read. Names and causes come from segments of
    the transaction log, if there are some among the files.

    CommandFailed for a file that cannot be read, files that are not of one partition, an offset that no file has.
    """
    opened = sorted(_opened(names), key=lambda file: file.first)
    files = [file for file in opened if not file.is_log] or opened
    if not files:
        raise CommandFailed(f"{', '.join(names)}: no record batch in these files")
    if offset < files[0].first:
        raise CommandFailed(f"no file has offset {offset}: the first begins at {files[0].first}")
    begin = 0 if files[0].first == 0 and offset <= HEAD else offset
    walk, end, truncated_at, is_whole = SpanBuilder(begin, to), 0, None, True
    for file in files:
        if file.first < end:
            raise CommandFailed(
                f"{file.path} begins at offset {file.first}, before {end}: does it belong to another partition?"
            )
        behind = walk_through(walk, file.data, file.first)
        if behind is None:
            is_whole = False
            truncated_at = None if walk.has_all_spans else max(end, walk.next)
            break
        end = behind
        if walk.is_done:
            break
    if is_whole and offset >= end:
        raise CommandFailed(f"no file has offset {offset}: the last one ends at {end}")
    walk.finish(end, _NO_LSO, is_whole=is_whole)
    if walk.to < to and truncated_at is None and walk.to < end:
        truncated_at = walk.to
    owners = owners_of(file.data for file in opened if file.is_log)
    spans = [_described(span, owners) for span in walk.spans({}, offset)]
    run = None if walk.only_aborted is None else AbortedRun.of(walk.only_aborted, owners.names.get)
    return LogExplanation(spans=spans, truncated_at=truncated_at, only_aborted=run, as_of=None), end


def _described(span: Span, owners: Owners) -> LogSpan:
    if span.producer_id is None:
        return LogSpan.of(span)
    name = owners.names.get(span.producer_id)
    decisions = owners.decisions.get(span.producer_id, ())
    cause = None
    if span.marker is not None and span.ended_ms is not None and not span.ends_nothing:
        cause = cause_of_marker(span.marker, span.ended_ms, decisions, None)  # compaction may have removed some
    return LogSpan.of(span, name, cause)


def _opened(names: Sequence[str]) -> Iterator[_Segment]:
    """Yields the segments that contain at least one batch."""
    for name in names:
        for path in segments(Path(name)):
            data = map_file(path)
            first = next(read_batches(data), None)
            if first is not None:
                yield _Segment(path, first.base_offset, data, is_transaction_log(path, data))
