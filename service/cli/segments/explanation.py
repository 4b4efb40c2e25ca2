"""Explains offsets from segment files of their partition, without a broker or a store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final

from service.api.schemas.offsets import AbortedRun, LogExplanation, LogSpan
from service.cli.errors import CommandFailed
from service.cli.segments.transaction_logs import JudgedLogs, open_segments
from service.domain.partitions.aborted_run import EndOfRun, OnlyAborted
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.marker_causes import cause_of_marker
from service.domain.partitions.offset_spans import HEAD, Span, SpanBuilder, SpanKind
from service.domain.partitions.own_transactions import LoggedTransaction, OwnDecision, own_decisions
from service.partition_log import walk_through
from service.views.partitions.explained_span import ExplainedSpan
from service.views.partitions.offsets import ExplainedRun

_NO_LSO: Final = -1
"""Used as the LSO, which segment files do not contain. With this value, a transaction whose marker is not in the files
counts as open, if the files were read to their end."""

_DIRECTORY: Final = re.compile(r"(.+)-([0-9]{1,10})")


def explain_segments(
    names: Sequence[str], offset: int, to: int, place: TopicPartition | None
) -> tuple[LogExplanation, int]:
    """Returns the explanation and the offset up to which the files were read. Names and causes come from segments of
    the transaction log, if there are some among the files. `place`: the partition that the command line names; None:
    the partition that the files' directory names.

    Raises CommandFailed if a file cannot be read, if no file has a batch, if offsets of two files overlap (as those of
    two partitions do), or if no file has the offset.
    """
    opened = [(file.first, file) for file in open_segments(names) if file.first is not None]
    files = sorted([one for one in opened if not one[1].is_log] or opened, key=itemgetter(0))
    if not files:
        raise CommandFailed(f"{', '.join(names)}: no record batch in these files")
    first, first_file = files[0]
    if offset < first:
        raise CommandFailed(f"no file has offset {offset}: the first begins at {first}")
    begin = 0 if first == 0 and offset <= HEAD else offset
    walk, end, truncated_at, is_whole = SpanBuilder(begin, to, run_from=offset), 0, None, True
    for since, file in files:
        if since < end:
            raise CommandFailed(
                f"{file.path} begins at offset {since}, but the file before it ends at {end}: does one of them"
                " belong to another partition?"
            )
        behind = walk_through(walk, file.data, since)
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
    logs = JudgedLogs((file for _, file in opened), place or _place_of(first_file.path))
    spans = walk.spans({})
    own = {
        producer_id: own_decisions(
            spans, logs.transactions(producer_id), walk.before, producer_id, is_whole=walk.has_every_marker
        )
        for producer_id in {span.producer_id for span in spans}
        if producer_id is not None
    }
    bodies = [
        LogSpan.of(_described(span, offset, logs, own.get(-1 if span.producer_id is None else span.producer_id, {})))
        for span in spans
        if span.next > offset
    ]
    run = None
    if walk.only_aborted is not None:
        run = AbortedRun.of(ExplainedRun.of(_judged(walk.only_aborted, logs), logs.names.get))
    return LogExplanation(spans=bodies, truncated_at=truncated_at, only_aborted=run, as_of=None), end


def _described(span: Span, since: int, logs: JudgedLogs, own: Mapping[int, OwnDecision]) -> ExplainedSpan:
    """Explains the part of the span from offset `since` on. `own`: the decisions, keyed by the first offset of
    the whole span."""
    decision, cause = own.get(span.first), None
    span = span._replace(first=max(span.first, since))
    if span.producer_id is None:
        return ExplainedSpan(span)
    name = logs.names.get(span.producer_id)
    if span.marker is not None and span.ended_ms is not None and not span.ends_nothing:
        # compaction may have removed some decisions
        decisions = logs.decisions(span.producer_id)
        cause = cause_of_marker(span.marker, span.marker_epoch, span.ended_ms, decisions, None)
    if (
        decision is not None
        and span.kind == SpanKind.OPEN
        and not _may_be_open(span, logs.transactions(span.producer_id))
    ):
        span = span._replace(kind=SpanKind.UNKNOWN)
    return ExplainedSpan.of(span, name, cause, decision)


def _may_be_open(span: Span, transactions: Iterable[LoggedTransaction]) -> bool:
    open_epochs = [transaction.data_epoch for transaction in transactions if transaction.marker is None]
    return span.producer_epoch in open_epochs or None in open_epochs


def _judged(run: OnlyAborted, logs: JudgedLogs) -> OnlyAborted:
    """Returns the run. If the transaction that is open at the end of the run may have ended, sets `ended_by` to
    UNKNOWN. Such a transaction has no marker in the files, but the transaction log shows nothing open under its
    producer id."""
    if run.open_producer_id is None or run.open_producer_id not in logs.names:
        return run
    is_open = any(transaction.marker is None for transaction in logs.transactions(run.open_producer_id))
    return run if is_open else run._replace(ended_by=EndOfRun.UNKNOWN)


def _place_of(path: Path) -> TopicPartition | None:
    """Returns the partition that the file's directory names, as a broker's directories do; None for other names."""
    found = _DIRECTORY.fullmatch(path.absolute().parent.name)
    return None if found is None else (found[1], int(found[2]))
