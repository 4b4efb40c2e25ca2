"""Tests that the application uses a changed password without a restart, on a broker with login over TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.secured_broker import SecuredBroker, login
from tests.helpers.waiting import wait_for
from tests.integration.application import ingesting
from tests.integration.producers import create_topic, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]


def test_a_changed_password_is_used_without_a_restart(tmp_path: Path) -> None:
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
            secured.broker.stop()  # the restart ends all connections
            secured.start()
            transact(open_producer(secured.admin, "after"), "guarded")
            wait_for(
                lambda: "refuses: Authentication failed" in str(app.log_trouble()), "the refusal of the old password"
            )
            assert secured.login in str(app.log_trouble())
            file.write_text(file.read_text().replace('"old"', '"new"'))
            app.wait_for_counts({"before": (1, 0), "after": (1, 0)})
            assert app.process.poll() is None
            assert app.gaps() == []
            log = app.log.read_text()
            assert "Traceback" not in log
            assert '"old"' not in log
            assert '"new"' not in log
