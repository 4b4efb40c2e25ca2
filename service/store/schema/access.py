"""Tables about the service's users: their keys, their actions, and the findings that they muted or acknowledged."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table

from service.store.schema.base import ROW_ID, cluster_column, metadata, where

# Keys of `txnscope keys create`. Of a key only its digest is kept (service.access.credentials). Rows stay when a key is
# revoked, so that its name in the audit still means somebody.
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("name", String, nullable=False),
    Column("digest", String, nullable=False, unique=True),
    Column("roles", String, nullable=False),  # service.access.principal.grant_texts, as JSON
    Column("created_at_ms", BigInteger, nullable=False),
    Column("created_by", String, nullable=False),
    Column("revoked_at_ms", BigInteger),
    Column("revoked_by", String),
    Index("ix_api_keys_valid", "name", unique=True, **where("revoked_at_ms IS NULL")),
)

# Actions, done or refused: service.store.audit_events.AuditEvent. Rows are only added; retention deletes them after
# more than a year.
audit_events = Table(
    "audit_events",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("cluster_id", Integer, ForeignKey("clusters.id")),  # null: the event concerns no cluster
    Column("at_ms", BigInteger, nullable=False),
    Column("action", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("who", String, nullable=False),
    Column("address", String),  # null: a command that opened the store itself
    Column("subject", String),
    Column("detail", String),
    Column("times", BigInteger, nullable=False),
    Index(None, "cluster_id", "at_ms"),
)

# Mutes that operators set. Those of `[[rules]]` are columns of the findings.
mutes = Table(
    "mutes",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    cluster_column(),
    # exactly one of these selects the muted findings
    Column("finding_id", String),
    Column("prefix", String),
    Column("topic", String),
    Column("until_ms", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    Column("set_at_ms", BigInteger, nullable=False),
    Column("set_by", String, nullable=False),
    Column("ended_at_ms", BigInteger),
    Column("ended_by", String),
    Index(None, "cluster_id", "until_ms"),
)

# Acknowledgements of findings that stay until somebody has seen them. `count`: the finding's occurrences at that time;
# a finding with more occurrences since is not acknowledged.
acknowledgements = Table(
    "acknowledgements",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    cluster_column(),
    Column("finding_id", String, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("by", String, nullable=False),
    Index(None, "cluster_id", "finding_id"),
    Index(None, "cluster_id", "at_ms"),
)
