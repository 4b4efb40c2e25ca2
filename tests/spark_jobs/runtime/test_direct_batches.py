"""A batch that needs no reading goes to the driver past Spark: one at a time, and not for ever."""

from __future__ import annotations

import time
from pathlib import Path

from service.domain.reasons.reason import combined
from service.domain.reasons.unread import ErrorText
from spark_jobs.fold.rows import batches_from_rows, trouble_to_rows
from spark_jobs.runtime.direct_batches import THROUGH_SPARK_EVERY_S, DirectBatches


def test_a_batch_is_taken_once_and_the_next_one_waits_for_that(tmp_path: Path) -> None:
    planner, driver = DirectBatches(str(tmp_path)), DirectBatches(str(tmp_path))
    assert driver.take() is None
    now = time.monotonic()
    assert planner.may_take(now)
    planner.put([trouble_to_rows(ErrorText("one")), trouble_to_rows(ErrorText("two"))])
    assert not planner.may_take(now)
    taken = driver.take()
    assert taken is not None
    (batch,) = batches_from_rows(taken)
    assert batch.trouble == combined([ErrorText("one"), ErrorText("two")])
    assert driver.take() is None
    assert planner.may_take(now)


def test_now_and_then_a_batch_has_to_go_through_spark(tmp_path: Path) -> None:
    direct = DirectBatches(str(tmp_path))
    now = time.monotonic()
    assert direct.may_take(now - THROUGH_SPARK_EVERY_S / 2)
    assert not direct.may_take(now - THROUGH_SPARK_EVERY_S)
