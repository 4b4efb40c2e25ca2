"""One connection pool to a cluster: finds the first broker that answers, sends requests, returns responses or failures.

Only this module sends requests with kafka-python's client; the other modules here pass their requests to `KafkaClient`.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

import kafka.errors
from kafka.net.compat import KafkaNetClient

from service.domain.reasons.unread import NoBroker
from service.kafka.connections import REFUSALS, ServerFailure, connected_client
from service.kafka.errors import BadClientConfig, KafkaFailure, KafkaRefused, KafkaUnavailable
from service.kafka.settings import ClientSettings
from service.processes import waiting

# the library logs every retry as an error; a failure that matters is raised as a KafkaFailure and reported once
logging.getLogger("kafka").setLevel(logging.CRITICAL)

MAX_RESPONSE_BYTES = 96 << 20  # the library's default (1 MB) refuses most Fetch responses
REQUEST_TIMEOUT_MS = 15_000
STEP_EVERY_S = 1.0
RECONNECT_MS = 20  # time that `ask_all` waits for connections to brokers that did not answer before
RECONNECT_BACKOFF_MS = 1_000  # longest pause before a new attempt, as in Java clients; the library's default is 30 s


class KafkaClient:
    """A client for one thread: do not share it between processes or threads. Usable as a context manager."""

    def __init__(self, settings: ClientSettings, client_id: str = "txnscope") -> None:
        """Connects and learns the brokers. Raises KafkaUnavailable, KafkaRefused or BadClientConfig."""
        self._servers = ",".join(settings.bootstrap_servers)
        self._failures: dict[int, KafkaFailure] = {}
        config = {
            "client_id": client_id,
            **settings.kafka_python(),
            "receive_message_max_bytes": MAX_RESPONSE_BYTES,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "socket_connection_setup_timeout_ms": CONNECT_TIMEOUT_MS,
            "socket_connection_setup_timeout_max_ms": CONNECT_TIMEOUT_MS,
            "reconnect_backoff_max_ms": RECONNECT_BACKOFF_MS,
            "metadata_max_age_ms": 30_000,
        }
        try:
            self._client = bootstrap_client(
                config, settings.bootstrap_servers, lambda: settings.latest().kafka_python()
            )
        except ServerFailure as e:
            where = f"{e.server}: " if len(settings.bootstrap_servers) > 1 else ""
            raise self._failure(e.cause, self._servers, where) from e
        except (ValueError, AssertionError, OSError) as e:
            raise BadClientConfig(f"client properties: {e}") from e
        except Exception as e:
            raise self._failure(e, self._servers) from e

    def ask(self, request: Any, node: int | None = None, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Any:
        """Sends `request` to broker `node` (any broker if None) and returns its response. Raises KafkaUnavailable or
        KafkaRefused."""
        return self._ask_any(request, timeout_ms) if node is None else self._ask(request, node, timeout_ms)

    def _ask_any(self, request: Any, timeout_ms: int) -> Any:
        """Asks one broker. If this broker is unavailable, or does not answer within NEXT_SERVER_AFTER_MS, asks a second
        broker. If the first broker refuses the request, raises KafkaRefused at once. A cluster's only broker gets the
        whole `timeout_ms`."""
        first = self._client.least_loaded_node()
        others = [broker.node_id for broker in self._client.cluster.brokers() if broker.node_id != first]
        if first is None:
            raise KafkaUnavailable(NoBroker(self._servers))
        if not others:
            return self._ask(request, first, timeout_ms)
        try:
            return self._ask(request, first, min(timeout_ms, NEXT_SERVER_AFTER_MS))
        except KafkaUnavailable:
            return self._ask(request, others[0], timeout_ms)

    def _ask(self, request: Any, node: int, timeout_ms: int) -> Any:
        waiting.step()
        give_up = time.monotonic() + timeout_ms / 1000
        try:
            self._wait_while_held_back(node, give_up)
            future = self._client._manager.send(request, node_id=node, request_timeout_ms=timeout_ms)
            self._wait_for(future, give_up)
        except Exception as e:
            raise self._request_failure(e, node) from e
        if not future.succeeded():
            why = self._why(future, timeout_ms)
            raise self._request_failure(why, node) from why
        return future.value

    def ask_all(
        self, requests: Mapping[int, Sequence[Any]], timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> dict[int, list[Any] | KafkaFailure]:
        """Asks all brokers at the same time, and waits at most `timeout_ms` in total. Sends each broker its requests in
        order. Returns each broker's responses in the same order, or a failure if one of its responses is missing.

        After a broker has failed, later calls return the same failure until the broker is connected again. Send at most
        four requests to a broker: the library allows no more than five in flight.
        """
        waiting.step()
        give_up = time.monotonic() + timeout_ms / 1000
        failed_before = self._failures.keys() & requests.keys()
        reconnected = self._connected(failed_before) if failed_before else set()
        answers: dict[int, list[Any] | KafkaFailure] = {
            node: self._failures[node] for node in failed_before - reconnected
        }
        sent: dict[int, list[Any]] = {}
        for node in sorted(requests.keys() - answers.keys(), key=self._is_held_back):
            self._wait_while_held_back(node, give_up)
            try:
                sent[node] = [
                    self._client._manager.send(request, node_id=node, request_timeout_ms=timeout_ms)
                    for request in requests[node]
                ]
            except Exception as e:
                answers[node] = self._failures[node] = self._request_failure(e, node)
        for node, futures in sent.items():
            for future in futures:
                self._wait_for(future, give_up)
            failed = next((f for f in futures if not f.succeeded()), None)
            if failed is None:
                answers[node] = [f.value for f in futures]
                self._failures.pop(node, None)
            else:
                answers[node] = self._failures[node] = self._request_failure(self._why(failed, timeout_ms), node)
        return answers

    def distrust(self, node: int, why: str) -> KafkaFailure:
        """Closes the connection to a broker whose answer cannot be decoded, and returns the failure. `ask_all` asks the
        broker again over a new connection."""
        self._client.close(node)
        self._failures[node] = failure = self._request_failure(kafka.errors.KafkaProtocolError(why), node)
        return failure

    def version_of(self, api_key: int) -> int:
        """Returns the highest version of an API that the bootstrap broker supports; -1 if the broker does not support
        the API. During an upgrade, brokers may differ."""
        versions = self._client._manager.broker_version_data.api_versions
        return int(versions[api_key][1]) if api_key in versions else -1

    def close(self) -> None:
        self._client.close()

    def _connected(self, nodes: Collection[int]) -> set[int]:
        """Returns the brokers of `nodes` that are connected. Starts to connect to the others, and waits for them for at
        most RECONNECT_MS. Skips a broker while the library still delays the next attempt after a failed one."""
        give_up = time.monotonic() + RECONNECT_MS / 1000
        while True:
            self._client.poll(timeout_ms=0)
            attempted = {node for node in nodes if self._has_connection(node)}
            found = {node for node in attempted if self._client.connected(node)}
            left_s = give_up - time.monotonic()
            if found == attempted or left_s <= 0:
                return found
            self._client.poll(timeout_ms=left_s * 1000)

    def _has_connection(self, node: int) -> bool:
        """Starts to connect to the broker if there is no connection. Returns whether the broker is connected or being
        connected."""
        try:
            self._client._manager.get_connection(node)
        except Exception as e:
            self._request_failure(e, node)
            return False
        return True

    def _wait_for(self, future: Any, give_up: float) -> None:
        """Waits for the future until `give_up` (monotonic clock). Reports progress every second, so that the watchdog
        does not mistake the waiting process for a stuck one."""
        while True:
            left_s = max(give_up - time.monotonic(), 0)
            self._client.poll(timeout_ms=min(left_s, STEP_EVERY_S) * 1000, future=future)
            waiting.step()
            if future.is_done or not left_s:
                return

    def _wait_while_held_back(self, node: int, give_up: float) -> None:
        """Waits until the library sends requests to the broker again, or until `give_up`. Reports progress as
        `_wait_for` does."""
        while self._is_held_back(node) and (left_s := give_up - time.monotonic()) > 0:
            self._client.poll(timeout_ms=min(left_s, STEP_EVERY_S) * 1000)
            waiting.step()

    def _is_held_back(self, node: int) -> bool:
        """Returns True while the library sends no requests to the broker: its quota demands a pause, or too many
        requests have no answer yet."""
        connection = self._client._manager._conns.get(node)
        return connection is not None and connection.connected and bool(connection.paused)

    def _request_failure(self, e: Exception, node: int) -> KafkaFailure:
        if isinstance(e, kafka.errors.UnknownBrokerIdError):
            self._client.cluster.request_update()  # the broker started after the last Metadata answer
        if isinstance(e, kafka.errors.NodeNotReadyError):  # the last attempt to connect failed
            e = self._client._manager.failures.get(node, e)
        broker = self._client.cluster.broker_metadata(node)
        return self._failure(e, f"broker {node}" if broker is None else f"broker {node} ({broker.host}:{broker.port})")

    @staticmethod
    def _why(future: Any, timeout_ms: int) -> Exception:
        """Returns the failure of a request: the library's, or a timeout if there was no answer."""
        found = future.exception or kafka.errors.KafkaTimeoutError(f"no answer within {timeout_ms} ms")
        assert isinstance(found, Exception)
        return found

    def __enter__(self) -> KafkaClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @staticmethod
    def _failure(e: Exception, peer: str, where: str = "") -> KafkaFailure:
        if isinstance(e, KafkaFailure):  # raised when a token or the credentials could not be read
            return e
        text = where + (_CLASS_NAMES.sub("", " ".join(str(e).split()))[:300] or type(e).__name__)
        if isinstance(e, kafka.errors.KafkaConfigurationError):
            return BadClientConfig(f"client properties: {text}")
        if isinstance(e, REFUSALS):
            return KafkaRefused(f"{peer} refuses: {text}", str(e.message))
        is_answer = isinstance(e, kafka.errors.KafkaProtocolError)
        return KafkaUnavailable(f"{peer} {'gives no valid answer' if is_answer else 'does not answer'}: {text}")


