"""Tests that an error code of Kafka is shown with Kafka's own name for it."""

from __future__ import annotations

import pytest
from kafka.errors import for_code

from service.domain.error_codes import error_text

NAMED_OTHERWISE = {6, 10, 17, 39}
"""Error codes that kafka-python names differently from Kafka."""


def test_the_names_are_those_of_another_client() -> None:
    others = {code for code in range(1, 128) if error_text(code) != f"error {code} {for_code(code).message}"}
    assert others == NAMED_OTHERWISE


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (6, "error 6 NOT_LEADER_OR_FOLLOWER"),
        (-1, "error -1 UNKNOWN_SERVER_ERROR"),
        (136, "error 136 CONTROLLER_ID_NOT_REGISTERED"),
        (137, "error 137"),  # of a later version of Kafka
        (-2, "error -2"),
    ],
)
def test_a_code_that_kafka_does_not_have_yet_is_shown_alone(code: int, text: str) -> None:
    assert error_text(code) == text
