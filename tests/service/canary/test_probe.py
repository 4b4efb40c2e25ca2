"""Tests of the names and details of failed rounds, with a producer that always succeeds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import kafka.errors
import pytest

from service.canary import probe
from service.canary.probe import Probe
from service.domain.canary.rounds import Failure, Phase
from service.domain.canary.targets import Target
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaRefused
from service.kafka.settings import ClientSettings

TARGET = Target(1, 0, "txnscope-canary-1-0-0", 0, 1)


class Written:
    def offset(self) -> int:
        return 7


class Producer:
    """A producer whose transactions succeed."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def produce(self, *_: Any, on_delivery: Callable[[None, Written], None], **__: Any) -> None:
        on_delivery(None, Written())

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_: None


class Reader:
    def __init__(self, *_: Any, **__: Any) -> None: ...

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "Producer", Producer)
    monkeypatch.setattr(probe, "KafkaClient", Reader)


def failure(look: Callable[..., tuple[bool, int]], monkeypatch: pytest.MonkeyPatch) -> Failure:
    monkeypatch.setattr(probe, "look_for_committed", look)
    now_s = count(0, 0.1)
    found = Probe(ClientSettings(("127.0.0.1:1",)), "txnscope-canary", lambda: next(now_s)).round(TARGET, 0).failure
    assert found is not None
    return found


@pytest.mark.parametrize(
    "refused",
    [
        kafka.errors.SaslAuthenticationFailedError("no such user"),
        kafka.errors.UnsupportedVersionError("Fetch"),
        kafka.errors.ClusterAuthorizationFailedError("no"),
    ],
    ids=lambda one: str(one.message),
)
def test_a_refusal_has_the_name_of_its_error(
    refused: kafka.errors.BrokerResponseError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_: Any) -> tuple[bool, int]:
        raise KafkaClient._failure(refused, "broker 1")

    found = failure(look, monkeypatch)
    assert (found.phase, found.error) == (Phase.VISIBLE, refused.message)


def test_a_missing_permission_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = errors.TOPIC_AUTHORIZATION_FAILED
    assert failure(lambda *_: (False, denied), monkeypatch).error == "TOPIC_AUTHORIZATION_FAILED"
    with pytest.raises(KafkaRefused) as refusal:
        errors.raise_for(denied, "orders", ("READ",), "Fetch")
    assert refusal.value.error == "TOPIC_AUTHORIZATION_FAILED"


def test_a_record_that_is_not_visible_is_no_missing_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader answers each Fetch, without the record."""
    found = failure(lambda *_: (False, errors.NONE), monkeypatch)
    assert found == Failure(Phase.VISIBLE, "REQUEST_TIMED_OUT", "the record was not seen within 4 s")
