"""Switches off Kafka's guard against records outside of transactions (KIP-890 part 1) for a moment, on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kafka.protocol.admin import IncrementalAlterConfigsRequest

from deploy.demo.workload.raw_producer import Connection
from service.kafka.client import KafkaClient

CONFIG: Final = "transaction.partition.verification.enable"
GUARDED: Final = frozenset({48, 120})
"""Errors of the guard: INVALID_TXN_STATE, TRANSACTION_ABORTABLE. Brokers still return these errors for some 100 ms
after the guard was switched off. A batch that is under way when the guard is switched on again also gets such an error:
the batch was not checked on arrival, and is refused when it is appended."""

_BROKER, _EVERY, _SET = 4, "", 0


@contextmanager
def verification_off(connection: Connection) -> Iterator[None]:
    """Switches the verification guard (KIP-890 part 1) off on all brokers until the block ends. A write that the guard
    would refuse can still fail with an error in GUARDED: repeat the write then."""
    _set(connection, "false")
    try:
        yield
    finally:
        _set(connection, "true")


def _set(connection: Connection, value: str) -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = resource.AlterableConfig(name=CONFIG, config_operation=_SET, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=_BROKER, resource_name=_EVERY, configs=[config])],
        validate_only=False,
    )

    def attempt(client: KafkaClient) -> tuple[int, Any]:
        return client.ask(request).responses[0].error_code, None

    connection.retry(f"{CONFIG}={value}", attempt)
