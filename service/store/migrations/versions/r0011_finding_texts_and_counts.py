"""A finding's summary as a title and a detail; what contradicts a decision only as the reason of the finding; the
events that a count has passed over."""

from __future__ import annotations

import json
from typing import Any, Final

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_FINDINGS: Final = sa.table(
    "findings", *map(sa.column, ("cluster_id", "id", "title", "detail", "contradiction", "reason"))
)


def upgrade() -> None:
    with op.batch_alter_table("findings") as changed:
        changed.alter_column("summary", new_column_name="title", existing_type=sa.String(), existing_nullable=False)
        changed.add_column(sa.Column("detail", sa.String(), nullable=False, server_default=""))
        changed.add_column(sa.Column("passed_over", sa.JSON()))
    for row in _rows():
        title, detail = _split(row.title)
        reason = row.reason if row.contradiction is None else json.dumps(_with(row.contradiction, row.reason))
        _update(row, title=title, detail=detail, reason=reason)
    with op.batch_alter_table("findings") as changed:
        changed.alter_column("detail", server_default=None, existing_type=sa.String(), existing_nullable=False)
        changed.drop_column("contradiction")


def downgrade() -> None:
    op.add_column("findings", sa.Column("contradiction", sa.String()))
    for row in _rows():
        decided_by = json.loads(row.reason or "{}").get("decided_by") or {}
        text = "two readings contradict each other" if decided_by.get("code") == "contradiction" else None
        _update(row, title=f"{row.title}; {row.detail}" if row.detail else row.title, contradiction=text)
    with op.batch_alter_table("findings") as changed:
        changed.alter_column("title", new_column_name="summary", existing_type=sa.String(), existing_nullable=False)
        changed.drop_column("detail")
        changed.drop_column("passed_over")


def _rows() -> list[Any]:
    return list(op.get_bind().execute(sa.select(_FINDINGS)).all())


def _update(row: Any, **values: str | None) -> None:
    is_it = (_FINDINGS.c.cluster_id == row.cluster_id) & (_FINDINGS.c.id == row.id)
    op.execute(_FINDINGS.update().where(is_it).values(**values))


def _split(summary: str) -> tuple[str, str]:
    ends = [at for mark in ("; ", ". ") if (at := summary.find(mark)) >= 0]
    return (summary[: min(ends)], summary[min(ends) + 2 :]) if ends else (summary, "")


def _with(contradiction: str, reason: str | None) -> dict[str, Any]:
    """Returns the reason of a hang, whose decision these two readings left unknown: "…: first A; now B"."""
    first, _, now = contradiction.partition(": first ")[2].partition("; now ")
    found: dict[str, Any] = {
        "code": "hangs",
        "cause": "not_known",
        "log_start": 0,
        "may_skip_markers": None,
        "is_behind": False,
    } | json.loads(reason or "{}")
    decided_by = found.get("decided_by")
    if not isinstance(decided_by, dict) or decided_by["code"] != "contradiction":
        found["decided_by"] = {"code": "contradiction"} | {
            name: {"code": "told", "text": text or contradiction} for name, text in (("first", first), ("now", now))
        }
    return found
