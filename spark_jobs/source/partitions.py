"""The Spark streaming DataSource that samples data partitions: Spark's interface, nothing else.

Spark's own offsets only number the samples: an observation is reported once, with its time, and never again
(docs/adr/0002, docs/adr/0005).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from service.clock import wall_clock_ms
from service.domain.partitions.facts import PartitionEnds, PartitionsBatch, StallClock
from service.processes.waiting import heard_by, touch
from spark_jobs.fold.partitions import reads_to_rows, seen_to_rows
from spark_jobs.runtime.direct_batches import DirectBatches
from spark_jobs.source.reader_settings import OPTION, ReaderSettings
from spark_jobs.source.requests import Brokers, into_tasks
from spark_jobs.source.sampler import Sample, Sampler
from spark_jobs.source.stalled import read_stalled
from spark_jobs.source.stream_reader import KafkaSource

TICK_S: Final = 0.25
TOO_LATE_MS: Final = 10_000
"""A sample of this age (ms) or older is too old for a task to read the sample's stalled partitions. The task then only
reports the observations, because the next sample is fresher."""


@dataclass(frozen=True)
class SampleTask(InputPartition):
    """The stalled partitions that one Spark task reads. Only the first task has the rows of the observations
    (`seen`)."""

    seen: tuple[pa.RecordBatch, ...]
    requests: tuple[PartitionEnds, ...]
    planned_at_ms: int


class PartitionsReader(DataSourceStreamReader):
    """Reports a sample as soon as there is urgent news, and otherwise once a second. Samples without partitions to read
    go to the driver without Spark if `DirectBatches.may_take` returns True."""

    def __init__(self, options: dict[str, str]) -> None:
        settings = ReaderSettings.model_validate_json(options[OPTION])
        self._client, self._watch = settings.client, settings.watch
        self._clocks = [StallClock(*clock) for clock in json.loads(options["clocks"])]
        self._cores = int(options["cores"])
        self._window_file = options["windowfile"]
        self._step = partial(touch, options["pulse"])
        self._direct = DirectBatches(options["direct"])
        self._brokers: Brokers | None = None
        self._sampler: Sampler | None = None
        self._number = 0
        self._sample = Sample(PartitionsBatch(0))
        self._next_look_at, self._through_spark_at = 0.0, -math.inf

    def initialOffset(self) -> dict[str, Any]:
        return {"sample": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Blocks until there is a sample worth a micro-batch, and returns its number."""
        if self._sampler is None:
            self._brokers = Brokers(self._client)
            self._sampler = Sampler(self._brokers, self._watch, self._clocks, wall_clock_ms)
        while True:
            wait = self._next_look_at - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            self._next_look_at = time.monotonic() + TICK_S
            with heard_by(self._step):
                self._sampler.observe()
            self._step()
            if not self._sampler.is_due():
                continue
            sample = self._sampler.next_sample()
            if sample.requests or not self._direct.may_take(self._through_spark_at):
                break
            self._direct.put(seen_to_rows(sample.seen))
        self._sample, self._number = sample, self._number + 1
        self._through_spark_at = time.monotonic()
        return {"sample": self._number}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if end["sample"] != self._number:
            raise RuntimeError(
                f"sample {end['sample']} is not the newest one ({self._number}): a new query must start from the store"
            )
        seen, now = tuple(seen_to_rows(self._sample.seen)), wall_clock_ms()
        tasks = into_tasks(self._sample.requests, self._cores)
        return [SampleTask(() if i else seen, requests, now) for i, requests in enumerate(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SampleTask)
        with heard_by(self._step):
            yield from partition.seen
            if partition.requests and wall_clock_ms() - partition.planned_at_ms < TOO_LATE_MS:
                yield reads_to_rows(read_stalled(self._client, partition.requests, self._window_file, wall_clock_ms))

    def stop(self) -> None:
        if self._brokers is not None:
            self._brokers.close()


class PartitionsSource(KafkaSource):
    """The streaming DataSource of samples. `sampler_options` makes its options."""

    reader_class = PartitionsReader


def sampler_options(
    settings: ReaderSettings, clocks: Iterable[StallClock], window_file: str, pulse: str
) -> dict[str, str]:
    """Returns the options of the source in the form in which Spark passes them on (strings, keys in lower case).

    `window_file`: see `read_stalled`; `pulse`: a file that is touched to report progress.
    """
    return {
        **settings.option,
        "clocks": json.dumps(list(clocks)),
        "windowfile": window_file,
        "pulse": pulse,
    }
