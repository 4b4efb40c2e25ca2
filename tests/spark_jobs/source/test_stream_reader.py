"""Tests of `PlanningReader`. A plan without data goes directly to the driver if the driver has taken the previous one.
A plan with data goes through Spark as a micro-batch. So do the first plan, and one plan now and then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from service.domain.reasons.unread import ErrorText
from service.domain.transaction_log.facts import RangeRead
from service.kafka.settings import ClientSettings
from spark_jobs.fold.rows import batches_from_rows
from spark_jobs.runtime import direct_batches
from spark_jobs.runtime.direct_batches import DirectBatches
from spark_jobs.source import stream_reader
from spark_jobs.source.planner import BatchPlan
from spark_jobs.source.reader_settings import ReaderSettings
from spark_jobs.source.stream_reader import PlanningReader, ReadTask

SETTINGS = ReaderSettings(client=ClientSettings(("127.0.0.1:1",)))
WITH_DATA = RangeRead(0, "T", 0, 0, 5, 1, 0, 0, 5, 0, 0, 0, None)


@dataclass
class Plans:
    """A planner, which also stands in for the driver. Plan number `data_at` is the first one with data. `taken`: the
    field `trouble` of each batch that went directly to the driver. If `takes` is False, the driver takes none.
    `advanced`: the numbers of the plans that were passed to `advance`."""

    data_at: int
    driver: DirectBatches
    taken: list[str]
    takes: bool = True
    made: int = 0
    advanced: list[int] = field(default_factory=list)

    def plan(self) -> BatchPlan[RangeRead]:
        if self.takes and (table := self.driver.take()) is not None:
            self.taken += [str(batch.trouble) for batch in batches_from_rows(table)]
        self.made += 1
        return BatchPlan((WITH_DATA,) if self.made >= self.data_at else (), ErrorText(f"plan {self.made}"))

    def advance(self, plan: BatchPlan[RangeRead]) -> None:
        self.advanced.append(number_of(plan))

    def close(self) -> None:
        pass


class Reader(PlanningReader[RangeRead]):
    poll_s = 0.001

    def __init__(self, folder: Path, plans: Plans) -> None:
        super().__init__({**SETTINGS.option, "pulse": "", "direct": str(folder), "cores": "2"})
        self._plans = plans

    def planner(self) -> Plans:
        return self._plans

    def read_ranges(self, ranges: Sequence[RangeRead]) -> Iterator[pa.RecordBatch]:
        return iter(())


@pytest.fixture(autouse=True)
def _short_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_reader, "HEARTBEAT_S", 0.001)


def number_of(one: BatchPlan[RangeRead] | ReadTask[RangeRead]) -> int:
    return int(str(one.trouble).removeprefix("plan "))


def planned(reader: Reader) -> int:
    """Returns the number of the plan of the next micro-batch."""
    end = reader.latestOffset({}, None)
    (task,) = reader.partitions({}, end)
    assert isinstance(task, ReadTask)
    return number_of(task)


def test_plans_without_data_go_to_the_driver_and_data_through_spark(tmp_path: Path) -> None:
    plans = Plans(5, DirectBatches(str(tmp_path)), [])
    reader = Reader(tmp_path, plans)
    assert planned(reader) == 1, "the first batch goes through Spark, to prove that Spark works"
    assert planned(reader) == 5
    assert plans.taken == [str(ErrorText(f"plan {number}")) for number in (2, 3, 4)]
    assert plans.advanced == [1, 2, 3, 4, 5], "each plan begins where the previous one ended"


def test_a_plan_goes_through_spark_if_the_driver_took_no_earlier_one(tmp_path: Path) -> None:
    reader = Reader(tmp_path, Plans(100, DirectBatches(str(tmp_path)), [], takes=False))
    assert planned(reader) == 1
    assert planned(reader) == 3, "the driver did not take the second plan"
    assert planned(reader) == 4


def test_a_plan_goes_through_spark_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_batches, "THROUGH_SPARK_EVERY_S", 0.05)
    plans = Plans(10**9, DirectBatches(str(tmp_path)), [])
    reader = Reader(tmp_path, plans)
    assert planned(reader) == 1
    while not plans.taken:  # on a slow machine the time is over before a plan goes to the driver
        assert planned(reader) > 1
