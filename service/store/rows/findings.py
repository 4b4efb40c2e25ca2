"""Converts a finding to a row of `findings`, and back. The row has a column for each field of observation, subject and
life; the column of the facts is JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache
from typing import Any, Final, Union

from pydantic import ConfigDict, TypeAdapter, ValidationError
from sqlalchemy import JSON, Connection

from service.domain.findings import kinds
from service.domain.findings.catalogue import CATALOGUE
from service.domain.findings.finding import Evidence, Facts, Finding, Life, Observation, Subject, UnreadableFacts
from service.domain.partitions.facts import LogPlace
from service.domain.reasons.coding import decode_if, encode_if
from service.domain.transaction_log.causes import Confidence
from service.domain.worlds.verdict import Decided, Proof, ProofKind, World
from service.store.many_rows import json_for
from service.store.schema import findings

_EXACT: Final = ConfigDict(strict=True, extra="forbid")
_COLUMNS: Final = tuple(column.name for column in findings.c)
_LIFE: Final = tuple(field.name for field in fields(Life))
_JSON: Final = frozenset(column.name for column in findings.c if isinstance(column.type, JSON))
_OBSERVATION: Final = tuple(name for name in Observation._fields if name in _COLUMNS)


def _source(stored: str | list[Any]) -> LogPlace | str:
    return stored if isinstance(stored, str) else LogPlace(*stored)


_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "kind": kinds.Kind,
    "severity": kinds.Severity,
    "status": kinds.Status,
    "confidence": Confidence,
    "resolution": kinds.Resolution,
    "decision": Decided,
    "evidence": lambda stored: tuple(Evidence(at_ms, _source(source), text) for at_ms, source, text in stored),
    "blocked_groups": tuple,
    "possible": lambda stored: tuple(map(World, stored)),
    "proofs": lambda stored: tuple(
        Proof(ProofKind(kind), at_ms, _source(source), text) for kind, at_ms, source, text in stored
    ),
    "reason": decode_if,
    "passed_over": tuple,
}
"""Maps a column to the function that converts its stored values to the values of the field. Null is not converted. The
values of other columns are used unchanged."""


def row_of(cluster_id: int, finding: Finding, connection: Connection) -> tuple[Any, ...]:
    """Returns the finding as a row, in the order of the table's columns."""
    bind = json_for(connection)
    life = {name: getattr(finding.life, name) for name in _LIFE}
    values = {"cluster_id": cluster_id, "id": finding.id, **finding.subject._asdict(), **life}
    values |= finding.observation._asdict() | {"application": finding.application}
    values["reason"] = encode_if(finding.observation.reason)
    values["facts"] = encode_facts(finding.kind, finding.observation.facts)
    return tuple(bind(values[name]) if name in _JSON else values[name] for name in _COLUMNS)


def finding_of(row: Any) -> Finding:
    """Returns the finding in a row that has all columns of the table. Raises ValueError for a value that only a newer
    version of txnscope knows."""
    stored = row._mapping
    values = {
        name: value if (value := stored[name]) is None or name not in _READ else _READ[name](value)
        for name in (*_OBSERVATION, *_LIFE)
    }
    values["facts"] = decode_facts(values["kind"], stored["facts"])
    subject = Subject(*(stored[name] for name in Subject._fields))
    observation = Observation(subject=subject, **{name: values[name] for name in _OBSERVATION})
    life = Life(**{name: values[name] for name in _LIFE})
    return Finding(stored["id"], observation, life, application=stored["application"])


def finding_if_known(row: Any) -> Finding | None:
    """Returns the finding as `finding_of` does; None if the row has a value that only a newer version of txnscope
    knows, such as a new kind."""
    try:
        return finding_of(row)
    except ValueError:
        return None


def findings_of(rows: Iterable[Any]) -> list[Finding]:
    """Returns the findings in the rows, without those that only a newer version of txnscope knows."""
    return [found for row in rows if (found := finding_if_known(row)) is not None]


def encode_facts(kind: kinds.Kind, facts: Facts) -> str:
    """Returns the facts as JSON. UnreadableFacts are returned as they were stored."""
    if isinstance(facts, UnreadableFacts):
        return facts.stored
    return _adapter(kind).dump_json((facts,)).decode()


def decode_facts(kind: kinds.Kind, stored: str) -> Facts:
    """Returns the facts from a text that `encode_facts` made. If the text does not fit the facts of the kind, returns
    UnreadableFacts, so that one damaged finding does not hide the others."""
    try:
        (facts,) = _adapter(kind).validate_json(stored)
    except ValidationError:
        return UnreadableFacts(stored)
    return facts


@cache
def _adapter(kind: kinds.Kind) -> TypeAdapter[tuple[Facts]]:
    """Returns the converter of the kind's facts. The JSON is a list with the facts as its only element, because
    pydantic takes no settings for a dataclass alone."""
    types: Any = Union[CATALOGUE[kind].facts]  # noqa: UP007 - made of a tuple
    return TypeAdapter(tuple[types], config=_EXACT)
