"""The names and labels of the rows in `counters`: each row counts something of a whole cluster."""

from __future__ import annotations

from typing import Final

from service.domain.transaction_log.minutes import ABORT_WORDS

SUM: Final = "sum"
"""Label of the sum in a histogram. Histograms are counters `open_ms_commit`, `batch_ms_partitions`, … with a label for
every bucket (service.domain.transaction_log.outcomes), and this one."""

COMMITS: Final = "commits"
ABORTS: Final = "aborts"
ABORTED: Final = {word: f"aborts_{word}" for word in ABORT_WORDS}
EXPIRED: Final = "expired"
PRODUCER_IDS_ASSIGNED: Final = "producer_ids_assigned"
DECODE_ERRORS: Final = "decode_errors"
CONTRADICTIONS: Final = "contradictions"
AUDITED: Final = "audited"
"""The constants above are names in `counters`. The label of decode_errors is the reason, of audited the result; it is
empty for the others.

ABORTS grows when a transaction is aborted. The counters of ABORTED grow when its cause is decided, at most some seconds
later.
"""

CONFIRMED: Final = "confirmed"
"""Label of the only outcome of a detection that is counted."""
