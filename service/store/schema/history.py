"""Tables of history: counters, ended transactions by minute, and the steps of ids."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    UniqueConstraint,
)

from service.domain.transaction_log.facts import MinuteSums
from service.domain.transaction_log.id_delta import Aborts
from service.store.schema.base import ROW_ID, cluster_column, metadata

# Monotonic counters: they survive restarts, so Prometheus sees no reset.
counters = Table(
    "counters",
    metadata,
    cluster_column(),
    Column("name", String, nullable=False),
    Column("label", String, nullable=False),
    Column("value", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "name", "label"),
)

SUM: Final = "sum"
"""Label of a histogram's sum. A histogram is several counters of one name (`open_ms_commit`, `batch_ms_partitions`, …):
one for each bucket, labelled by its index (service.domain.transaction_log.outcomes), and one with this label."""

COMMITS: Final = "commits"
ABORTS: Final = "aborts"
ABORTED: Final = {word: f"aborts_{word}" for word in Aborts._fields}
EXPIRED: Final = "expired"
PRODUCER_IDS_ASSIGNED: Final = "producer_ids_assigned"
DECODE_ERRORS: Final = "decode_errors"
CONTRADICTIONS: Final = "contradictions"
AUDITED: Final = "audited"
"""The constants from COMMITS to here are names in `counters`. The label of DECODE_ERRORS is the reason, the label of
AUDITED is the result; other labels are empty.

ABORTS grows as soon as a transaction is aborted. The counters of ABORTED grow when the abort's cause is decided, at
most some seconds later if reading does not lag.
"""

CONFIRMED: Final = "confirmed"
"""The last part of `detection_ms_confirmed`, the name of the histogram of detection times: only confirmed detections
are counted."""

# Ended transactions of the whole cluster by the minute in which they were read, for rates without a scan of all ids.
cluster_minutes = Table(
    "cluster_minutes",
    metadata,
    cluster_column(),
    Column("minute_ms", BigInteger, nullable=False),
    Column("commits", BigInteger, nullable=False),
    Column("aborts", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "minute_ms"),
)

# Notable steps of ids (all steps of chosen ids); ordinary commits are counted in id_minutes.
transitions = Table(
    "transitions",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    cluster_column(),
    Column("transactional_id", LargeBinary, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    # service.domain.transaction_log.journal.Transition
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
    Column("counted", Boolean, nullable=False),  # the step happened after counting had begun, so findings may report it
    UniqueConstraint("cluster_id", "partition", "generation", "offset"),
    Index(None, "cluster_id", "transactional_id", "generation", "offset"),
    Index(None, "cluster_id", "at_ms"),
)

MINUTE_COLUMNS: Final = ("minute_ms", *MinuteSums._fields, *ABORTED.values())
"""The columns of `id_minutes` for the fields of an IdMinute. In a row without commits, `first_ms` and `last_ms` have no
meaning."""

# Transactions of one id that were decided or completed in one minute (of the log's own time); minutes without any have
# no row.
id_minutes = Table(
    "id_minutes",
    metadata,
    cluster_column(),
    Column("transactional_id", LargeBinary, nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in MINUTE_COLUMNS),
    PrimaryKeyConstraint("cluster_id", "transactional_id", "minute_ms"),
    Index(None, "cluster_id", "minute_ms"),
)