_CLASS_NAMES: Final = re.compile(r"^(?:\[Error \d+\] )?(?:\w+Error: )+")
"""Matches the error number and class names at the beginning of the library's error texts. Our messages leave them
out."""

CONNECT_TIMEOUT_MS: Final = 5_000
NEXT_SERVER_AFTER_MS: Final = 1_500
"""Time (ms) to wait for one of several servers before the next server is asked. If no tried server answers within this
time, all servers are tried again with a longer timeout."""
SERVERS_TRIED: Final = 3


def bootstrap_client(
    config: Mapping[str, Any], servers: Sequence[str], latest: Callable[[], Mapping[str, Any]]
) -> KafkaNetClient:
    """Returns a client that knows the brokers. `latest`: as for `connected_client`. Raises ServerFailure, or the
    library's error for a configuration that the library does not accept.

    One frozen broker must not use up the whole timeout. So, of several servers, a few are tried one after another with
    a short timeout, then all together with a longer one. A refusal ends the attempts.
    """
    if len(servers) > 1:
        for server in random.sample(servers, min(len(servers), SERVERS_TRIED)):
            try:
                return _connect({**config, "bootstrap_servers": [server]}, latest, NEXT_SERVER_AFTER_MS)
            except ServerFailure as e:
                if isinstance(e.cause, REFUSALS):
                    raise
    return _connect({**config, "bootstrap_servers": list(servers)}, latest, CONNECT_TIMEOUT_MS)


def _connect(config: Mapping[str, Any], latest: Callable[[], Mapping[str, Any]], timeout_ms: int) -> KafkaNetClient:
    waiting.step()
    client = connected_client(config, latest)
    try:
        client._manager.bootstrap(timeout_ms=timeout_ms)
    except BaseException:
        client.close()
        raise
    return client
