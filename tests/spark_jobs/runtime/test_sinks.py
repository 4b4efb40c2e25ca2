"""Tests that a batch is stored while the next one is read. Batches are stored one at a time, in the order of their
plans. No failure is lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from service.domain.reasons.reason import combined, text_of
from service.domain.reasons.unread import ErrorText
from service.domain.transaction_log.facts import LogBatch
from service.store.errors import OutOfSequence, StoreUnavailable
from spark_jobs.fold.rows import batches_from_rows, trouble_to_rows
from spark_jobs.runtime.direct_batches import THROUGH_SPARK_EVERY_S, DirectBatches
from spark_jobs.runtime.sinks import StoreSink
from tests.helpers.waiting import LIMIT_S, wait_for, wait_until


class Frame:
    """The DataFrame of a micro-batch that contains no data, only the reason why nothing could be read."""

    def __init__(self, trouble: str) -> None:
        self.trouble = trouble

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return pa.Table.from_batches([trouble_to_rows(ErrorText(self.trouble))])


class Store:
    """A store that raises one of `failures` for each attempt to store a batch, and then accepts batches. Each attempt
    waits until `may_go_on` is set."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = iter(failures)
        self.stored: list[str | None] = []
        self.is_asked, self.may_go_on = threading.Event(), threading.Event()
        self.may_go_on.set()
        self.sink = StoreSink(batches_from_rows, self._apply, lambda: None)

    def give(self, trouble: str) -> None:
        self.sink(cast(DataFrame, Frame(trouble)), 0)

    def _apply(self, batch: LogBatch, _now_ms: int, _before_ms: int | None) -> Any:
        self.is_asked.set()
        assert self.may_go_on.wait(LIMIT_S)
        for failure in self._failures:
            raise failure
        self.stored.append(text_of(batch.trouble))


@pytest.fixture
def direct(tmp_path: Path) -> DirectBatches:
    return DirectBatches(str(tmp_path))


def a_batch(*troubles: str) -> list[pa.RecordBatch]:
    return [trouble_to_rows(ErrorText(one)) for one in troubles]


def test_the_next_batch_is_read_while_one_is_stored() -> None:
    store = Store()
    store.may_go_on.clear()
    store.give("one")
    assert store.stored == []
    second = threading.Thread(target=store.give, args=("two",))
    second.start()
    second.join(0.1)
    assert second.is_alive(), "the second batch must wait for the first one"
    store.may_go_on.set()
    second.join(LIMIT_S)
    store.sink.close()
    assert store.stored == ["one", "two"]


def test_a_batch_is_retried_until_an_unavailable_store_takes_it() -> None:
    store = Store(StoreUnavailable("locked"), StoreUnavailable("locked"))
    store.give("one")
    wait_for(lambda: store.stored, "the store to take the batch")
    store.sink.close()
    assert (store.stored, store.sink.failure) == (["one"], None)


def test_the_time_of_a_batch_is_reported_once_with_the_next_batch() -> None:
    reported: list[int | None] = []

    def apply(_batch: LogBatch, _now_ms: int, before_ms: int | None) -> Any:
        reported.append(before_ms)
        time.sleep(0.05)

    sink = StoreSink(lambda table: [*batches_from_rows(table)] * 2, apply, lambda: None)
    for trouble in ("one", "two"):
        sink(cast(DataFrame, Frame(trouble)), 0)
    sink.close()
    first, none, second, again = reported
    assert (first, none, again) == (None, None, None)
    assert second is not None
    assert 100 <= second < 10_000, "the time must cover both parts of the batch, 50 ms each"


@pytest.mark.parametrize("is_direct", [False, True], ids=["micro-batch", "direct batch"])
def test_a_failure_is_kept_and_ends_the_next_call(direct: DirectBatches, is_direct: bool) -> None:
    store = Store(OutOfSequence("start again"))
    store.sink.take_from(direct)
    if is_direct:
        direct.put(a_batch("one"))
    else:
        store.give("one")
    wait_for(lambda: store.sink.failure, "the failure")
    with pytest.raises(OutOfSequence):
        store.give("two")
    assert store.sink.close()
    assert isinstance(store.sink.failure, OutOfSequence)


def test_closing_does_not_wait_for_a_store_that_is_down() -> None:
    store = Store(*[StoreUnavailable("down")] * 1_000)
    store.give("one")
    assert store.is_asked.wait(LIMIT_S)
    store.sink.close()
    assert isinstance(store.sink.failure, StoreUnavailable)


def test_a_direct_batch_is_stored_without_any_micro_batch(direct: DirectBatches) -> None:
    store = Store()
    store.sink.take_from(direct)
    for trouble in ("one", "two"):
        direct.put(a_batch(trouble))
        wait_until(lambda: store.stored[-1:], [trouble].__eq__, "the batch in the store")
    assert store.sink.close()
    assert store.stored == ["one", "two"]


def test_a_direct_batch_is_stored_before_the_micro_batch_planned_after_it(direct: DirectBatches) -> None:
    store = Store()
    store.may_go_on.clear()
    store.sink.take_from(direct)
    store.give("one")
    assert store.is_asked.wait(LIMIT_S)
    direct.put(a_batch("two"))  # the batch is not taken, because "one" is being stored
    third = threading.Thread(target=store.give, args=("three",))
    third.start()
    store.may_go_on.set()
    third.join(LIMIT_S)
    assert store.sink.close()
    assert store.stored == ["one", "two", "three"]


def test_a_direct_batch_is_taken_once_before_the_next_one(direct: DirectBatches, tmp_path: Path) -> None:
    planner, now = DirectBatches(str(tmp_path)), time.monotonic()
    assert direct.take() is None
    assert planner.may_take(now)
    planner.put(a_batch("one", "two"))
    assert not planner.may_take(now)
    taken = direct.take()
    assert taken is not None
    (batch,) = batches_from_rows(taken)
    assert batch.trouble == combined([ErrorText("one"), ErrorText("two")])
    assert direct.take() is None
    assert planner.may_take(now)


def test_a_batch_has_to_go_through_spark_from_time_to_time(direct: DirectBatches) -> None:
    now = time.monotonic()
    assert direct.may_take(now - THROUGH_SPARK_EVERY_S / 2)
    assert not direct.may_take(now - THROUGH_SPARK_EVERY_S)
