"""The table of inputs in docs/running.md holds: each row on real listeners, with `doctor` and with Kafka's tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.helpers import client_properties_document as document
from tests.helpers.brokers import FULL_MATRIX
from tests.helpers.client_properties_rows import ROWS, Row, Stage

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


def test_what_kafka_takes_is_taken_or_refused_before_the_first_connection() -> None:
    """Exit code 3 would blame the broker."""
    taken = {ours for kafka, ours in RECORDED.values() if kafka == document.CONNECTS}
    assert not [ours for ours in taken if ours.startswith("exit 3")]


def test_no_variable_of_a_declared_provider_reaches_a_broker() -> None:
    """Kafka's own client sends some of them, and the broker refuses it: exit code 3."""
    of_providers = [row for row in ROWS if "config.providers=" in row.text]
    assert of_providers
    assert not [row.shown for row in of_providers if RECORDED[row.shown][1].startswith("exit 3")]


@pytest.mark.broker
@pytest.mark.parametrize("row", ROWS, ids=shown)
def test_doctor_on_a_real_listener(stage: Stage, row: Row) -> None:
    outcome = document.by_doctor(stage, row)
    assert outcome == RECORDED[row.shown][1]
    assert not [secret for secret in SECRETS if secret in outcome]


@pytest.mark.broker
@pytest.mark.parametrize("row", WITH_KAFKAS_TOOL, ids=shown)
def test_kafkas_own_tool_on_a_real_listener(stage: Stage, row: Row) -> None:
    """Texts differ between versions of Java; whether it connects does not."""
    connects = document.by_kafka(stage, row) == document.CONNECTS
    assert connects == (RECORDED[row.shown][0] == document.CONNECTS)
