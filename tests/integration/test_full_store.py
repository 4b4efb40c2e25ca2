"""Tests of a store on a full disk: no batch is acknowledged, the error is reported, and all batches are applied when
there is space again."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import MakeBroker
from tests.helpers.waiting import wait_for, wait_until_equal
from tests.integration.application import Ingest, ingesting
from tests.integration.producers import create_topic, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]


def test_a_full_store_takes_the_batches_once_there_is_space_again(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker("3.9.2", **{"transaction.state.log.num.partitions": 1})
    create_topic(broker.bootstrap, "full")
    with ingesting(broker.bootstrap, tmp_path) as app:
        producer = open_producer(broker.bootstrap, "full")
        transact(producer, "full")
        app.wait_for_counts({"full": (1, 0)})

        with no_room(app, (tmp_path / "txnscope.db-wal").stat().st_size):
            wait_for(lambda: tries(app), "the log line about the unavailable store")
            stands = stored_progress(app)
            for _ in range(5):
                transact(producer, "full", commit=False)
            before = tries(app)
            wait_for(lambda: tries(app) > before + 1, "another try to store the batch")
            assert stored_progress(app) == stands
            assert app.counts() == {"full": (1, 0)}
        app.wait_for_counts({"full": (1, 5)})
        wait_until_equal(app.log_trouble, None, f"the reported error ({app.log})")
        assert app.gaps() == []
        assert "reading stopped" not in app.log.read_text()


@contextmanager
def no_room(app: Ingest, size: int) -> Iterator[None]:
    """Sets a maximum size of `size` bytes for each file that the driver writes. A file that already has this size
    cannot grow, as on a full disk.

    The limit needs no privilege. It affects neither the JVM, which is another process than the driver, nor the driver's
    log, which is far shorter.
    """
    pid = app.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def tries(app: Ingest) -> int:
    return app.log.read_text().count("the store does not take the batch")


def stored_progress(app: Ingest) -> tuple[dict[int, int], list[int]]:
    """Returns the stored positions, and the time at which the transaction log was last read successfully. Neither may
    change while the disk is full."""
    return app.positions(), [row.as_of_ms for row in app.log_status()]
