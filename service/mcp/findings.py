"""Describes findings for answers. Names are in fields of their own; sentences contain a reference in place of each
name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from service.domain.findings.catalogue import CATALOGUE, Entry
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.worlds.verdict import Decided
from service.mcp.asking import Ask
from service.mcp.data import Fields, known, more, name, names, shortened

Finding = Mapping[str, Any]
"""A finding as REST returns it with the query `names=apart`."""


class Place(NamedTuple):
    """The sort key of a finding. `is_muted`: True if a mute is in force at the time of the data (`as_of`). `heals`: a
    number for the outlook of the finding's kind, which puts findings that do not heal by themselves first."""

    is_muted: bool
    rank: int
    is_candidate: bool
    heals: int
    kind: str


_RUNBOOKS: Final = "txnscope://runbooks/"

OPEN: Final = (Status.CANDIDATE.value, Status.CONFIRMED.value)

_PLAIN: Final = ("id", "kind", "severity", "status", "confidence")
_TIMES: Final = ("opened_at", "resolved_at", "self_heals_at", "muted_until")
_NAMED: Final = ("transactional_id", "topic", "group", "prefix")
_NUMBERS: Final = ("partition", "producer_id", "producer_epoch", "start_offset")
_READ: Final = 50
_RANKS: Final = {severity.value: severity.rank for severity in Severity}
_LEGAL_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Matches the names of topics that Kafka allows. A command with any other text as the topic would not be safe to
paste."""


def uri_of(alert: str) -> str:
    """Returns the URI of the resource that is the alert's runbook."""
    return f"{_RUNBOOKS}{alert}"


def described(finding: Finding) -> Fields:
    subject, words = finding["subject"], finding["words_apart"]
    found: Fields = known(finding, _PLAIN) | known(finding, _TIMES)
    about = {key: subject[key] for key in _NUMBERS if subject[key] is not None}
    for key in _NAMED:
        about |= name(key, subject[key])
    found |= {"subject": about, "summary": words["summary"]}
    if finding["count"] > 1:
        found["count"] = finding["count"]
    found |= name("owner", finding["owner"]) | names("blocked_groups", finding["blocked_groups"])
    found |= known(words, ("cause", "decided_by"))
    if words["names"]:
        found["names"] = {reference: shortened(text) for reference, text in words["names"].items()}
    if finding["status"] != Status.RESOLVED:
        found |= known(finding, ("decision", "possible")) | known(words, ("outlook", "advice"))
        found |= _by_operator(finding) | _from_catalogue(finding["kind"])
    return found


def _by_operator(finding: Finding) -> Fields:
    """Returns the commands that an operator can run for a hanging transaction; an empty mapping if there are none, or
    for a finding of another kind."""
    is_legal = _LEGAL_TOPIC.fullmatch(finding["subject"]["topic"] or "") is not None
    command = finding["command"] if is_legal else None
    if finding["kind"] != Kind.HANGING or (command is None and finding["decision"] != Decided.COMMIT):
        return {}
    found: Fields = {} if command is None else {"command": command}
    if finding["status"] == Status.CONFIRMED:
        found["dry_run"] = (
            f"txnscope resolve {finding['id']} --cluster {shlex.quote(finding['cluster'])} --key-file FILE"
        )
    return found


def _entry(kind: str) -> Entry | None:
    return CATALOGUE[Kind(kind)] if kind in tuple(Kind) else None


def _from_catalogue(kind: str) -> Fields:
    """Returns the actions that do not help against findings of the kind, and the URI of the runbook. Returns an empty
    mapping for a kind that only another version of txnscope knows."""
    entry = _entry(kind)
    if entry is None:
        return {}
    found: Fields = {"does_not_help": list(entry.no_help)} if entry.no_help else {}
    return found if entry.alert is None else found | {"runbook": uri_of(entry.alert)}


async def open_findings(ask: Ask, cluster: str, **filters: str) -> list[Finding]:
    """Returns up to _READ open findings, the newest ones, ordered with the gravest first and muted ones last."""
    placed = await _read(ask, cluster, **filters)
    return [one for _, one in sorted(placed, key=itemgetter(0))]


async def gravest_findings(ask: Ask, cluster: str, most: int) -> list[Fields]:
    """Returns up to `most` open findings of a cluster, the gravest first and muted ones last."""
    placed: list[tuple[Place, Finding]] = []
    for severity in Severity:
        placed += await _read(ask, cluster, severity=severity.value)
        if sum(not place.is_muted for place, _ in placed) >= most:
            break
    placed.sort(key=itemgetter(0))
    return [described(one) for _, one in placed[:most]]


async def _read(ask: Ask, cluster: str, **filters: str) -> list[tuple[Place, Finding]]:
    query: dict[str, str | Sequence[str]] = {"status": OPEN, "names": "apart", "limit": str(_READ)}
    page = await ask("clusters", cluster, "findings", **query | filters)
    return [(_place(one, page["as_of"]), one) for one in page["items"]]


def shown(found: Sequence[Finding], most: int) -> Fields:
    """Returns the field `findings` with the first `most` findings, and a field with the number of those left out."""
    return {"findings": [described(one) for one in found[:most]]} | more("findings", len(found) - most)


def _place(finding: Finding, as_of: str | None) -> Place:
    until = finding["muted_until"]
    is_muted = until is not None and (as_of is None or until > as_of)
    entry = _entry(finding["kind"])
    heals = 0 if entry is None else entry.outlook.order
    rank = _RANKS.get(finding["severity"], len(_RANKS))
    return Place(is_muted, rank, finding["status"] != Status.CONFIRMED, heals, finding["kind"])
