"""The names and labels of `counters`, a row for each: what is counted of a whole cluster."""

from __future__ import annotations

from typing import Final

from service.domain.transaction_log.minutes import ABORT_WORDS

SUM: Final = "sum"
"""Histograms are counters `open_ms_commit`, `batch_ms_partitions`, …: a label for every bucket
(service.domain.transaction_log.outcomes), and this one."""

COMMITS: Final = "commits"
ABORTS: Final = "aborts"
ABORTED: Final = {word: f"aborts_{word}" for word in ABORT_WORDS}
EXPIRED: Final = "expired"
PRODUCER_IDS_ASSIGNED: Final = "producer_ids_assigned"
DECODE_ERRORS: Final = "decode_errors"
CONTRADICTIONS: Final = "contradictions"
"""Names in `counters`; decode_errors has the reason for a label, the others the empty one.

ABORTS grows when a transaction is aborted, those by cause when the cause is decided, at most some seconds later.
"""

CONFIRMED: Final = "confirmed"
"""The one outcome of a detection that is counted."""
