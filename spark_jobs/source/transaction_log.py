"""The Spark streaming DataSource over `__transaction_state`: Spark's interface, nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from service.clock import wall_clock_ms
from service.domain.reasons.coding import decode_if, encode_if
from service.domain.reasons.unread import PartitionsUnreadable
from service.domain.transaction_log.facts import RangeRead
from service.domain.transaction_log.states import TOPIC
from spark_jobs.source import log_identity
from spark_jobs.source.planner import LogPlanner
from spark_jobs.source.reader import read_ranges
from spark_jobs.source.reader_settings import ReaderSettings
from spark_jobs.source.stream_reader import KafkaSource, PlanningReader


class TransactionLogReader(PlanningReader[RangeRead]):
    poll_s = 0.2

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._positions = log_identity.from_json(options["positions"])
        unreadable = decode_if(options["unreadable"] or None)
        self._unreadable = unreadable if isinstance(unreadable, PartitionsUnreadable) else None

    def planner(self) -> LogPlanner:
        return LogPlanner(self._settings.client, TOPIC, self._positions, wall_clock_ms, self._unreadable)

    def read_ranges(self, ranges: Sequence[RangeRead]) -> Iterator[pa.RecordBatch]:
        prefixes = tuple(prefix.encode() for prefix in self._settings.full_history_prefixes)
        return read_ranges(self._settings.client, TOPIC, ranges, prefixes, with_decisions=self._settings.tails)


class TransactionLogSource(KafkaSource):
    """The streaming DataSource of the transaction log. `source_options` makes its options."""

    reader_class = TransactionLogReader


def source_options(
    settings: ReaderSettings,
    positions: Mapping[int, log_identity.LogPosition],
    pulse: str,
    unreadable: PartitionsUnreadable | None = None,
) -> dict[str, str]:
    """Returns the options of the source in the form in which Spark passes them on (strings, keys in lower case).
    `pulse`: a file that is touched to report progress. `unreadable`: the partitions whose failures ended earlier
    queries."""
    return {
        **settings.option,
        "positions": log_identity.to_json(positions),
        "pulse": pulse,
        "unreadable": encode_if(unreadable) or "",
    }
