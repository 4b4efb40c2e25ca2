"""The library's connections with limits: on memory, on every wait, and on what a misbehaving server can cause.

The classes here correct only these faults of kafka-python 3.0.12. The library reads from a socket for as long as bytes
come, waits for a TLS handshake without a time limit, accepts a pause of any length from a broker, and drops the reason
of a failed connection. The library also logs in with the credentials that it got at its start, and does not escape
SCRAM names."""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import kafka.errors
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.scram import SaslMechanismScram
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from service.kafka.errors import BadClientConfig, KafkaFailure, KafkaUnavailable

READ_AT_ONCE: Final = 1 << 20
"""Number of bytes that are read from a socket before the bytes are parsed and timeouts are checked."""

LONGEST_PAUSE_S: Final = 15.0
"""Longest pause (s) that a broker may demand. The quota window of a broker is 11 s by default; the field of the answer
allows 24 days."""

REFUSALS: Final = (
    kafka.errors.AuthorizationError,
    kafka.errors.SaslAuthenticationFailedError,
    kafka.errors.UnsupportedVersionError,
    kafka.errors.UnsupportedSaslMechanismError,
    kafka.errors.IllegalSaslStateError,
)
"""The library's errors for a broker that refuses: an immediate retry would be refused, too."""

_CHUNK: Final = 1 << 16
_IDENTITY: Final = {
    key: value
    for key, value in KafkaConnectionManager.DEFAULT_CONFIG.items()
    if key.startswith(("security_", "sasl_", "ssl_"))
}
_FOREIGN: Final = {0x48545450: "an HTTP server", 0x15030100: "a TLS listener", 0x15030300: "a TLS listener"}


class ServerFailure(Exception):
    """The client could not connect and learn the brokers from a bootstrap server. `cause`: the failure that explains
    most; `server`: the HOST:PORT at which it occurred, "" if no server was asked."""

    def __init__(self, server: str, cause: Exception) -> None:
        super().__init__(server, cause)
        self.server, self.cause = server, cause


def connected_client(config: Mapping[str, Any], latest: Callable[[], Mapping[str, Any]]) -> KafkaNetClient:
    """Returns a client of the library that uses the connections of this module. The client is not connected yet.
    `latest` returns the configuration with the present credentials; each new connection calls `latest`."""
    net = NetworkSelector(**config)
    return KafkaNetClient(net=net, manager=Connections(net, latest, **config))


class Connections(KafkaConnectionManager):  # type: ignore[misc]  # the library has no types
    """The connections of one client, with this module's limits, and with credentials that are read anew for each
    connection."""

    def __init__(self, net: Any, latest: Callable[[], Mapping[str, Any]], **config: Any) -> None:
        super().__init__(net, **config)
        self._latest = latest
        self.failures: dict[Any, Exception] = {}
        """Maps a node to the failure of the last attempt to connect; a node is absent if its last attempt succeeded."""

    async def _do_bootstrap(self, deadline: float) -> bool:
        """Learns the brokers from the first server that answers. Raises ServerFailure at the deadline, or at once after
        a failure that a retry would repeat."""
        failure: ServerFailure | None = None
        while not self.closed and (left_s := deadline - time.monotonic()) > 0:
            server = random.choice(self.cluster.bootstrap_brokers())  # noqa: S311  # no secret
            if (pause_s := self.connection_delay(server.node_id)) > 0:
                await self._bootstrap_wakeup(min(pause_s, left_s))
                continue
            try:
                await self._learn_brokers(server.node_id, left_s * 1000)
                return True
            except (kafka.errors.KafkaTimeoutError, kafka.errors.RequestTimedOutError):
                late = kafka.errors.KafkaTimeoutError("no answer in time")
                failure = failure or ServerFailure(f"{server.host}:{server.port}", late)
            except Exception as e:
                is_lasting = _is_lasting(e)
                if failure is None or is_lasting or time.monotonic() < deadline:  # our own cut-off explains less
                    failure = ServerFailure(f"{server.host}:{server.port}", e)
                if is_lasting:
                    break
            self.update_backoff(server.node_id)
        raise failure or ServerFailure("", kafka.errors.KafkaTimeoutError("no time to ask"))

    async def _learn_brokers(self, server: str, timeout_ms: float) -> None:
        conn = self.get_connection(
            server,
            timeout_ms=timeout_ms,
            pop_on_close=False,
            refresh_metadata_on_err=False,
            reset_backoff_on_connect=False,
        )
        try:
            await self.wait_for(conn.init_future, timeout_ms)
            await self.wait_for(self.call_soon(self.cluster.refresh_metadata, server), timeout_ms)
        finally:
            self._conns.pop(server, conn).close()
        if not self.cluster.brokers():
            raise kafka.errors.KafkaError("it knows no brokers")
        self.reset_backoff(server)
        self.cluster.start_refresh_loop()

    async def _connect(
        self, node: Any, conn: KafkaConnection, reset_backoff_on_connect: bool = True, timeout_at: float | None = None
    ) -> None:
        before = self._backoff.get(node.node_id)
        try:
            fresh = _IDENTITY | {key: value for key, value in self._latest().items() if key in _IDENTITY}
        except BadClientConfig as e:
            conn.close(KafkaUnavailable(e.reason))
        else:
            self.config.update(fresh)
            conn.config.update({key: value for key, value in fresh.items() if key in conn.config})
            await super()._connect(node, conn, reset_backoff_on_connect, timeout_at)
        if not conn.init_future.failed():
            self.failures.pop(node.node_id, None)
            return
        self.failures[node.node_id] = failure = conn.init_future.exception
        if isinstance(failure, REFUSALS) and (provider := self.config["sasl_oauth_token_provider"]) is not None:
            provider.forget()
        self.reset_backoff(node.node_id)
        if before is not None:  # the library forgets earlier failures even if the login fails
            self._backoff[node.node_id] = before
        self.update_backoff(node.node_id)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> KafkaTCPTransport:
        sock = await create_connection(
            self._net,
            node.host,
            node.port,
            self.config["socket_options"],
            proxy_url=self.config["proxy_url"],
            timeout_at=timeout_at,
        )
        try:
            if not self.ssl_enabled:
                return PlainTransport(self._net, sock, host=node.host)
            options = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
            transport = TlsTransport(self._net, sock, host=node.host, **options)
        except Exception as e:
            sock.close()
            raise kafka.errors.KafkaConnectionError(f"TLS: {tls_text(e)}") from e
        try:
            await transport.shake_hands(timeout_at)
        except Exception as e:
            transport.close()
            raise kafka.errors.KafkaConnectionError(f"TLS: {tls_text(e)}") from e
        return transport


