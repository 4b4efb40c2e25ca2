"""The Spark streaming DataSource that tails data partitions: Spark's interface, nothing else (docs/adr/0008)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from service.clock import wall_clock_ms
from service.domain.partitions.ledger import TopicRange
from spark_jobs.source import log_identity
from spark_jobs.source.ledger_planner import LedgerBrokers, LedgerPlanner
from spark_jobs.source.ledger_reader import read_tails
from spark_jobs.source.reader_settings import ReaderSettings
from spark_jobs.source.stream_reader import KafkaSource, PlanningReader


class LedgerReader(PlanningReader[TopicRange]):
    poll_s = 0.5

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._positions = {
            topic: log_identity.from_json(text) for topic, text in json.loads(options["positions"]).items()
        }

    def planner(self) -> LedgerPlanner:
        brokers = LedgerBrokers(self._settings.client)
        return LedgerPlanner(brokers, self._settings.watch, self._positions, wall_clock_ms)

    def read_ranges(self, ranges: Sequence[TopicRange]) -> Iterator[pa.RecordBatch]:
        return read_tails(self._settings.client, ranges, wall_clock_ms)


class LedgerSource(KafkaSource):
    """The streaming DataSource of tailed partitions. `ledger_options` makes its options."""

    reader_class = LedgerReader


def ledger_options(
    settings: ReaderSettings, positions: Mapping[str, Mapping[int, log_identity.LogPosition]], pulse: str
) -> dict[str, str]:
    """Returns the options of the source in the form in which Spark passes them on (strings, keys in lower case).

    `positions`: a mapping from topic to the positions in its logs. `pulse`: a file that is touched to report progress.
    """
    return {
        **settings.option,
        "positions": json.dumps({topic: log_identity.to_json(of_topic) for topic, of_topic in positions.items()}),
        "pulse": pulse,
    }
