"""What cannot be known about a cluster right now, why, and which permission would help."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from service.domain.findings.unreadable import what_happened
from service.domain.findings.words import left_out
from service.domain.findings.words import partitions as named
from service.store.queries.clusters import GapRow, StatusRow
from service.store.queries.judged_partitions import Coverage, Missing

GAPS_KEPT_MS: Final = 86_400_000

_GRANT: Final = re.compile(r"no permission on topic (\S+): grant (.+?) on it")
"""As `service.kafka.errors.no_permission` says it."""


def of_cluster(
    *,
    statuses: Iterable[StatusRow],
    gaps: Sequence[GapRow],
    unknown_ids: int,
    configs: Mapping[str, Mapping[str, str]],
    coverage: Coverage,
    truncated: Mapping[str, int],
) -> list[dict[str, Any]]:
    """`[{what, why, grant}]`, the gravest first: sources that fail, partitions, findings, gaps, ids, configs.
    `truncated`: how many of each kind have no finding."""
    failing = ((status.source, status.error) for status in statuses if status.error is not None)
    found = [_entry(f"source {source}", error, _grant(error)) for source, error in failing]
    found += [_missing(missing) for missing in coverage.missing]
    if coverage.not_covered:
        found.append(
            _entry(f"{coverage.not_covered} partitions", "not watched: --topics or --mirrored leaves them out")
        )
    if truncated:
        found.append(_entry(left_out(truncated), "too many at once: they have no finding, or were not read"))
    found += [_gap(gap) for gap in gaps]
    if unknown_ids:
        found.append(_entry(f"state of {unknown_ids} transactional ids", "their newest record could not be decoded"))
    assumed = sorted(name for name, config in configs.items() if config["source"] == "assumed")
    if assumed:
        why = f"{', '.join(assumed)}: not read from the brokers, Kafka's defaults are assumed"
        found.append(_entry("broker configs", why, "DESCRIBE_CONFIGS on the cluster"))
    return found


def _missing(missing: Missing) -> dict[str, Any]:
    beyond = missing.partitions - len(missing.places)
    what = named(missing.places) if missing.places else "partitions"
    if beyond > 0:
        what = f"{what} and {beyond:,} more" if missing.places else f"{beyond:,} partitions"
    return _entry(what, missing.why, _grant(missing.why))


def _grant(why: str) -> str | None:
    """The permission that the text names."""
    named_there = _GRANT.search(why)
    return named_there and f"{named_there[2]} on topic {named_there[1]}"


def _gap(gap: GapRow) -> dict[str, Any]:
    offsets = f"offsets {gap.from_offset} to {gap.to_offset}"
    return _entry(f"{gap.topic}-{gap.partition}", f"{offsets} {what_happened(gap.reason, gap.missing)}")


def _entry(what: str, why: str | None, grant: str | None = None) -> dict[str, Any]:
    return {"what": what, "why": why, "grant": grant}
