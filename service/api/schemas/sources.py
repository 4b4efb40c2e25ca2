"""Describes each source: how far its logs are read or its partitions sampled, how old that is, and why it stalls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from service.api.http.fields import text_of_time
from service.api.stalls import why_stalled
from service.domain.findings.words import partitions as named
from service.domain.partitions.facts import SOURCE as PARTITIONS
from service.domain.source_state import Stall
from service.store.queries.clusters import PartitionRow, StatusRow
from service.store.queries.judged_partitions import Coverage


def describe_sources(
    partitions: Sequence[PartitionRow],
    statuses: Mapping[str, StatusRow],
    coverage: Coverage,
    stalls: Mapping[str, Stall],
    now_ms: int,
) -> list[dict[str, Any]]:
    """Returns the sources by name. `coverage`: of data partitions. `stalls`: by source."""
    read_of = {source: list(rows) for source, rows in groupby(partitions, lambda row: row.source)}
    found = []
    for name in sorted(read_of.keys() | statuses.keys()):
        status = statuses.get(name, StatusRow(name, None, None))
        described = _looked_at(status, coverage) if name == PARTITIONS else _read(name, read_of.get(name, []), status)
        found.append(described | _stalled(stalls.get(name), now_ms))
    return found


def _stalled(stall: Stall | None, now_ms: int) -> dict[str, str | None]:
    return {
        "stalled_since": None if stall is None else text_of_time(stall.since_ms),
        "stalled_why": None if stall is None else why_stalled(stall, now_ms),
    }


def _read(name: str, partitions: Sequence[PartitionRow], status: StatusRow) -> dict[str, Any]:
    behind = [row.partition for row in partitions if row.next_offset < row.end_offset]
    why = None
    if behind:
        why = f"{len(behind)} of {len(partitions)} partitions are not read to their end yet"
    elif not partitions:
        why = status.error or ("nothing was read yet" if status.as_of_ms is None else None)
    return {
        "source": name,
        "position": sum(row.next_offset for row in partitions),
        "end": sum(row.end_offset for row in partitions),
        "lag": sum(max(0, row.end_offset - row.next_offset) for row in partitions),
        "caught_up": not behind and why is None,
        "coverage": {
            "watched": len(partitions),
            "judged": len(partitions) - len(behind),
            "unknown": len(behind),
            "why": why,
        },
        "as_of": text_of_time(status.as_of_ms),
        "error": status.error,
    }


def _looked_at(status: StatusRow, coverage: Coverage) -> dict[str, Any]:
    """Of a sampler: it has no position. A broker that is away is its `error`; the look at the others goes on."""
    has_looked = coverage.looked_at_ms is not None
    return {
        "source": PARTITIONS,
        "position": None,
        "end": None,
        "lag": None,
        "caught_up": has_looked and coverage.answering == coverage.watched and not coverage.hides_all,
        "coverage": {
            "watched": coverage.watched,
            "judged": coverage.judged,
            "unknown": coverage.unknown,
            "why": _why(status, coverage),
        },
        "as_of": text_of_time(coverage.looked_at_ms),
        "error": status.error,
    }


def _why(status: StatusRow, coverage: Coverage) -> str | None:
    """The commonest reason, with the partitions it holds for."""
    if coverage.looked_at_ms is None:
        return status.error or "no partition was looked at yet"
    if coverage.hides_all:
        return status.error or "no topic is to be seen: there is none, or DESCRIBE is not allowed"
    if not coverage.unknown:
        return None
    if not coverage.missing:
        return status.error or "they have not answered lately"
    first, *others = coverage.missing
    more = f"; {len(others)} other reasons" if len(others) > 1 else "; and another reason" if others else ""
    return f"{named(first.places) if first.places else first.partitions}: {first.why}{more}"
