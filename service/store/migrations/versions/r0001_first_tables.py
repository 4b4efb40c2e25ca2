"""The tables of the first release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from alembic import op

from service.store.schema.base import NAME, NUMBERS_ONCE, ROW_ID, where

revision = "r0001"
down_revision = None
readable_since = "r0001"

_TYPES: Final[dict[str, Any]] = {
    "row_id": ROW_ID,
    "name": NAME,
    "cluster": sa.Integer(),
    "text": sa.String(),
    "bytes": sa.LargeBinary(),
    "short": sa.SmallInteger(),
    "int": sa.Integer(),
    "long": sa.BigInteger(),
    "float": sa.Float(),
    "bool": sa.Boolean(),
    "json": sa.JSON(),
}

_ID: Final = (
    "transactional_id bytes, display text, partition int, generation int, offset long, timestamp_ms long,"
    " leader_epoch int, state short, producer_id long, producer_epoch int, timeout_ms int, last_update_ms long,"
    " start_ms long, client_transaction_version short, previous_producer_id long, partition_count int,"
    " state_since_ms long, started_at_ms long?, last_outcome short?, commits long, aborts_client long,"
    " aborts_timeout long, aborts_fenced long, aborts_admin long, aborts_unattributed long, abort_offset long?,"
    " abort_cause text?, abort_confidence text?, abort_is_open bool?, abort_completed_ms long?, abort_counts bool?,"
    " settles_at_ms long?"
)


def upgrade() -> None:
    _table(
        "clusters",
        "id int, name text, kafka_cluster_id text, bound_at_ms long, counted_since_ms long?, described_at_ms long?,"
        " description json?",
        key="id",
        unique=["name", "kafka_cluster_id"],
    )
    _table("readable_since", "revision text", key="revision")
    _table("leases", "cluster_id int, owner text, epoch long, renewed_at_ms long, released bool", key="cluster_id")
    _table(
        "log_partitions",
        "cluster_id cluster, source text, topic text, partition int, topic_id text, generation int, next_offset long,"
        " leader int, leader_epoch int, log_start long, counted_from long, end_offset long, end_asked_at_ms long,"
        " read_at_ms long, records long, bytes long, transitions_per_s float, window_started_ms long,"
        " window_records long, witnessed_from long, topic_partitions int?",
        key="cluster_id, source, topic, partition",
    )
    _table("source_status", "cluster_id cluster, source text, as_of_ms long, error text?", key="cluster_id, source")
    _table(
        "rejects",
        "id row_id, cluster_id cluster, source text, topic text, partition int, generation int, offset long,"
        " reason text, transactional_id bytes?, key bytes?, value bytes?, seen_at_ms long",
        key="id",
        unique=["cluster_id, source, topic, partition, generation, offset"],
        indexes=["cluster_id, seen_at_ms"],
    )
    _table(
        "data_gaps",
        "id row_id, cluster_id cluster, source text, topic text, partition int, generation int, from_offset long,"
        " to_offset long, reason text, seen_at_ms long, missing long?",
        key="id",
        indexes=["cluster_id, seen_at_ms"],
    )
    _table(
        "transactional_ids",
        f"cluster_id cluster, {_ID}, application text?, framework text?, is_examined bool?",
        key="cluster_id, transactional_id",
        indexes=["cluster_id, producer_id", "cluster_id, state, last_update_ms", "cluster_id, state, transactional_id"],
    )
    _index("transactional_ids", "application", "cluster_id, application, transactional_id", "application IS NOT NULL")
    _index("transactional_ids", "epoch", "cluster_id, partition, client_transaction_version, producer_epoch")
    _index("transactional_ids", "expired", "cluster_id, timestamp_ms", "state = 200")
    _index("transactional_ids", "expiring", "cluster_id, last_update_ms", "state IN (0, 4, 5)")
    _index("transactional_ids", "new", "cluster_id, transactional_id", "is_examined IS NULL")
    _index(
        "transactional_ids",
        "open",
        "cluster_id, started_at_ms, transactional_id, application",
        "started_at_ms IS NOT NULL",
    )
    _index("transactional_ids", "settles", "cluster_id, settles_at_ms", "settles_at_ms IS NOT NULL")
    _table(
        "left_behind_records",
        f"cluster_id cluster, {_ID}, participants text?",
        key="cluster_id, transactional_id, partition",
        indexes=["cluster_id, partition", "cluster_id, producer_id", "cluster_id, state"],
    )
    _index("left_behind_records", "open", "cluster_id, started_at_ms", "started_at_ms IS NOT NULL")
    _table(
        "open_participants",
        "cluster_id cluster, topic text, partition int, transactional_id bytes",
        key="cluster_id, topic, partition, transactional_id",
        indexes=["cluster_id, transactional_id"],
    )
    _table(
        "producer_ids",
        "cluster_id cluster, producer_id long, transactional_id bytes, first_seen_ms long, last_seen_ms long,"
        " first_epoch int, last_epoch int, ended_offset long?, ended_state short?, ended_value bytes?",
        key="cluster_id, transactional_id, producer_id",
        indexes=["cluster_id, producer_id"],
    )
    _table(
        "coordinator_states",
        "cluster_id cluster, partition int, state short, ids long",
        key="cluster_id, partition, state",
    )
    _table(
        "application_states",
        "cluster_id cluster, application text, framework text, state short, ids long",
        key="cluster_id, application, framework, state",
    )
    _table(
        "application_totals",
        "cluster_id cluster, application text, since_ms long, last_ms long, commits long, aborts_client long,"
        " aborts_timeout long, aborts_fenced long, aborts_admin long, aborts_unattributed long",
        key="cluster_id, application",
    )
    _table("counters", "cluster_id cluster, name text, label text, value long", key="cluster_id, name, label")
    _table(
        "cluster_minutes", "cluster_id cluster, minute_ms long, commits long, aborts long", key="cluster_id, minute_ms"
    )
    _table(
        "transitions",
        "id row_id, cluster_id cluster, transactional_id bytes, partition int, generation int, offset long,"
        " at_ms long, from_state short, to_state short, producer_id long, producer_epoch int, timeout_ms int,"
        " duration_ms long?, marker_ms long?, cause text?, confidence text?, note text?, counted bool",
        key="id",
        unique=["cluster_id, partition, generation, offset"],
        indexes=["cluster_id, at_ms", "cluster_id, transactional_id, generation, offset"],
    )
    _table(
        "id_minutes",
        "cluster_id cluster, transactional_id bytes, minute_ms long, commits long, opened long, open_sum_ms long,"
        " open_max_ms long, marked long, marker_sum_ms long, marker_max_ms long, first_ms long, last_ms long,"
        " aborts_client long, aborts_timeout long, aborts_fenced long, aborts_admin long, aborts_unattributed long",
        key="cluster_id, transactional_id, minute_ms",
        indexes=["cluster_id, minute_ms"],
    )
    _table(
        "data_partitions",
        "cluster_id cluster, topic name, partition int, topic_id text, leader int, leader_epoch int, log_start long,"
        " last_stable_offset long, high_watermark long, observed_at_ms long, stalled_since_ms long?, why text?,"
        " is_gone bool, answered_at_ms long?, read_at_ms long?, read_lso long?, described bool?, is_whole bool?,"
        " lag_bytes long?, read_why text?, first_base_offset long?, first_producer_id long?, first_producer_epoch int?,"
        " first_is_transactional bool?, first_is_control bool?, first_timestamp_ms long?, first_max_timestamp_ms long?,"
        " samples text?, why_code text?",
        key="cluster_id, topic, partition",
    )
    _index("data_partitions", "stalled", "cluster_id, stalled_since_ms", "stalled_since_ms IS NOT NULL")
    _table("partition_watch", "cluster_id cluster, observed_at_ms long, not_covered long", key="cluster_id")
    _table(
        "open_entries",
        "cluster_id cluster, topic name, partition int, producer_id long, producer_epoch int, start_offset long,"
        " coordinator_epoch int, last_timestamp_ms long, records long?, bytes long?, first_seen_ms long,"
        " seen_at_ms long",
        key="cluster_id, topic, partition, producer_id",
    )
    _table(
        "group_offsets",
        "cluster_id cluster, group name, topic name, partition int, committed_offset long, members int?,"
        " is_unstable bool, observed_at_ms long, unchanged_since_ms long, producer_id long?, isolation text?,"
        " lso long?, advances int, has_records_ahead bool?, records_ahead_since_ms long?",
        key="cluster_id, group, topic, partition",
        indexes=["cluster_id, topic, partition"],
    )
    _table(
        "audit",
        "id row_id, cluster_id cluster, at_ms long, finding_id text, operator text, marker text,"
        " topic text, partition int, producer_id long, producer_epoch int, coordinator_epoch int, start_offset long,"
        " outcome text, error text?",
        key="id",
        indexes=["cluster_id, at_ms", "cluster_id, topic, partition, producer_id"],
    )
    _table(
        "partition_minutes",
        "cluster_id cluster, topic name, partition int, minute_ms long, records long, bytes long,"
        " transactional_records long, commits long, aborts long",
        key="cluster_id, topic, partition, minute_ms",
        indexes=["cluster_id, minute_ms"],
    )
    _table(
        "partition_markers",
        "cluster_id cluster, topic name, partition int, generation int, offset long, producer_id long,"
        " producer_epoch int, coordinator_epoch int, is_commit bool, at_ms long",
        key="cluster_id, topic, partition, generation, offset",
        indexes=["cluster_id, at_ms"],
    )
    _table(
        "unended_records",
        "cluster_id cluster, topic name, partition int, producer_id long, from_offset long, seen_at_ms long",
        key="cluster_id, topic, partition, producer_id",
        indexes=["cluster_id, seen_at_ms"],
    )
    _table(
        "waiting_decisions",
        "cluster_id cluster, log_partition int, offset long, transactional_id bytes, producer_id long,"
        " producer_epoch int, is_commit bool, start_ms long, at_ms long, participants json, untailed int,"
        " read_at_ms long, after_ms long?",
        key="cluster_id, log_partition, offset",
        indexes=["cluster_id, read_at_ms"],
    )
    _table(
        "waiting_markers",
        "cluster_id cluster, topic name, partition int, offset long, producer_id long, producer_epoch int,"
        " is_commit bool, at_ms long, ends_from long, read_at_ms long",
        key="cluster_id, topic, partition, offset",
        indexes=["cluster_id, read_at_ms"],
    )
    _table(
        "audited_partitions",
        "cluster_id cluster, topic name, partition int, from_offset long, gaps long, rejects long",
        key="cluster_id, topic, partition",
    )
    _table(
        "ended_logs",
        "cluster_id cluster, topic name, partition int, topic_id text, seen_at_ms long, markers json, unended json,"
        " gaps long, rejects long",
        key="cluster_id, topic, partition, topic_id",
        indexes=["cluster_id, seen_at_ms"],
    )
    _table(
        "torn_transactions",
        "id row_id, cluster_id cluster, transactional_id bytes, producer_id long, producer_epoch int, is_commit bool,"
        " log_partition int, offset long, at_ms long, otherwise json, as_decided json, unseen int, gone json?",
        key="id",
        indexes=["cluster_id, id"],
        **NUMBERS_ONCE,
    )
    _table(
        "findings",
        "cluster_id cluster, id text, kind text, severity text, status text, confidence text, topic text?,"
        " partition int?, transactional_id bytes?, producer_id long?, producer_epoch int?, start_offset long?,"
        " group text?, prefix text?, opened_at_ms long, confirmed_at_ms long?, resolved_at_ms long?, last_seen_ms long,"
        " count long, reopened bool, resolution text?, owner text?, muted_until_ms long?, facts text,"
        " evidence json, self_heals_at_ms long?, log_partition int?, counted_to long, decision text?, bootstrap text?,"
        " blocked_groups json, possible json, proofs json, reason text?, passed_over json, application text?",
        key="cluster_id, id",
        indexes=["cluster_id, kind, status", "cluster_id, opened_at_ms, id", "cluster_id, resolved_at_ms"],
    )
    _table("findings_truncated", "cluster_id cluster, kind text, number long", key="cluster_id, kind")
    _table(
        "finding_events",
        "sequence row_id, cluster_id cluster, finding_id text, event text, at_ms long, is_confirmed bool",
        key="sequence",
        **NUMBERS_ONCE,
    )
    _table(
        "receivers",
        "name text, kind text, sequence long, delivered long, failed long, dropped long, delivered_at_ms long?,"
        " failing_since_ms long?, error text?",
        key="name",
    )
    _table("telemetry", "instance text, transition long?, finding_event long?", key="instance")
    _table("notified_findings", "receiver text, finding_id text", key="receiver, finding_id")
    _table(
        "canaries",
        "cluster_id cluster, token text, topic text, every_ms long, as_of_ms long, is_running bool, leaderless int,"
        " trouble text?",
        key="cluster_id",
    )
    _table(
        "canary_coordinators",
        "cluster_id cluster, broker int, log_partition int?, transactional_id text?, rounds long, last_at_ms long?,"
        " init_us long?, failing_since_ms long?, phase text?, error text?, detail text?, idle_since_ms long?,"
        " failures json, commits json, visibles json, recent json",
        key="cluster_id, broker",
    )
    _table(
        "api_keys",
        "id row_id, name text, digest text, roles text, created_at_ms long, created_by text, revoked_at_ms long?,"
        " revoked_by text?",
        key="id",
        unique=["digest"],
    )
    _index("api_keys", "valid", "name", "revoked_at_ms IS NULL", unique=True)
    _table(
        "audit_events",
        "id row_id, cluster_id cluster?, at_ms long, action text, outcome text, who text, address text?,"
        " subject text?, detail text?, times long",
        key="id",
        indexes=["cluster_id, at_ms"],
    )
    _table(
        "mutes",
        "id row_id, cluster_id cluster, finding_id text?, prefix text?, topic text?, until_ms long, reason text,"
        " set_at_ms long, set_by text, ended_at_ms long?, ended_by text?",
        key="id",
        indexes=["cluster_id, until_ms"],
    )
    _table(
        "acknowledgements",
        "id row_id, cluster_id cluster, finding_id text, count long, reason text, at_ms long, by text",
        key="id",
        indexes=["cluster_id, at_ms", "cluster_id, finding_id"],
    )


def _table(
    name: str, columns: str, *, key: str, unique: Sequence[str] = (), indexes: Sequence[str] = (), **options: bool
) -> None:
    """Creates a table. `columns`: the name and the type of each column; a `?` after the type means that the column may
    be null."""
    op.create_table(
        name,
        *(_column(*one.split()) for one in columns.split(", ")),
        sa.PrimaryKeyConstraint(*key.split(", ")),
        *(sa.UniqueConstraint(*one.split(", ")) for one in unique),
        *(sa.Index(None, *index.split(", ")) for index in indexes),
        **options,
    )


def _index(table: str, name: str, columns: str, only: str | None = None, *, unique: bool = False) -> None:
    """Creates an index with a name of its own. `only`: the condition of a partial index."""
    options = {} if only is None else where(only)
    op.create_index(f"ix_{table}_{name}", table, columns.split(", "), unique=unique, **options)


def _column(name: str, type_: str) -> sa.Column[Any]:
    word = type_.rstrip("?")
    references = [sa.ForeignKey("clusters.id")] if word == "cluster" else []
    numbered: Any = False if word == "int" and name != "id" else "auto"  # not by the database
    return sa.Column(name, _TYPES[word], *references, nullable=type_.endswith("?"), autoincrement=numbered)


def downgrade() -> None:
    raise NotImplementedError("there is no earlier version")
