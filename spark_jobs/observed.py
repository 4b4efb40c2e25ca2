"""What findings say of open entries that nobody owns, or that something else than their own transaction will end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from service.domain.findings.context import Context
from service.domain.findings.finding import Observation
from service.domain.findings.hanging import Case, observe
from service.store.display import display_id
from service.store.queries.judged_partitions import JudgedEntry
from service.store.queries.partitions import PartitionRow
from spark_jobs.judge.hanging_case import OpenCase


def observed(case: OpenCase, context: Context, bootstrap: str, now_ms: int) -> Observation:
    """What hangs, as it is known by now. `bootstrap`: servers for the command."""
    transactional_id = case.subject.transactional_id
    name = None if transactional_id is None else display_id(transactional_id)
    shown = Case(
        case.entry,
        case.owner,
        name,
        case.log_start,
        case.last_stable_offset,
        tuple(case.evidence),
        case.shown,
        context.groups.waiting([case.entry.place], case.entry.producer_id),
        context.groups.pending(case.entry.place, case.entry.producer_id),
    )
    return observe(
        shown,
        context.rules.of(name or "", (case.entry.topic,)),
        bootstrap,
        confirmed=case.confirmed_by is not None,
        certain=case.is_certain(context, now_ms),
        may_skip_markers=context.may_skip_markers,
    )._replace(subject=case.subject)


def cases_of(shown: Iterable[tuple[PartitionRow, JudgedEntry]], word: str, context: Context) -> Iterator[Case]:
    """What has this relation."""
    for row, (entry, relation) in shown:
        if relation.word == word:
            name = None if relation.owner is None else display_id(relation.owner.transactional_id)
            waiting = context.groups.waiting([entry.place], entry.producer_id)
            yield Case(entry, relation.owner, name, row.log_start, row.last_stable_offset, (), groups=waiting)
