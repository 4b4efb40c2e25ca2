"""The application against a broker that demands a login over TLS, while the password is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.reasons.coding import decode
from service.domain.source_state import SourceName
from service.store.schema import source_status
from tests.helpers.secured_broker import SecuredBroker, login
from tests.helpers.waiting import wait_for
from tests.integration.application import Ingest, ingesting
from tests.integration.producers import create_topic, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def trouble(app: Ingest) -> str:
    """Returns why the transaction log is not read."""
    (error,) = [row.error for row in app.rows(source_status) if row.source == SourceName.TRANSACTION_LOG]
    return "" if error is None else str(decode(error))


def test_a_password_is_changed_without_a_restart(tmp_path: Path) -> None:
    with SecuredBroker("3.9.2", tmp_path / "secured") as secured:
        create_topic(secured.admin, "guarded")
        secured.set_scram("old", "reader")
        file = secured.properties(
            "SCRAM-SHA-512", "sasl.jaas.config=" + login("scram.ScramLoginModule", "reader", "old")
        )
        with ingesting(secured.login, tmp_path, "--kafka-config", str(file)) as app:
            transact(open_producer(secured.admin, "before"), "guarded")
            app.wait_for_counts({"before": (1, 0)})
            secured.set_scram("new", "reader")
            secured.broker.stop()  # which ends all connections
            secured.start()
            transact(open_producer(secured.admin, "after"), "guarded")
            wait_for(lambda: "refuses: Authentication failed" in trouble(app), "that the old password is refused")
            assert secured.login in trouble(app)
            file.write_text(file.read_text().replace('"old"', '"new"'))
            app.wait_for_counts({"before": (1, 0), "after": (1, 0)})
            assert app.process.poll() is None
            assert app.gaps() == []
            log = app.log.read_text()
            assert "Traceback" not in log
            assert '"old"' not in log
            assert '"new"' not in log
