"""Tests of the start and the end of the application, without Spark and without brokers."""

from __future__ import annotations

import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from service.kafka.errors import KafkaUnavailable
from service.settings import Settings
from service.store.errors import StoreUnavailable
from service.store.lease import Lease
from service.store.standby import Standby
from spark_jobs import application
from spark_jobs.application import Application
from spark_jobs.runtime.liveness import Liveness
from spark_jobs.runtime.session import SparkStart
from spark_jobs.runtime.watchdog import Watchdog
from spark_jobs.settings import IngestSettings
from tests.helpers.brokers import free_port


def an_application(folder: Path, stopping: threading.Event) -> tuple[Application, Mock]:
    """Returns an application whose broker does not answer, and a mock of Spark's start."""
    settings = IngestSettings.of(
        Settings(bootstrap_servers=f"127.0.0.1:{free_port()}", store=f"sqlite:///{folder / 'store.db'}")
    )
    starting = Mock(spec=SparkStart)
    app = Application(settings, stopping, Liveness(list, folder), Mock(spec=Watchdog), folder, starting)
    return app, starting


def test_a_stop_while_no_broker_answers_is_no_error(tmp_path: Path) -> None:
    stopping = threading.Event()
    stopping.set()
    app, starting = an_application(tmp_path, stopping)
    app.run()
    starting.session.assert_not_called()


def test_an_address_where_no_broker_answers_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "FIRST_CONTACT_S", 0)
    app, _ = an_application(tmp_path, threading.Event())
    with pytest.raises(KafkaUnavailable):
        app.run()


def test_a_standby_waits_for_an_unavailable_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(application, "LOOK_EVERY_S", 0)
    app, _ = an_application(tmp_path, threading.Event())
    standby, held = Mock(spec=Standby), Lease(1, "host-a:7", 2)
    standby.acquire.side_effect = [None, None, StoreUnavailable("store: down"), StoreUnavailable("store: down"), held]
    with caplog.at_level("INFO", "txnscope.ingest"):
        assert app._wait_for_lease(standby) == held
    assert caplog.messages == [
        "another instance writes this cluster: standing by",
        "waiting for the lease of this cluster: store: down",
    ]


def test_the_lease_is_watched_while_spark_starts(tmp_path: Path) -> None:
    app, starting = an_application(tmp_path, threading.Event())
    standby = Mock(spec=Standby)
    standby.look.side_effect = [None, StoreUnavailable("store: down"), None]
    starting.is_over.side_effect = [False, False, False, True]
    assert app._start_spark(standby) is starting.session.return_value
    assert standby.look.call_count == 3
