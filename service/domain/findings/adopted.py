"""Records that will end with a transaction they are no part of: a marker closes all that its producer id left open."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from service.domain.findings import kinds
from service.domain.findings.finding import Evidence, Observation, Subject
from service.domain.findings.hanging import Case, about_owner
from service.domain.findings.rules import Rules
from service.domain.findings.words import moment

_OF_NOTHING: Final = (
    "Nothing has to be done to end it. If the present transaction commits, consumers read the left-over records as if"
    " they belonged to it: look for duplicates, and at what its producer sends after the end of a transaction."
)
_OF_COMMITTED: Final = (
    "The left-over records are of a transaction that was committed. An abort of the present transaction destroys them;"
    " a commit is the good case. Do not stop the producer, and do not end its transaction by hand."
)


def adopted(cases: Iterable[Case], rules: Rules, committed: Container[Subject] = ()) -> list[Observation]:
    """`cases`: entries that are older than the transaction that will close them. `committed`: those of them that were
    proven to be of a committed transaction, whose marker was never written."""
    return [_observe(case, rules, is_committed=case.subject in committed) for case in cases]


def _observe(case: Case, rules: Rules, *, is_committed: bool) -> Observation:
    entry, owner = case.entry, case.owner
    assert owner is not None  # somebody adopts
    rule = rules.of(case.name or "", (entry.topic,))
    return Observation(
        kind=kinds.ADOPTED,
        severity=kinds.CRITICAL if is_committed else kinds.WARNING,
        subject=case.subject,
        summary=f"{entry.topic}-{entry.partition}: records of {case.name} from offset {entry.start_offset} on are left"
        " over from before its present transaction, and will be committed or aborted with it",
        advice=_OF_COMMITTED if is_committed else _OF_NOTHING,
        evidence=(
            *about_owner(case),
            Evidence(
                entry.first_seen_ms,
                f"{entry.topic}-{entry.partition}@{entry.start_offset}",
                f"open already then; the present transaction began at {moment(owner.start_ms)}",
            ),
        ),
        log_partition=owner.log_partition,
        owner=rule.owner,
        muted_until_ms=rule.mute_until_ms,
        blocked_groups=case.groups,
    )
