"""Converts a finding to a row of `findings`, and back."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection

from service.domain.findings import kinds
from service.domain.findings.finding import Evidence, Finding, Subject
from service.domain.partitions.facts import LogPlace
from service.domain.reasons.coding import decode_if, encode_if
from service.domain.transaction_log.causes import Confidence
from service.domain.worlds.verdict import Decided, Proof, ProofKind, World
from service.store.many_rows import json_for
from service.store.schema import findings

_SUBJECT: Final = tuple(Subject._fields)
_SHAPED: Final = (
    "subject",
    "evidence",
    "blocked_groups",
    "possible",
    "proofs",
    "reason",
    "passed_over",
    "acknowledgement",
)


_WORDS: Final = {
    "kind": kinds.Kind,
    "severity": kinds.Severity,
    "status": kinds.Status,
    "confidence": Confidence,
    "resolution": kinds.Resolution,
    "decision": Decided,
}


def row_of(cluster_id: int, finding: Finding, connection: Connection) -> tuple[Any, ...]:
    """Returns the finding as a row, in the order of the table's columns."""
    subject = dict(zip(_SUBJECT, finding.subject, strict=True))
    bind = json_for(connection)
    values = {
        "cluster_id": cluster_id,
        "evidence": bind([list(one) for one in finding.evidence]),
        "blocked_groups": bind(list(finding.blocked_groups)),
        "possible": bind(list(finding.possible)),
        "proofs": bind([list(one) for one in finding.proofs]),
        "reason": encode_if(finding.reason),
        "passed_over": bind(list(finding.passed_over)),
    }
    return tuple(
        values[name] if name in values else subject[name] if name in subject else getattr(finding, name)
        for name in findings.c.keys()  # noqa: SIM118 - a collection of columns
    )


def finding_of(row: Any) -> Finding:
    """Returns the finding in a row that has all columns of the table."""
    columns = row._mapping
    plain = {name: columns[name] for name in Finding.__dataclass_fields__ if name not in _SHAPED}
    words = {name: word(plain[name]) for name, word in _WORDS.items() if plain[name] is not None}
    return Finding(
        **plain | words,
        subject=Subject(*(columns[name] for name in _SUBJECT)),
        evidence=tuple(Evidence(at_ms, _source(source), text) for at_ms, source, text in columns["evidence"]),
        blocked_groups=tuple(columns["blocked_groups"] or ()),
        possible=tuple(World(one) for one in columns["possible"] or ()),
        proofs=tuple(
            Proof(ProofKind(kind), at_ms, _source(source), text)
            for kind, at_ms, source, text in columns["proofs"] or ()
        ),
        reason=decode_if(columns["reason"]),
        passed_over=tuple(columns["passed_over"]),
    )


def _source(stored: str | list[Any]) -> LogPlace | str:
    return stored if isinstance(stored, str) else LogPlace(*stored)


def _bind_json(connection: Connection) -> Any:
    """Returns the function that encodes a JSON value for the database's driver: `Upsert` bypasses SQLAlchemy's own
    encoding."""
    return findings.c.evidence.type.dialect_impl(connection.dialect).bind_processor(connection.dialect) or (lambda v: v)