class PlainTransport(KafkaTCPTransport):  # type: ignore[misc]
    """A connection without TLS. It reads about READ_AT_ONCE bytes, hands them on, and lets other work run before it
    reads more. So a server that never stops sending can neither fill the memory nor delay timeouts."""

    async def _read_from_sock(self) -> None:
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            data, failure = self._sock_recv()
            if failure is not None:
                self.abort(failure)
                return
            self.last_read = time.monotonic()
            connection = self._protocol
            try:
                connection.data_received(data)
            except Exception as e:
                self.abort(_unreadable(e))
            _limit_pause(connection)

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received = bytearray()
        try:
            while len(received) < READ_AT_ONCE or self._decrypted():
                data = self._sock.recv(_CHUNK)
                if not data:
                    break
                received += data
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return bytes(received), None
        except OSError as e:
            return bytes(received), None if received else kafka.errors.KafkaConnectionError(tls_text(e))
        if received:
            return bytes(received), None  # the next read finds the end of the stream again
        return b"", kafka.errors.KafkaConnectionError("it closed the connection")

    def _decrypted(self) -> int:
        """Returns the number of decrypted bytes not read yet: the kernel does not report them as readable."""
        return 0


class TlsTransport(PlainTransport, KafkaSSLTransport):  # type: ignore[misc]
    """A connection with TLS. Each new connection reads certificates and keys from their files again."""

    def _decrypted(self) -> int:
        return int(self._sock.pending())

    async def shake_hands(self, timeout_at: float | None) -> None:
        """Completes the TLS handshake. Raises ssl.SSLError, OSError, or KafkaTimeoutError at `timeout_at`."""
        while True:
            try:
                self._sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at)


def _is_lasting(e: Exception) -> bool:
    """Returns True for a failure that an immediate retry would repeat: a refusal, an untrusted certificate, a token or
    credentials that could not be read."""
    return isinstance(e, (*REFUSALS, KafkaFailure)) or isinstance(e.__cause__, ssl.SSLCertVerificationError)


def _limit_pause(connection: KafkaConnection) -> None:
    """Shortens a pause that the broker demands (throttle time) to LONGEST_PAUSE_S."""
    until = time.monotonic() + LONGEST_PAUSE_S
    if connection._throttle_time > until:
        connection._throttle_time = until
        connection.net.call_at(until, connection._maybe_unthrottle)


def _unreadable(e: Exception) -> kafka.errors.KafkaProtocolError:
    """Returns the failure for bytes that are no answer. It is a new exception, because the traceback of `e` keeps the
    bytes in memory."""
    if isinstance(e, kafka.errors.InvalidReceiveError):
        size = int(str(e).rpartition(" ")[2])
        known = _FOREIGN.get(size)
        text = (
            f"it answers as {known}, not as a Kafka broker"
            if known
            else f"{size} is not a valid length of a Kafka frame"
        )
    elif isinstance(e, kafka.errors.KafkaError):
        text = str(e.args[0]) if e.args else "its answer cannot be decoded"
    else:
        text = f"its answer cannot be decoded ({type(e).__name__})"
    return kafka.errors.KafkaProtocolError(text)


class _Scram(SaslMechanismScram):  # type: ignore[misc]
    """SCRAM that escapes commas and equals signs in names (RFC 5802, 5.1). The library sends them as they are."""

    def __init__(self, **config: Any) -> None:
        name = config["sasl_plain_username"].replace("=", "=3D").replace(",", "=2C")
        super().__init__(**{**config, "sasl_plain_username": name})


for _mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
    register_sasl_mechanism(_mechanism, _Scram, overwrite=True)


def tls_text(e: BaseException) -> str:
    """Returns the text of a failure: for a refused certificate with the reason, for other errors without OpenSSL's file
    and line."""
    if isinstance(e, ssl.SSLCertVerificationError):
        return f"the certificate is refused: {e.verify_message}"
    if isinstance(e, ssl.SSLEOFError) or (isinstance(e, ConnectionResetError) and not isinstance(e, ssl.SSLError)):
        return "it closed the connection"
    if isinstance(e, ssl.SSLError) and e.reason:
        return e.reason.lower().replace("_", " ")
    if isinstance(e, TimeoutError | kafka.errors.KafkaTimeoutError):
        return "the handshake did not end in time"
    if isinstance(e, OSError) and e.strerror:
        return f"{e.filename}: {e.strerror}" if e.filename else e.strerror
    return str(e)
