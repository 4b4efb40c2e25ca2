"""One connection pool to a cluster: send a request to a broker, get its response or a KafkaFailure.

The only place that touches kafka-python's client; the other modules of this room use its request classes alone.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any

import kafka.errors
from kafka.net.compat import KafkaNetClient

from service.kafka.errors import BadClientConfig, KafkaRefused, KafkaUnavailable
from service.kafka.settings import ClientSettings

# the library logs every retry as an error; what matters is raised as a KafkaFailure and reported once, by us
logging.getLogger("kafka").setLevel(logging.CRITICAL)

MAX_RESPONSE_BYTES = 96 << 20  # the library's default (1 MB) refuses most Fetch responses
CONNECT_TIMEOUT_MS = 5_000
REQUEST_TIMEOUT_MS = 15_000


class KafkaClient:
    """Not for sharing between processes or threads: open one in each. Usable as a context manager."""

    def __init__(self, settings: ClientSettings, client_id: str = "txnscope") -> None:
        """Connect and learn the brokers. Raises KafkaUnavailable or KafkaRefused."""
        config = {"client_id": client_id} | settings.kafka_python()
        self._servers = ",".join(settings.bootstrap_servers)
        try:
            self._client = KafkaNetClient(
                **config,
                receive_message_max_bytes=MAX_RESPONSE_BYTES,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                socket_connection_setup_timeout_ms=CONNECT_TIMEOUT_MS,
                metadata_max_age_ms=30_000,
            )
        except (ValueError, AssertionError, OSError) as e:
            raise BadClientConfig(f"client properties: {e}") from e
        try:
            self._client._manager.bootstrap(timeout_ms=CONNECT_TIMEOUT_MS)
        except Exception as e:
            self.close()
            raise self._failure(e, self._servers) from e

    def ask(self, request: Any, node: int | None = None, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Any:
        """Send `request` to broker `node` (any broker if None) and return its response."""
        target = node if node is not None else self._client.least_loaded_node()
        if target is None:
            raise KafkaUnavailable(f"no broker of {self._servers} answers")
        try:
            return self._client.send_and_receive(target, request, timeout_ms=timeout_ms)
        except Exception as e:
            if isinstance(e, kafka.errors.UnknownBrokerIdError):
                self._client.cluster.request_update()  # it came, or came back, after the library last looked
            raise self._failure(e, f"broker {target}") from e

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> KafkaClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @staticmethod
    def _failure(e: Exception, whom: str) -> KafkaUnavailable | KafkaRefused:
        refused = (
            kafka.errors.AuthorizationError,
            kafka.errors.SaslAuthenticationFailedError,
            kafka.errors.UnsupportedVersionError,
            kafka.errors.UnsupportedSaslMechanismError,
            kafka.errors.IllegalSaslStateError,
        )
        text = " ".join(str(e).split())[:300] or type(e).__name__
        if isinstance(e, refused):
            return KafkaRefused(f"{whom} refuses: {text}")
        return KafkaUnavailable(f"{whom} does not answer: {text}")
