"""The limits Kafka puts on transactions and ids, and the moments they lead to. Times are ms since the epoch."""

from __future__ import annotations

from typing import Final

from service.domain.transaction_log.states import EXPIRABLE, ONGOING

EXPIRATION_CONFIG: Final = "transactional.id.expiration.ms"

CONFIG_DEFAULTS: Final[dict[str, str]] = {
    EXPIRATION_CONFIG: "604800000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "3600000",
    "transaction.max.timeout.ms": "900000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
}
"""Kafka's own (TransactionStateManagerConfig, TransactionLogConfig): assumed where the brokers were not heard yet."""

TWO_PHASE_TIMEOUT_MS: Final = 2_147_483_647
"""The timeout of a transaction that an outside coordinator ends (KIP-939): it never times out."""

LAST_TIME_MS: Final = 253_402_300_799_999
"""The end of the year 9999; times are from 0 to here, anything else in a record is a number and no time."""

NO_TIME: Final = -1
"""What Kafka writes where there is none."""


def is_time(ms: int | None) -> bool:
    """Whether the number can be a time at all. NO_TIME is not."""
    return ms is not None and 0 <= ms <= LAST_TIME_MS


def times_out_at_ms(state: int, started_at_ms: int | None, timeout_ms: int) -> int | None:
    """When the coordinator may abort the transaction; None where it will not."""
    if state != ONGOING or started_at_ms is None or started_at_ms < 0 or timeout_ms == TWO_PHASE_TIMEOUT_MS:
        return None
    return started_at_ms + timeout_ms


def expires_at_ms(state: int, last_update_ms: int, expiration_ms: int) -> int | None:
    """When the coordinator may remove the id (it sweeps hourly); None while a transaction is under way."""
    if state not in EXPIRABLE or last_update_ms < 0:
        return None
    return last_update_ms + expiration_ms
