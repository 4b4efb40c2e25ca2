"""Tests of the canary's principal on a broker with ACLs. doctor names the principal's missing permissions, the printed
grants are enough, and a permission that is removed later is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service.cli import main
from service.kafka.settings import ClientSettings
from tests.helpers.acls import BrokerWithAcls, topic, transactional_id
from tests.helpers.brokers import on
from tests.integration.canary_lab import NAMED_WITHIN_S, TOPIC, running_canary, store_of
from tests.integration.producers import open_producer

pytestmark = pytest.mark.broker


@on("3.9.2")
def test_doctor_names_what_the_canary_lacks_and_a_lost_permission_is_named(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with BrokerWithAcls(version, tmp_path / "kafka", ["canary"]) as guarded:
        open_producer(guarded.admin, "creates the transaction log")
        file = guarded.properties("canary")
        config = tmp_path / "txnscope.toml"
        config.write_text(f'bootstrap_servers = "{guarded.bootstrap}"\n[canary]\ntopic = "{TOPIC}"\n')

        def doctor() -> tuple[list[str], list[str]]:
            """Returns the missing permissions of the canary that doctor reports, and the commands that grant them."""
            main(["doctor", "--config", str(config), "--kafka-config", str(file)])
            text = capsys.readouterr().out
            gaps = re.findall(r"^gap +canary: (.*)$", text, re.MULTILINE)
            return gaps, re.findall(r"^kafka-acls\.sh .*$", text.partition("\nfor the canary:")[2], re.MULTILINE)

        gaps, commands = doctor()
        assert [gap.partition(", so")[0].partition(":")[0] for gap in gaps] == [
            "DESCRIBE on __transaction_state is denied",
            "WRITE is denied on transactional ids that begin with txnscope-canary-",
            f"topic {TOPIC} does not exist, or may not be described, and CREATE is denied",
        ]
        granted = [command.partition("--allow-principal User:canary --operation ")[2] for command in commands]
        assert granted == [
            "Describe --topic __transaction_state",
            "Write --resource-pattern-type prefixed --transactional-id txnscope-canary-",
            f"Create --topic {TOPIC}",
            f"Read --topic {TOPIC}",
            f"Write --topic {TOPIC}",
        ]
        guarded.allow("canary", topic("__transaction_state"), "DESCRIBE")
        guarded.allow("canary", transactional_id("txnscope-canary-", is_prefix=True), "WRITE")
        guarded.allow("canary", topic(TOPIC), "CREATE", "READ", "WRITE")
        assert doctor() == ([], [])

        settings = ClientSettings.load(guarded.bootstrap, file)
        with store_of(guarded.admin, tmp_path) as watched, running_canary(watched, settings):
            watched.wait_for_rounds(2, 1)
            guarded.deny("canary", transactional_id("*"), "WRITE")
            watched.wait(
                lambda _: watched.failing() == {1: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"},
                "the lost permission to be named",
                NAMED_WITHIN_S,
            )
            assert doctor()[0] == [
                "WRITE is denied on transactional ids that begin with txnscope-canary-, so the canary cannot run a"
                " transaction"
            ]
