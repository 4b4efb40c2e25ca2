"""The unknowns on the pipeline page: each with its reason, the verdicts that are missing because of it, and what to
do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from service.domain.findings.finding import Finding
from service.domain.findings.formatting import join_names
from service.domain.reasons.reason import Reason
from service.domain.reasons.unjudged import BeingConfirmed, ProducerUnknown, TooManyOpen, TooManyStalled
from service.domain.source_state import SourceName
from service.views.cluster.description import Broker
from service.views.cluster.unknowns import Unknown, UnknownKind
from service.views.grants import bootstrap_of, grant_of_groups, lines_of

GROUPS_NAMED: Final = 5
PARTITIONS_SHOWN: Final = 40

_LOG_VERDICTS: Final = "state, cause, timeouts, expiry, blockers"
_PARTITION_VERDICTS: Final = "hanging, blocked, waiting groups"
_TAKEN_BY_SOURCE: Final[Mapping[str, str]] = {
    SourceName.TRANSACTION_LOG: _LOG_VERDICTS,
    SourceName.PARTITIONS: _PARTITION_VERDICTS,
}


_SHARE_GROUPS: Final = "Look at the share.isolation.level of these groups: only with read_committed they wait."
_SEE_TO: Final = "Check the brokers; txnscope retries by itself."
_TAKES: Final = {
    UnknownKind.SOURCE: ("what it reports", _SEE_TO, None),
    UnknownKind.PARTITIONS: (_PARTITION_VERDICTS, _SEE_TO, None),
    UnknownKind.NOT_WATCHED: ("all of them", "Nothing, if that is intended.", None),
    UnknownKind.LEFT_OUT: (_PARTITION_VERDICTS, _SEE_TO, None),
    UnknownKind.OFFSETS: ("the transactions in them", "Nothing: the records cannot be read any more.", "#rejects"),
    UnknownKind.STATES: (
        "their state; they are not reported as hanging",
        "Wait for their next records, or update txnscope.",
        "#rejects",
    ),
    UnknownKind.CONFIGS: ("nothing; limits are assumed", _SEE_TO, "#configs"),
}
"""For each kind, the verdicts that are missing, what to do, and the address of more."""


class UnknownRow(NamedTuple):
    """Something unknown. `takes`: the verdicts that are missing because of it. `commands`: to be pasted; `advice`:
    shown if there are none."""

    what: str
    takes: str
    why: str
    commands: tuple[str, ...]
    advice: str
    address: str | None = None

    @property
    def is_one_of_many(self) -> bool:
        """Returns True for partitions that no grant would help: each of thousands may have a reason of its own."""
        return self.takes == _PARTITION_VERDICTS and not self.commands


def unknown_rows(unknown: Iterable[Unknown], denied: Sequence[Finding], brokers: Sequence[Broker]) -> list[UnknownRow]:
    """Returns the rows in the order of `unknown`, then one for each reason of `denied`: findings of groups that cannot
    be judged."""
    bootstrap = bootstrap_of(brokers)
    by_reason: dict[Reason | None, list[Finding]] = {}
    for one in denied:
        by_reason.setdefault(one.observation.reason, []).append(one)
    of_groups = [_row_of_groups(some, reason, bootstrap) for reason, some in by_reason.items()]
    return [_row(one, bootstrap) for one in unknown] + of_groups


def _row_of_groups(denied: Sequence[Finding], reason: Reason | None, bootstrap: str | None) -> UnknownRow:
    names = sorted(one.subject.group or "" for one in denied)
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
    """Returns the rows without partitions beyond PARTITIONS_SHOWN reasons, and the number of reasons left out."""
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
        advice = "Nothing yet: three confirmation steps decide it, within seconds."
    elif isinstance(one.reason, TooManyStalled | TooManyOpen):
        advice = "Partitions stalled longest come first; the others are judged when there are fewer."
    if one.kind is UnknownKind.SOURCE:
        takes = _TAKEN_BY_SOURCE.get(one.source or "", takes)
    return UnknownRow(one.what, takes, one.why, commands, advice, address)
