"""How far each source has come: logs that are read, partitions that are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from service.api.fields import text_of_time
from service.domain.findings.words import partitions as named
from service.domain.partition_facts import SOURCE as PARTITIONS
from service.store.read import PartitionRow, StatusRow
from service.store.read_judged import Coverage


def describe_sources(
    partitions: Sequence[PartitionRow], statuses: dict[str, StatusRow], coverage: Coverage
) -> list[dict[str, Any]]:
    """By name. `coverage`: of data partitions."""
    read_of = {source: list(rows) for source, rows in groupby(partitions, lambda row: row.source)}
    return [
        _looked_at(statuses[name], coverage)
        if name == PARTITIONS
        else _read(name, read_of.get(name, []), statuses.get(name, StatusRow(name, None, None)))
        for name in sorted(read_of.keys() | statuses.keys())
    ]


def _read(name: str, partitions: Sequence[PartitionRow], status: StatusRow) -> dict[str, Any]:
    behind = [row.partition for row in partitions if row.next_offset < row.end_offset]
    why = None
    if behind:
        why = f"{len(behind)} of {len(partitions)} partitions are not read to their end yet"
    elif not partitions:
        why = status.error or "nothing was read yet"
    return {
        "source": name,
        "position": sum(row.next_offset for row in partitions),
        "end": sum(row.end_offset for row in partitions),
        "lag": sum(max(0, row.end_offset - row.next_offset) for row in partitions),
        "caught_up": bool(partitions) and not behind,
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
    return {
        "source": PARTITIONS,
        "position": None,
        "end": None,
        "lag": None,
        "caught_up": coverage.watched > 0 and coverage.answering == coverage.watched,
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
    if not coverage.watched:
        return status.error or "no partition was looked at yet"
    if not coverage.unknown:
        return None
    if not coverage.missing:
        return status.error or "they have not answered lately"
    first, *others = coverage.missing
    more = f"; {len(others)} other reasons" if len(others) > 1 else "; and another reason" if others else ""
    return f"{named(first.places) if first.places else first.partitions}: {first.why}{more}"
