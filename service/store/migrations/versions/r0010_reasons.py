"""Reasons as JSON with a code (`service.domain.reasons`); until now they were sentences."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_NO_PERMISSION: Final = re.compile(r"no permission on topic (\S+): grant (\S+(?: and \S+)*) on it")
_ADDED: Final = (("data_partitions", "why_code"), ("source_status", "error_code"), ("findings", "reason"))
_SENTENCES: Final = (
    ("data_partitions", "why", "why_code"),
    ("data_partitions", "read_why", None),
    ("source_status", "error", "error_code"),
)


def upgrade() -> None:
    for table_name, column in _ADDED:
        op.add_column(table_name, sa.Column(column, sa.String()))
    for table_name, column, code in _SENTENCES:
        _encode(table_name, column, code)
    _explain_gaps()


def downgrade() -> None:
    for table_name, column, _ in _SENTENCES:
        table = sa.table(table_name, sa.column(column))
        op.execute(table.update().where(table.c[column].is_not(None)).values({column: "not known"}))
    for table_name, column in _ADDED:
        with op.batch_alter_table(table_name) as changed:
            changed.drop_column(column)


def _encode(table_name: str, column: str, code: str | None) -> None:
    names = [column] if code is None else [column, code]
    table = sa.table(table_name, *map(sa.column, names))
    said = table.c[column]
    for (text,) in op.get_bind().execute(sa.select(said).where(said.is_not(None)).distinct()).all():
        reason = _reason(text)
        values = {column: json.dumps(reason)} | ({} if code is None else {code: reason["code"]})
        op.execute(table.update().where(said == text).values(values))


def _explain_gaps() -> None:
    """Gives coverage gaps the permission they lack; the judge gives other open findings a reason in its first round."""
    table = sa.table("findings", *map(sa.column, ("id", "kind", "summary", "reason")))
    gaps = sa.select(table.c.id, table.c.summary).where(table.c.kind == "coverage_gap")
    for id_, summary in op.get_bind().execute(gaps).all():
        if _NO_PERMISSION.search(summary):
            op.execute(table.update().where(table.c.id == id_).values(reason=json.dumps(_reason(summary))))


def _reason(text: str) -> dict[str, Any]:
    if denied := _NO_PERMISSION.search(text):
        return {"code": "no_permission", "topic": denied[1], "operations": denied[2].split(" and ")}
    return {"code": "told", "text": text}
