"""Tests that a planner without new data reports to the driver directly, past Spark. With new data it requests a
micro-batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from service.domain.reasons.unread import ErrorText
from spark_jobs.fold.rows import batches_from_rows, trouble_to_rows
from spark_jobs.runtime import direct_batches
from spark_jobs.runtime.direct_batches import DirectBatches
from spark_jobs.source.stream_reader import PlanningReader


@dataclass(frozen=True)
class Plan:
    number: int
    has_data: bool


@dataclass
class Plans:
    """A planner whose plan number `data_at` is the first one with data. `taken`: the troubles in batches that went
    directly to the driver. `advanced`: the numbers of the plans that were passed to `advance`."""

    data_at: int
    driver: DirectBatches
    taken: list[str]
    takes: bool = True
    made: int = 0
    advanced: list[int] = field(default_factory=list)

    def plan(self) -> Plan:
        if self.takes and (table := self.driver.take()) is not None:
            self.taken += [str(batch.trouble) for batch in batches_from_rows(table)]
        self.made += 1
        return Plan(self.made, self.made >= self.data_at)

    def advance(self, plan: Plan) -> None:
        self.advanced.append(plan.number)

    def close(self) -> None:
        pass


class Reader(PlanningReader[Plan]):
    def __init__(self, folder: Path, plans: Plans) -> None:
        super().__init__({"pollms": "1", "heartbeatms": "1", "pulse": "", "direct": str(folder)})
        self._plans = plans

    def planner(self) -> Plans:
        return self._plans

    def tasks(self, plan: Plan) -> Sequence[InputPartition]:
        return [InputPartition(plan.number)]

    def read_rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield trouble_to_rows(ErrorText(f"plan {partition.value}"))


def planned(reader: Reader) -> InputPartition:
    """Returns the task of the next micro-batch."""
    end = reader.latestOffset({}, None)
    (task,) = reader.partitions({}, end)
    return task


def test_plans_without_data_go_to_the_driver_and_data_through_spark(tmp_path: Path) -> None:
    plans = Plans(5, DirectBatches(str(tmp_path)), [])
    reader = Reader(tmp_path, plans)
    assert planned(reader).value == 1, "the first plan goes through Spark, to prove that Spark works"
    assert planned(reader).value == 5
    assert plans.taken == [str(ErrorText(f"plan {number}")) for number in (2, 3, 4)]
    assert plans.advanced == [1, 2, 3, 4, 5], "each plan begins where the previous one ended"


def test_where_the_driver_takes_nothing_the_next_plan_goes_through_spark(tmp_path: Path) -> None:
    reader = Reader(tmp_path, Plans(100, DirectBatches(str(tmp_path)), [], takes=False))
    assert planned(reader).value == 1
    assert planned(reader).value == 3, "the driver has not taken plan 2, so plan 3 goes through Spark"
    assert planned(reader).value == 4


def test_a_plan_goes_through_spark_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_batches, "THROUGH_SPARK_EVERY_S", 0.05)
    plans = Plans(10**9, DirectBatches(str(tmp_path)), [])
    reader = Reader(tmp_path, plans)
    assert planned(reader).value == 1
    while not plans.taken:  # on a slow machine the time is over before a plan goes to the driver
        assert planned(reader).value > 1
