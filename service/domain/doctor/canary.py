"""Describes what the canary's principal may do, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from service.domain.canary.targets import ID_PREFIX
from service.domain.doctor.acls import Acl, topic
from service.domain.doctor.lines import GAP, NOTE, OK, Line
from service.domain.transaction_log.states import TOPIC

_WHAT = "canary"


@dataclass(frozen=True, slots=True)
class CanaryReport:
    """The canary's permissions. `operations`: the operations that are allowed on its topic; None if the topic does not
    exist, or may not be described. `may_create`: None if the topic exists and may be described. `why`: the reason if
    the permissions could not be read; the other fields except `topic` then mean nothing."""

    topic: str
    operations: frozenset[str] | None = None
    may_create: bool | None = None
    describes_log: bool = False
    writes_ids: bool = False
    describes_ids: bool = False
    why: str | None = None


def canary_lines(report: CanaryReport) -> list[Line]:
    """Returns the lines about the canary's permissions; one line if the permissions could not be read."""
    if report.why is not None:
        return [Line(GAP, _WHAT, f"the permissions of the canary's principal could not be read: {report.why}")]
    return [*_log(report), *_ids(report), *_topic(report)]


def _log(report: CanaryReport) -> Iterator[Line]:
    if report.describes_log:
        yield Line(OK, _WHAT, f"DESCRIBE is allowed on {TOPIC}")
    else:
        text = f"DESCRIBE on {TOPIC} is denied, so the canary cannot find out which broker coordinates which id"
        yield Line(GAP, _WHAT, text, (topic(TOPIC, "Describe"),))


def _ids(report: CanaryReport) -> Iterator[Line]:
    if report.writes_ids and report.describes_ids:
        yield Line(OK, _WHAT, f"WRITE is allowed on transactional ids that begin with {ID_PREFIX}")
        return
    denied = "WRITE" if not report.writes_ids else "DESCRIBE"
    text = (
        f"{denied} is denied on transactional ids that begin with {ID_PREFIX}, so the canary cannot run a transaction"
    )
    grant = Acl("--transactional-id", ID_PREFIX, "Write", is_prefix=True)  # WRITE implies DESCRIBE
    yield Line(GAP, _WHAT, text, (grant,))


def _topic(report: CanaryReport) -> Iterator[Line]:
    name = report.topic
    needed = {operation: topic(name, operation.capitalize()) for operation in ("READ", "WRITE")}
    if report.operations is None:
        if report.may_create:
            yield Line(NOTE, _WHAT, f"topic {name} does not exist, or may not be described; CREATE is allowed")
            return
        text = f"topic {name} does not exist, or may not be described, and CREATE is denied"
        yield Line(GAP, _WHAT, text, (topic(name, "Create"), *needed.values()))
        return
    lacking = [operation for operation in needed if operation not in report.operations]
    if lacking:
        text = f"{' and '.join(lacking)} on topic {name} {'is' if len(lacking) == 1 else 'are'} denied"
        yield Line(GAP, _WHAT, text, tuple(needed[one] for one in lacking))
    else:
        yield Line(OK, _WHAT, f"READ and WRITE are allowed on topic {name}")
    if "DELETE" not in report.operations:
        yield Line(NOTE, _WHAT, f"DELETE on topic {name} is denied, so its records stay until retention deletes them")
