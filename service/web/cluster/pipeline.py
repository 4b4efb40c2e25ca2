"""The page that shows whether the verdicts of the other pages can be trusted: unknowns, sources, coordinators, limits.

For each unknown, the page shows its reason, the verdicts that are missing because of it, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fastapi import APIRouter, Request, Response

from service.api.http.answers import KeptRoute
from service.domain.findings.finding import Finding
from service.domain.findings.formatting import join_names
from service.domain.findings.unreadable import what_happened
from service.domain.reasons.reason import Reason
from service.domain.reasons.unjudged import BeingConfirmed, ProducerUnknown, TooManyOpen, TooManyStalled
from service.domain.source_state import COVERED_WITHIN_MS, SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.states import CONFIG_DEFAULTS
from service.store.queries import clusters
from service.store.queries.pipeline import REJECTS_READ, count_rejects, rejects_since, request_times
from service.views import words
from service.views.cluster.description import Broker
from service.views.cluster.frame import LATE, NEVER, OLD, READING, UNKNOWN, Freshness
from service.views.cluster.sources import Coordinator, coordinators_of
from service.views.cluster.unknowns import Unknown, UnknownKind
from service.views.cluster.verdict import Verdict
from service.views.grants import bootstrap_of, grant_of_groups, lines_of
from service.web.cluster.sources import SourceRow, asked_rows, source_rows
from service.web.partitions.partition_list import denied_groups
from service.web.shared.frame import framed
from service.web.shared.render import render

GROUPS_NAMED: Final = 5
PARTITIONS_SHOWN: Final = 40

_LOG_VERDICTS: Final = "state, cause, timeouts, expiry, blockers"
_PARTITION_VERDICTS: Final = "hanging, blocked, waiting groups"
_TAKEN_BY_SOURCE: Final[Mapping[str, str]] = {
    SourceName.TRANSACTION_LOG: _LOG_VERDICTS,
    SourceName.PARTITIONS: _PARTITION_VERDICTS,
}


_SHARE_GROUPS: Final = "Check the share.isolation.level of these groups: they wait only with read_committed."
_SEE_TO: Final = "Check the brokers; txnscope retries by itself."
_TAKES: Final = {
    UnknownKind.SOURCE: ("what it reports", _SEE_TO, None),
    UnknownKind.PARTITIONS: (_PARTITION_VERDICTS, _SEE_TO, None),
    UnknownKind.NOT_WATCHED: ("all verdicts about them", "Nothing, if the setting is intended.", None),
    UnknownKind.LEFT_OUT: ("findings about them", "They get findings when there are fewer of them.", None),
    UnknownKind.OFFSETS: ("the transactions in them", "Nothing: the records cannot be read any more.", "#rejects"),
    UnknownKind.STATES: (
        "the state of these ids; they are not reported as hanging",
        "Wait for the next records of these ids, or update txnscope.",
        "#rejects",
    ),
    UnknownKind.CONFIGS: ("nothing; limits are assumed", _SEE_TO, "#configs"),
}
"""For each kind of unknown: the verdicts that are missing, the advice, and the address of the details (None if there
are no details)."""


class UnknownRow(NamedTuple):
    """A row about something unknown. `takes`: the verdicts that the unknown makes impossible. `commands`: command lines
    to be pasted. `advice`: a text that is shown if there are no commands. `kind`: None for a row about groups."""

    what: str
    takes: str
    why: str
    commands: tuple[str, ...]
    advice: str
    address: str | None = None
    kind: UnknownKind | None = None

    @property
    def is_one_of_many(self) -> bool:
        """Returns True for a row about partitions if no permission would make them readable. There may be thousands of
        such rows, each with its own reason."""
        return self.kind is UnknownKind.PARTITIONS and not self.commands


def unknown_rows(unknown: Iterable[Unknown], denied: Sequence[Finding], brokers: Sequence[Broker]) -> list[UnknownRow]:
    """Returns a row for each of `unknown`, in the same order, then a row for each different reason in `denied`.
    `denied`: the findings about groups that cannot be judged."""
    bootstrap = bootstrap_of(brokers)
    by_reason: dict[Reason | None, list[Finding]] = {}
    for finding in denied:
        by_reason.setdefault(finding.observation.reason, []).append(finding)
    of_groups = [_row_of_groups(some, reason, bootstrap) for reason, some in by_reason.items()]
    return [_row(one, bootstrap) for one in unknown] + of_groups


def _row_of_groups(denied: Sequence[Finding], reason: Reason | None, bootstrap: str | None) -> UnknownRow:
    names = sorted(finding.subject.group or "" for finding in denied)
    grant = grant_of_groups(denied)
    is_one = len(names) == 1
    kind = "consumer group" if reason is None else "share group"
    why = f"no permission to read {'its' if is_one else 'their'} offsets" if reason is None else str(reason)
    return UnknownRow(
        f"{kind} {names[0]}" if is_one else f"{kind}s {join_names(names, GROUPS_NAMED)}",
        "whether it waits" if is_one else "whether they wait",
        why,
        tuple(lines_of(grant, bootstrap)),
        _SHARE_GROUPS if grant is None else f"Grant {grant.text} to txnscope's principal.",
    )


def bounded(rows: Iterable[UnknownRow]) -> tuple[list[UnknownRow], int]:
    """Returns the rows that are shown, and the number of rows left out. Of the rows with `is_one_of_many`, at most
    PARTITIONS_SHOWN are shown."""
    rows = list(rows)
    many = [row for row in rows if row.is_one_of_many]
    left_out = {id(row) for row in many[PARTITIONS_SHOWN:]}
    return [row for row in rows if id(row) not in left_out], len(left_out)


def _row(one: Unknown, bootstrap: str | None) -> UnknownRow:
    takes, advice, address = _TAKES[one.kind]
    commands = tuple(lines_of(one.grant, bootstrap))
    if one.grant is not None:
        advice = f"Grant {one.grant.text} to txnscope's principal."
    elif isinstance(one.reason, ProducerUnknown) and isinstance(one.reason.because, BeingConfirmed):
        advice = "Nothing yet: three confirmation steps decide it."
    elif isinstance(one.reason, TooManyStalled | TooManyOpen):
        advice = "The partitions stalled longest are judged first; the others are judged when there are fewer."
    if one.kind is UnknownKind.SOURCE:
        takes = _TAKEN_BY_SOURCE.get(one.source or "", takes)
    return UnknownRow(one.what, takes, one.why, commands, advice, address, one.kind)


_DAY_MS: Final = 86_400_000

router = APIRouter(route_class=KeptRoute, include_in_schema=False)


class Cell(NamedTuple):
    """A cell for a partition of the transaction log. `text`: the leader of the partition, or the problem of the
    partition; `css`: `is-late`, `is-bad`, or empty."""

    coordinator: Coordinator
    text: str
    css: str


class Limit(NamedTuple):
    name: str
    text: str
    is_assumed: bool


@router.get("/clusters/{cluster}/pipeline")
def get_pipeline(request: Request, cluster: str) -> Response:
    """Returns the page; 404 if the store does not know the cluster."""
    with framed(request, cluster) as (connection, frame):
        cluster_id, seen, now_ms = frame.cluster.id, frame.seen, frame.now_ms
        since_ms = now_ms - _DAY_MS
        logs = clusters.partitions(connection, cluster_id)
        rejects = count_rejects(connection, cluster_id, since_ms)
        denied = denied_groups(connection, cluster_id)
        limits = limits_in_use(seen.configs)
        sources = source_rows(seen.sources, frame.stalls, logs, rejects, now_ms)
        assumed = sum(limit.is_assumed for limit in limits)
        counts, unknown_ids = seen.coverage, seen.ids[states.UNKNOWN]
        standing = counts.blocked if counts.watched else None
        others = asked_rows(request_times(connection, cluster_id), len(denied), assumed, len(limits), standing)
        coordinators = coordinators_of(logs, clusters.state_counts(connection, cluster_id))
        unknown, more_unknown = bounded(unknown_rows(seen.unknown, denied, seen.brokers))
        return render(
            "pipeline.html",
            frame,
            page="pipeline",
            verdict=pipeline_verdict(
                frame.freshness, counts.watched, counts.unknown, unknown_ids, len(seen.unknown), sources
            ),
            unknown=unknown,
            more_unknown=more_unknown,
            sources=[*sources, *others],
            counts=counts,
            cells=[
                _cell(coordinator, rejects.get((SourceName.TRANSACTION_LOG, coordinator.log.partition), 0), now_ms)
                for coordinator in coordinators
            ],
            rejects=rejects_since(connection, cluster_id, since_ms),
            rejected=sum(rejects.values()),
            most_rejects=REJECTS_READ,
            gaps=clusters.gaps_since(connection, cluster_id, since_ms),
            what_happened=what_happened,
            limits=limits,
        )


def limits_in_use(configs: Mapping[str, Mapping[str, str]]) -> list[Limit]:
    """Returns the limits on which verdicts depend, then the other configs that the brokers reported."""
    names = [*CONFIG_DEFAULTS, *sorted(configs.keys() - CONFIG_DEFAULTS.keys())]
    return [
        Limit(name, _limit_text(name, configs[name]["value"]), configs[name]["source"] == "assumed")
        for name in names
        if name in configs
    ]


def _limit_text(name: str, value: str) -> str:
    return words.duration(int(value)) if name.endswith(".ms") and value.isdecimal() else value


def _cell(coordinator: Coordinator, rejects: int, now_ms: int) -> Cell:
    """Returns the cell, which shows the worst known problem of the partition."""
    if coordinator.log.leader < 0:
        return Cell(coordinator, "no leader", "is-bad")
    if rejects:
        return Cell(coordinator, f"{rejects:,} raw", "is-bad")
    if now_ms - coordinator.log.end_asked_at_ms > COVERED_WITHIN_MS:
        return Cell(coordinator, "not read", "is-late")
    if coordinator.log.lag:
        return Cell(coordinator, f"lag {words.about(coordinator.log.lag)}", "is-late")
    return Cell(coordinator, f"b{coordinator.log.leader}", "")


TRUSTED = "trusted"
PARTLY = "partly"


def pipeline_verdict(
    freshness: Freshness,
    watched: int,
    unknown_partitions: int,
    unknown_ids: int,
    others: int,
    sources: Sequence[SourceRow],
) -> Verdict:
    """Returns the verdict of the page. `watched`: number of watched partitions; `others`: number of entries in the list
    of unknowns. The verdict is "Verdicts can be trusted." without a restriction only if the data are fresh and
    complete."""
    if freshness.word == NEVER:
        return Verdict(NEVER, "unknown", "Nothing can be judged yet: not every source has been read.")
    if freshness.word == READING:
        return Verdict(READING, "unknown", "Nothing can be judged yet: the transaction log is being read.")
    if freshness.word == UNKNOWN:
        text = f"No verdict can be trusted: nothing new for {words.duration(freshness.age_ms)}."
        return Verdict(UNKNOWN, "unknown", text)
    if freshness.word == OLD:
        text = f"Verdicts are the last known ones: data is {words.duration(freshness.age_ms)} old."
        return Verdict(OLD, "unknown", text)
    if not watched:
        return Verdict(UNKNOWN, "unknown", "Partitions are unknown: none has been sampled.")
    but = [words.plural(unknown_partitions, "partition")] if unknown_partitions else []
    but += [words.plural(unknown_ids, "id")] if unknown_ids else []
    if but:
        return Verdict(PARTLY, "info", f"Verdicts can be trusted, except for {join_names(but)}.")
    if others or freshness.word == LATE or not all(source.is_well for source in sources):
        return Verdict(PARTLY, "info", "Verdicts can be trusted, with the exceptions below.")
    return Verdict(TRUSTED, "ok", "Verdicts can be trusted.")
