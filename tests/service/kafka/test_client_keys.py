"""Tests that every key of Kafka's own clients is honoured, ignored with a warning, or refused by name.

The table of inputs in docs/running.md is tested on real listeners.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from service.kafka.client_properties import keys
from tests.helpers import client_keys
from tests.helpers import client_properties_document as document
from tests.helpers.brokers import FULL_MATRIX
from tests.helpers.client_properties_rows import ROWS, Row, Stage
from tests.service.kafka.properties import load, refusal

KNOWN: Final = client_keys.recorded()
SECURITY: Final = ("security.", "ssl.", "sasl.")


@pytest.mark.parametrize("key", KNOWN)
def test_each_key_has_its_recorded_outcome(key: str) -> None:
    entry: dict[str, Any] = KNOWN[key]
    assert client_keys.outcome(key, client_keys.sample(key, entry)) == entry["here"]


def test_refused_keys_name_java_classes_or_have_the_refused_prefix() -> None:
    refused = {key for key, entry in KNOWN.items() if entry["here"] == "refused"}
    assert {key for key in refused if not key.startswith(keys.REFUSED_PREFIX)} == {
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.oauthbearer.jwt.retriever.class",
        "ssl.engine.factory.class",
    }


def test_a_key_that_is_not_about_security_is_never_refused() -> None:
    assert {entry["here"] for key, entry in KNOWN.items() if not key.startswith(SECURITY)} == {"honoured", "ignored"}


@pytest.mark.parametrize("key", [*keys.CLASSES])
def test_a_class_of_kafka_itself_is_honoured(key: str) -> None:
    for name in keys.CLASSES[key]:
        assert client_keys.outcome(key, name) == "honoured"


@pytest.mark.parametrize(
    "key", [key for key, entry in KNOWN.items() if "values" in entry and "admin" in entry["clients"]]
)
def test_a_value_that_kafkas_admin_client_does_not_take_is_refused(key: str) -> None:
    for value in KNOWN[key]["values"]:
        assert client_keys.outcome(key, value) == KNOWN[key]["here"]
    assert client_keys.outcome(key, "nonsense") == "refused"


def test_a_token_command_replaces_keys_that_only_java_can_honour(tmp_path: Any) -> None:
    text = (
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.login.callback.handler.class=com.vendor.Handler\n"
        "sasl.oauthbearer.jwt.retriever.class=com.vendor.Retriever\nsasl.oauthbearer.assertion.file=x\n"
    )
    wrong = r"com\.vendor\.Retriever .*; sasl\.oauthbearer\.assertion\.file is not"
    assert re.search(wrong, refusal(tmp_path, text))
    settings = load(tmp_path, f"{text}txnscope.oauthbearer.token.command=giver\n")
    assert "sasl.oauthbearer.assertion.file" in str(settings.notes(None))


@pytest.mark.broker  # needs the jars of Kafka's clients
def test_the_record_equals_the_output_of_the_clients() -> None:
    assert client_keys.document() == KNOWN


RECORDED: Final = document.recorded()
SECRETS: Final = ("secret-of-the-vault", "changeit")
WITH_KAFKAS_TOOL: Final = ROWS if FULL_MATRIX else (ROWS[2], ROWS[4], ROWS[7], ROWS[19])


def shown(row: Row) -> str:
    return row.shown


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with document.staged(tmp_path_factory.mktemp("rows")) as running:
        yield running


def test_the_document_has_every_row_and_no_other() -> None:
    assert [*RECORDED] == [row.shown for row in ROWS]


def test_a_value_that_kafka_takes_does_not_fail_at_the_connection() -> None:
    """A value that Kafka accepts is honoured, or refused before the first connection. A failure at the connection would
    have exit code 3, which blames the broker."""
    taken = {ours for kafka, ours in RECORDED.values() if kafka == document.CONNECTS}
    assert not [ours for ours in taken if ours.startswith("exit 3")]


def test_no_variable_of_a_declared_provider_reaches_a_broker() -> None:
    """Kafka's own client sends some unresolved variables to the broker, which then refuses the login. txnscope never
    sends an unresolved variable."""
    of_providers = [row for row in ROWS if "config.providers=" in row.text]
    assert of_providers
    assert not [row.shown for row in of_providers if RECORDED[row.shown][1].startswith("exit 3")]


@pytest.mark.broker
@pytest.mark.parametrize("row", ROWS, ids=shown)
def test_doctor_has_the_recorded_outcome_on_a_real_listener(stage: Stage, row: Row) -> None:
    outcome = document.by_doctor(stage, row)
    assert outcome == RECORDED[row.shown][1]
    assert not [secret for secret in SECRETS if secret in outcome]


@pytest.mark.broker
@pytest.mark.parametrize("row", WITH_KAFKAS_TOOL, ids=shown)
def test_kafkas_own_tool_has_the_recorded_outcome_on_a_real_listener(stage: Stage, row: Row) -> None:
    """Messages differ between versions of Java, so the test compares only whether the tool connects."""
    connects = document.by_kafka(stage, row) == document.CONNECTS
    assert connects == (RECORDED[row.shown][0] == document.CONNECTS)
