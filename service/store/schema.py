"""The tables. One row per thing, everything keyed by cluster; times are milliseconds since the epoch.

Ids are kept as the bytes of the log beside the text people see: an id may hold NUL or invalid UTF-8, and bytes sort
the same on SQLite and PostgreSQL.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    UniqueConstraint,
    text,
)

from service.domain.states import EXPIRABLE, EXPIRED

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite counts up only a column that is exactly INTEGER
_ROW_ID = BigInteger().with_variant(Integer, "sqlite")


def _cluster() -> Column[int]:
    return Column("cluster_id", Integer, ForeignKey("clusters.id"), nullable=False)


clusters = Table(
    "clusters",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("kafka_cluster_id", String, nullable=False),
    Column("bound_at_ms", BigInteger, nullable=False),
    Column("counted_since_ms", BigInteger),  # counters and event findings begin here; null before the first start
    Column("described_at_ms", BigInteger),
    Column("description", JSON),  # brokers, features, effective configs: as the cluster answered
)

# Where reading stands and what it rests on: one row per Kafka partition and source.
log_partitions = Table(
    "log_partitions",
    metadata,
    _cluster(),
    Column("source", String, nullable=False),
    Column("topic", String, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("topic_id", String, nullable=False),
    Column("generation", Integer, nullable=False),  # rises when the log becomes another one: recreated, diverged
    Column("next_offset", BigInteger, nullable=False),
    Column("leader", Integer, nullable=False),
    Column("leader_epoch", Integer, nullable=False),
    Column("log_start", BigInteger, nullable=False),
    Column("counted_from", BigInteger, nullable=False),  # offsets below feed state, not counters
    Column("end_offset", BigInteger, nullable=False),
    Column("end_asked_at_ms", BigInteger, nullable=False),
    Column("read_at_ms", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),  # read since the first start, never falls
    Column("bytes", BigInteger, nullable=False),
    Column("transitions_per_s", Float, nullable=False),  # over the last whole rate window
    Column("window_started_ms", BigInteger, nullable=False),
    Column("window_records", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "source", "topic", "partition"),
)

transactional_ids = Table(
    "transactional_ids",
    metadata,
    _cluster(),
    Column("transactional_id", LargeBinary, nullable=False),
    Column("display", String, nullable=False),
    Column("partition", Integer, nullable=False),  # of __transaction_state: the coordinator
    Column("generation", Integer, nullable=False),
    # the newest record, field by field as in service.domain.facts.LogRecord
    Column("offset", BigInteger, nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("leader_epoch", Integer, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("producer_epoch", Integer, nullable=False),
    Column("timeout_ms", Integer, nullable=False),
    Column("last_update_ms", BigInteger, nullable=False),
    Column("start_ms", BigInteger, nullable=False),
    Column("client_transaction_version", SmallInteger, nullable=False),
    Column("previous_producer_id", BigInteger, nullable=False),
    Column("partition_count", Integer, nullable=False),
    # derived
    Column("state_since_ms", BigInteger, nullable=False),
    Column("started_at_ms", BigInteger),  # of an open transaction, else null
    Column("last_outcome", SmallInteger),  # the PrepareX or CompleteX state that says it, null before the first end
    Column("commits", BigInteger, nullable=False),
    Column("aborts_client", BigInteger, nullable=False),
    Column("aborts_timeout", BigInteger, nullable=False),
    Column("aborts_fenced", BigInteger, nullable=False),
    Column("aborts_admin", BigInteger, nullable=False),
    Column("aborts_unattributed", BigInteger, nullable=False),
    # service.domain.journal.LastAbort: null before the first abort
    Column("abort_offset", BigInteger),
    Column("abort_cause", String),
    Column("abort_confidence", String),
    Column("abort_is_open", Boolean),
    Column("abort_completed_ms", BigInteger),
    Column("abort_counts", Boolean),
    Column("settles_at_ms", BigInteger),  # while its cause waits for the id's next record
    PrimaryKeyConstraint("cluster_id", "transactional_id"),
    # without the id: ties cost a small sort, but the id's bytes here would cost the first read a fifth of its time
    Index(None, "cluster_id", "state", "last_update_ms"),
    Index(None, "cluster_id", "state", "transactional_id"),
    Index(None, "cluster_id", "producer_id"),
    # ids of a log, and its highest epoch of either protocol
    Index("ix_transactional_ids_epoch", "cluster_id", "partition", "client_transaction_version", "producer_epoch"),
)
Index(
    "ix_transactional_ids_open",
    transactional_ids.c.cluster_id,
    transactional_ids.c.started_at_ms,
    transactional_ids.c.transactional_id,
    sqlite_where=text("started_at_ms IS NOT NULL"),
    postgresql_where=text("started_at_ms IS NOT NULL"),
)

Index(
    "ix_transactional_ids_settles",
    transactional_ids.c.cluster_id,
    transactional_ids.c.settles_at_ms,
    sqlite_where=text("settles_at_ms IS NOT NULL"),
    postgresql_where=text("settles_at_ms IS NOT NULL"),
)

# the ids that can expire, by when they will: without those that have expired, which may be many more
CAN_EXPIRE: Final = f"state IN ({', '.join(map(str, sorted(EXPIRABLE)))})"
Index(
    "ix_transactional_ids_expiring",
    transactional_ids.c.cluster_id,
    transactional_ids.c.last_update_ms,
    sqlite_where=text(CAN_EXPIRE),
    postgresql_where=text(CAN_EXPIRE),
)

HAS_EXPIRED: Final = f"state = {EXPIRED}"
"""Both as the queries have to spell them: a parameter would hide from the database that the index fits."""
Index(
    "ix_transactional_ids_expired",
    transactional_ids.c.cluster_id,
    transactional_ids.c.timestamp_ms,
    sqlite_where=text(HAS_EXPIRED),
    postgresql_where=text(HAS_EXPIRED),
)

# The partitions of open transactions; a row goes when its transaction completes.
open_participants = Table(
    "open_participants",
    metadata,
    _cluster(),
    Column("topic", String, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("transactional_id", LargeBinary, nullable=False),
    PrimaryKeyConstraint("cluster_id", "topic", "partition", "transactional_id"),
    Index(None, "cluster_id", "transactional_id"),
)

# Which id wrote under which producer id, and when: the only way to name an orphan whose id has expired.
producer_ids = Table(
    "producer_ids",
    metadata,
    _cluster(),
    Column("producer_id", BigInteger, nullable=False),
    Column("transactional_id", LargeBinary, nullable=False),
    Column("first_seen_ms", BigInteger, nullable=False),
    Column("last_seen_ms", BigInteger, nullable=False),
    Column("first_epoch", Integer, nullable=False),
    Column("last_epoch", Integer, nullable=False),
    # the newest PrepareX with partitions under this producer id, as Kafka wrote it: what was decided, and where
    Column("ended_offset", BigInteger),
    Column("ended_state", SmallInteger),
    Column("ended_value", LargeBinary),
    # by id first: rows come ordered by id, and the scattered producer ids get the small index
    PrimaryKeyConstraint("cluster_id", "transactional_id", "producer_id"),
    Index(None, "cluster_id", "producer_id"),
)

# How many ids are in which state, kept by the writer: counting a million rows for every page is too dear.
coordinator_states = Table(
    "coordinator_states",
    metadata,
    _cluster(),
    Column("partition", Integer, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("ids", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "partition", "state"),
)

# Monotonic counters: they survive restarts, so Prometheus sees no reset.
counters = Table(
    "counters",
    metadata,
    _cluster(),
    Column("name", String, nullable=False),
    Column("label", String, nullable=False),
    Column("value", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "name", "label"),
)

# Ends of the whole cluster by the minute they were read in: rates without scanning ids.
cluster_minutes = Table(
    "cluster_minutes",
    metadata,
    _cluster(),
    Column("minute_ms", BigInteger, nullable=False),
    Column("commits", BigInteger, nullable=False),
    Column("aborts", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "minute_ms"),
)

# Notable steps of ids (all steps of chosen ids); ordinary commits are counted in id_minutes.
transitions = Table(
    "transitions",
    metadata,
    Column("id", _ROW_ID, primary_key=True),
    _cluster(),
    Column("transactional_id", LargeBinary, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    # service.domain.journal.Transition
    Column("offset", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("from_state", SmallInteger, nullable=False),
    Column("to_state", SmallInteger, nullable=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("producer_epoch", Integer, nullable=False),
    Column("timeout_ms", Integer, nullable=False),
    Column("duration_ms", BigInteger),
    Column("marker_ms", BigInteger),
    Column("cause", String),
    Column("confidence", String),
    Column("note", String),
    Column("counted", Boolean, nullable=False),  # it happened where counting had begun: findings may speak of it
    UniqueConstraint("cluster_id", "partition", "generation", "offset"),
    Index(None, "cluster_id", "transactional_id", "generation", "offset"),
    Index(None, "cluster_id", "at_ms"),
)

# What ended in one minute (of the log's own time) for one id; minutes with nothing have no row.
id_minutes = Table(
    "id_minutes",
    metadata,
    _cluster(),
    Column("transactional_id", LargeBinary, nullable=False),
    Column("minute_ms", BigInteger, nullable=False),
    Column("commits", BigInteger, nullable=False),
    Column("aborts_client", BigInteger, nullable=False),
    Column("aborts_timeout", BigInteger, nullable=False),
    Column("aborts_fenced", BigInteger, nullable=False),
    Column("aborts_admin", BigInteger, nullable=False),
    Column("aborts_unattributed", BigInteger, nullable=False),
    Column("opened", BigInteger, nullable=False),
    Column("open_sum_ms", BigInteger, nullable=False),
    Column("open_max_ms", BigInteger, nullable=False),
    Column("marked", BigInteger, nullable=False),
    Column("marker_sum_ms", BigInteger, nullable=False),
    Column("marker_max_ms", BigInteger, nullable=False),
    Column("first_ms", BigInteger, nullable=False),  # of the commits; 0 without any
    Column("last_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "transactional_id", "minute_ms"),
    Index(None, "cluster_id", "minute_ms"),
)

rejects = Table(
    "rejects",
    metadata,
    Column("id", _ROW_ID, primary_key=True),
    _cluster(),
    Column("source", String, nullable=False),
    Column("topic", String, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    Column("transactional_id", LargeBinary),
    Column("key", LargeBinary),
    Column("value", LargeBinary),
    Column("seen_at_ms", BigInteger, nullable=False),
    UniqueConstraint("cluster_id", "source", "topic", "partition", "generation", "offset"),
    Index(None, "cluster_id", "seen_at_ms"),
)

data_gaps = Table(
    "data_gaps",
    metadata,
    Column("id", _ROW_ID, primary_key=True),
    _cluster(),
    Column("source", String, nullable=False),
    Column("topic", String, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("from_offset", BigInteger, nullable=False),
    Column("to_offset", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    Column("seen_at_ms", BigInteger, nullable=False),
    Index(None, "cluster_id", "seen_at_ms"),
)

# One driver writes at a time; `epoch` fences the one that was replaced.
leases = Table(
    "leases",
    metadata,
    Column("cluster_id", Integer, ForeignKey("clusters.id"), primary_key=True),
    Column("owner", String, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("renewed_at_ms", BigInteger, nullable=False),
    Column("released", Boolean, nullable=False),
)

# What a source last said of itself, also when it could not read.
source_status = Table(
    "source_status",
    metadata,
    _cluster(),
    Column("source", String, nullable=False),
    Column("as_of_ms", BigInteger, nullable=False),
    Column("error", String),  # one line, null while all is well
    PrimaryKeyConstraint("cluster_id", "source"),
)

# What is wrong or about to be: service.domain.findings.finding.Finding, one row an episode.
findings = Table(
    "findings",
    metadata,
    _cluster(),
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
    # its life
    Column("opened_at_ms", BigInteger, nullable=False),
    Column("confirmed_at_ms", BigInteger),
    Column("resolved_at_ms", BigInteger),
    Column("last_seen_ms", BigInteger, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("reopened", Boolean, nullable=False),
    Column("resolution", String),
    Column("owner", String),
    Column("muted_until_ms", BigInteger),
    Column("summary", String, nullable=False),
    Column("advice", String, nullable=False),
    Column("evidence", JSON, nullable=False),
    Column("self_heals_at_ms", BigInteger),
    Column("log_partition", Integer),  # whose view it rests on; null: all of them
    Column("counted_to", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "id"),
    Index(None, "cluster_id", "opened_at_ms", "id"),
    Index(None, "cluster_id", "kind", "status"),
    Index(None, "cluster_id", "resolved_at_ms"),
)

# What happened to findings, in the order in which listeners hear of it; the newest few thousand.
finding_events = Table(
    "finding_events",
    metadata,
    Column("sequence", _ROW_ID, primary_key=True),
    _cluster(),
    Column("finding_id", String, nullable=False),
    Column("event", String, nullable=False),  # service.domain.findings.lifecycle: "opened", "resolved", …
    Column("at_ms", BigInteger, nullable=False),
    sqlite_autoincrement=True,  # a number is never given twice: listeners resume by it
)
