"""A batch is stored while the next one is read: in the order of planning, never two at once, and no failure is lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from service.domain.reasons.reason import text_of
from service.domain.reasons.unread import ErrorText
from service.domain.transaction_log.facts import LogBatch
from service.store.errors import OutOfSequence, StoreUnavailable
from spark_jobs.fold.rows import batches_from_rows, trouble_to_rows
from spark_jobs.runtime.direct_batches import DirectBatches
from spark_jobs.runtime.sinks import StoreSink
from tests.helpers.waiting import LIMIT_S, wait_for, wait_until


class Frame:
    """Of a micro-batch in which nothing was read, and why."""

    def __init__(self, trouble: str) -> None:
        self.trouble = trouble

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return pa.Table.from_batches([trouble_to_rows(ErrorText(self.trouble))])


def give(sink: StoreSink[LogBatch], trouble: str) -> None:
    sink(cast(DataFrame, Frame(trouble)), 0)


def test_the_next_batch_is_read_while_one_is_stored() -> None:
    stored: list[str | None] = []
    may_go_on = threading.Event()

    def apply(batch: LogBatch, _now_ms: int, _before_ms: int | None) -> Any:
        assert may_go_on.wait(LIMIT_S)
        stored.append(text_of(batch.trouble))

    sink = StoreSink(batches_from_rows, apply)
    give(sink, "one")
    assert stored == []
    second = threading.Thread(target=give, args=(sink, "two"))
    second.start()
    second.join(0.1)
    assert second.is_alive(), "two batches at once"
    may_go_on.set()
    second.join(LIMIT_S)
    sink.close()
    assert stored == ["one", "two"]


def test_a_store_that_is_down_is_asked_again_until_it_takes_the_batch() -> None:
    answers = [StoreUnavailable("locked"), StoreUnavailable("locked"), None]
    stored: list[str | None] = []

    def apply(batch: LogBatch, _now_ms: int, _before_ms: int | None) -> Any:
        if (answer := answers.pop(0)) is not None:
            raise answer
        stored.append(text_of(batch.trouble))

    sink = StoreSink(batches_from_rows, apply)
    give(sink, "one")
    wait_for(lambda: stored, "the store to take the batch")
    sink.close()
    assert (stored, sink.failure) == (["one"], None)


def test_how_long_a_batch_took_is_told_once_with_the_next() -> None:
    reported: list[int | None] = []

    def apply(_batch: LogBatch, _now_ms: int, before_ms: int | None) -> Any:
        reported.append(before_ms)
        time.sleep(0.05)

    sink = StoreSink(lambda table: [*batches_from_rows(table)] * 2, apply)
    give(sink, "one")
    give(sink, "two")
    sink.close()
    first, none, second, again = reported
    assert (first, none, again) == (None, None, None)
    assert second is not None
    assert 100 <= second < 10_000, "both of its parts"


def test_a_failure_is_kept_and_ends_the_next_call() -> None:
    def apply(_batch: LogBatch, _now_ms: int, _before_ms: int | None) -> Any:
        raise OutOfSequence("start again")

    sink = StoreSink(batches_from_rows, apply)
    give(sink, "one")
    with pytest.raises(OutOfSequence):
        give(sink, "two")
    assert isinstance(sink.failure, OutOfSequence)
    sink.close()


def test_closing_does_not_wait_for_a_store_that_is_down() -> None:
    asked = threading.Event()

    def apply(_batch: LogBatch, _now_ms: int, _before_ms: int | None) -> Any:
        asked.set()
        raise StoreUnavailable("down")

    sink = StoreSink(batches_from_rows, apply)
    give(sink, "one")
    assert asked.wait(LIMIT_S)
    sink.close()
    assert isinstance(sink.failure, StoreUnavailable)


def test_a_direct_batch_is_stored_without_any_micro_batch(tmp_path: Path) -> None:
    stored: list[str | None] = []
    sink = StoreSink(batches_from_rows, lambda batch, _now_ms, _before_ms: stored.append(text_of(batch.trouble)))
    direct = DirectBatches(str(tmp_path))
    sink.take_from(direct)
    for trouble in ("one", "two"):
        direct.put([trouble_to_rows(ErrorText(trouble))])
        wait_until(lambda: stored[-1:], [trouble].__eq__, "the batch in the store")
    assert sink.close()
    assert stored == ["one", "two"]


def test_a_direct_batch_is_stored_before_the_micro_batch_planned_after_it(tmp_path: Path) -> None:
    stored: list[str | None] = []
    is_storing, may_go_on = threading.Event(), threading.Event()

    def apply(batch: LogBatch, _now_ms: int, _before_ms: int | None) -> Any:
        is_storing.set()
        assert may_go_on.wait(LIMIT_S)
        stored.append(text_of(batch.trouble))

    sink = StoreSink(batches_from_rows, apply)
    direct = DirectBatches(str(tmp_path))
    sink.take_from(direct)
    give(sink, "one")
    assert is_storing.wait(LIMIT_S)
    direct.put([trouble_to_rows(ErrorText("two"))])  # nobody takes it: "one" is being stored
    third = threading.Thread(target=give, args=(sink, "three"))
    third.start()
    may_go_on.set()
    third.join(LIMIT_S)
    assert sink.close()
    assert stored == ["one", "two", "three"]


def test_a_direct_batch_that_fails_ends_the_query_and_nothing_else(tmp_path: Path) -> None:
    def apply(_batch: LogBatch, _now_ms: int, _before_ms: int | None) -> Any:
        raise OutOfSequence("start again")

    sink = StoreSink(batches_from_rows, apply)
    direct = DirectBatches(str(tmp_path))
    sink.take_from(direct)
    direct.put([trouble_to_rows(ErrorText("one"))])
    wait_for(lambda: sink.failure, "the failure")
    with pytest.raises(OutOfSequence):
        give(sink, "two")
    assert sink.close()
    assert isinstance(sink.failure, OutOfSequence)
