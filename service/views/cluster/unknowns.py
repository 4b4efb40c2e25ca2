"""The unknowns of a cluster: what cannot be known at present, why, and which permission would help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from service.domain.doctor.acls import CONFIGS_GRANT, Grant, grant_for
from service.domain.findings.formatting import describe_counts
from service.domain.findings.formatting import join_partitions as named
from service.domain.findings.unreadable import DataGap, what_happened
from service.domain.reasons.reason import Reason
from service.store.queries.clusters import StatusRow
from service.views.partitions.judged import Coverage, UnjudgedPartitions
from service.views.words import plural

GAPS_KEPT_MS: Final = 86_400_000


class UnknownKind(StrEnum):
    """The kinds of unknowns: a source, partitions that cannot be judged, partitions that are not watched, conditions
    without a finding, offsets, states of ids, configs.
    """

    SOURCE = "source"
    PARTITIONS = "partitions"
    NOT_WATCHED = "not_watched"
    LEFT_OUT = "left_out"
    OFFSETS = "offsets"
    STATES = "states"
    CONFIGS = "configs"


class Unknown(NamedTuple):
    """Something that cannot be known at present. `what` and `why`: texts for people. `grant`: the permission that would
    help, if there is one. `source`: the name of the source, only if the kind is SOURCE. `reason`: `why` as a value for
    code, if there is one."""

    kind: UnknownKind
    what: str
    why: str
    grant: Grant | None = None
    source: str | None = None
    reason: Reason | None = None


def of_cluster(
    *,
    statuses: Iterable[StatusRow],
    gaps: Sequence[DataGap],
    unknown_ids: int,
    configs: Mapping[str, Mapping[str, str]],
    coverage: Coverage,
    truncated: Mapping[str, int],
) -> list[Unknown]:
    """Returns the unknowns, the gravest first: failing sources, partitions that are not judged or not watched,
    conditions without a finding, gaps, ids, configs. `truncated`: a mapping from kind to the number of conditions
    without a finding."""
    found = [
        Unknown(
            UnknownKind.SOURCE,
            f"source {status.source}",
            str(status.error),
            grant_for(status.error),
            status.source,
            status.error,
        )
        for status in statuses
        if status.error is not None
    ]
    found += [_missing(missing) for missing in coverage.missing]
    if coverage.not_covered:
        why = "not watched: --topics or --mirrored excludes their topics"
        found.append(Unknown(UnknownKind.NOT_WATCHED, f"{coverage.not_covered} partitions", why))
    if truncated:
        why = "too many conditions at once: those counted here were not read, or got no finding"
        found.append(Unknown(UnknownKind.LEFT_OUT, describe_counts(truncated), why))
    found += [_gap(gap) for gap in gaps]
    if unknown_ids:
        what = f"state of {plural(unknown_ids, 'transactional id')}"
        found.append(Unknown(UnknownKind.STATES, what, "their newest record could not be decoded"))
    assumed = sorted(name for name, config in configs.items() if config["source"] == "assumed")
    if assumed:
        why = f"{', '.join(assumed)}: not read from the brokers, so Kafka's defaults are assumed"
        found.append(Unknown(UnknownKind.CONFIGS, "broker configs", why, CONFIGS_GRANT))
    return found


def _missing(missing: UnjudgedPartitions) -> Unknown:
    beyond = missing.partitions - len(missing.places)
    what = named(missing.places) if missing.places else "partitions"
    if beyond > 0:
        what = f"{what} and {beyond:,} more" if missing.places else f"{beyond:,} partitions"
    return Unknown(UnknownKind.PARTITIONS, what, str(missing.why), grant_for(missing.why), reason=missing.why)


def _gap(gap: DataGap) -> Unknown:
    offsets = f"offsets {gap.from_offset} to {gap.to_offset}"
    why = f"{offsets} {what_happened(gap.reason, gap.missing)}"
    return Unknown(UnknownKind.OFFSETS, f"{gap.topic}-{gap.partition}", why)
