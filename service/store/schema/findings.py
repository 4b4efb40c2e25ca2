"""Tables of findings and of their events, and the positions up to which the events were sent."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
)

from service.store.schema.base import NUMBERS_ONCE, ROW_ID, cluster_column, metadata

# One row for each episode of a finding: service.domain.findings.finding.Finding.
findings = Table(
    "findings",
    metadata,
    cluster_column(),
    Column("id", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("severity", String, nullable=False),
    Column("status", String, nullable=False),
    Column("confidence", String, nullable=False),
    # the subject
    Column("topic", String),
    Column("partition", Integer),
    Column("transactional_id", LargeBinary),
    Column("producer_id", BigInteger),
    Column("producer_epoch", Integer),
    Column("start_offset", BigInteger),
    Column("group", String),
    Column("prefix", String),
    # its lifecycle
    Column("opened_at_ms", BigInteger, nullable=False),
    Column("confirmed_at_ms", BigInteger),
    Column("resolved_at_ms", BigInteger),
    Column("last_seen_ms", BigInteger, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("reopened", Boolean, nullable=False),
    Column("resolution", String),
    Column("owner", String),
    Column("muted_until_ms", BigInteger),
    Column("facts", String, nullable=False),  # JSON, of which the words are made: service.store.rows.findings
    Column("evidence", JSON, nullable=False),
    Column("self_heals_at_ms", BigInteger),
    Column("log_partition", Integer),  # partition of the transaction log that it depends on; null: all
    Column("counted_to", BigInteger, nullable=False),
    # remediation
    Column("decision", String),
    Column("bootstrap", String),
    Column("blocked_groups", JSON, nullable=False),
    Column("possible", JSON, nullable=False),  # the possible worlds; `proofs` rule out the others
    Column("proofs", JSON, nullable=False),
    Column("reason", String),  # service.domain.reasons; null: the finding has none
    Column("passed_over", JSON, nullable=False),  # sequences below `counted_to` that may yet be counted
    # of the ids that it is about; while a finding about one id is open, service.store.writers.applications renews it
    Column("application", String),
    PrimaryKeyConstraint("cluster_id", "id"),
    Index(None, "cluster_id", "opened_at_ms", "id"),
    Index(None, "cluster_id", "kind", "status"),
    Index(None, "cluster_id", "resolved_at_ms"),
)

# Numbers, by kind, of findings that were not opened, or data that was not read, because of a bound:
# service.domain.findings.lifecycle. A kind without any has no row.
findings_truncated = Table(
    "findings_truncated",
    metadata,
    cluster_column(),
    Column("kind", String, nullable=False),
    Column("number", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "kind"),
)

# Events of findings, in the order in which listeners receive them; only the newest 10,000 are kept.
finding_events = Table(
    "finding_events",
    metadata,
    Column("sequence", ROW_ID, primary_key=True),
    cluster_column(),
    Column("finding_id", String, nullable=False),
    Column("event", String, nullable=False),  # service.domain.findings.lifecycle: "opened", "resolved", …
    Column("at_ms", BigInteger, nullable=False),
    Column("is_confirmed", Boolean, nullable=False),  # False: of a candidate, or of its withdrawal
    **NUMBERS_ONCE,  # a number is never given twice: listeners resume by it
)

# Receivers of notifications: service.store.receivers.ReceiverState.
receivers = Table(
    "receivers",
    metadata,
    Column("name", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("sequence", BigInteger, nullable=False),  # of the last event that it took
    Column("delivered", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("dropped", BigInteger, nullable=False),
    Column("delivered_at_ms", BigInteger),
    Column("failing_since_ms", BigInteger),
    Column("error", String),
)

# What the export by OTLP keeps: service.store.telemetry. There is one row, from the first export on.
telemetry = Table(
    "telemetry",
    metadata,
    Column("instance", String, primary_key=True),
    Column("transition", BigInteger),  # null: no traces are sent
    Column("finding_event", BigInteger),
)

# The findings that a receiver knows to be open: it will be notified of their end.
notified_findings = Table(
    "notified_findings",
    metadata,
    Column("receiver", String, nullable=False),
    Column("finding_id", String, nullable=False),
    PrimaryKeyConstraint("receiver", "finding_id"),
)
