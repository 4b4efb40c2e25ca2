"""`txnscope serve`: runs the service in one process. Until the service can read the store, it answers 503 to requests
that need the store."""

from __future__ import annotations

import errno
import logging
import signal
import socket
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from service.access.hosts import AllowedHosts
from service.cli.errors import FINE, UNREACHABLE, CommandFailed, store_failures
from service.cli.exposure import check_exposure, check_mcp, tls_of
from service.cli.kafka import canary_plans, remediation_clients, service_clients
from service.cli.version import version
from service.processes import lifeline
from service.server import running
from service.server.running import LogLimit
from service.settings import Settings
from service.store.engine import open_reader
from service.store.errors import StoreError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from service.api.http.state import Store
    from service.canary.canary import Canary
    from service.otlp.exporter import Exporter

_LOOK_EVERY_S: Final = 1.0
"""Interval (s) at which a service that could not read its store at the start tries again."""

_LAST_ROUND_S: Final = 8.0
"""Longest time (s) for which a stopping service waits until the canaries have finished their last rounds and deleted
their records."""

_LAST_MESSAGE_S: Final = 1.0
"""Longest time (s) for which a stopping service waits for a delivery to a receiver, or for a request of the OTLP
export. A delivery, or a request with traces, that takes longer is repeated after the next start."""


def listen(host: str, port: int) -> socket.socket:
    """Returns a bound TCP socket. Raises CommandFailed: code 3 if the port is taken; 2 if the address cannot be
    used."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise CommandFailed(f"--host {host}: no such address") from None
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # Linux lets two sockets bind with SO_REUSEADDR; only listen() fails if the port is taken
        bound.listen(2048)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise CommandFailed(f"port {port} is in use: choose another with --port", UNREACHABLE) from None
        if error.errno == errno.EACCES:
            raise CommandFailed(f"port {port}: no permission to listen (ports below 1024 are reserved)") from None
        raise CommandFailed(f"--host {host}: {error.strerror}") from None
    return bound


@contextmanager
def _running(canaries: Sequence[Canary]) -> Iterator[None]:
    """Runs the canaries, all at the same time, until the block ends."""
    for canary in canaries:
        canary.start()
    try:
        yield
    finally:
        for canary in canaries:
            canary.stop()
        give_up_s = time.monotonic() + _LAST_ROUND_S
        for canary in canaries:
            canary.join(max(give_up_s - time.monotonic(), 0.0))


def _report_readiness(store: Store) -> None:
    """Tries once to read the store. If the store cannot be read, prints the reason, and starts a thread that prints a
    line when the store can be read."""
    try:
        store.check()
    except StoreError as error:
        print(f"not ready: {error}", file=sys.stderr)
        threading.Thread(target=_wait_for, args=(store,), name="readiness", daemon=True).start()


def _wait_for(store: Store) -> None:
    while True:
        with suppress(StoreError):
            store.check()
            print("ready: the store can be read", file=sys.stderr)
            return
        time.sleep(_LOOK_EVERY_S)


def _exporter(app: FastAPI, settings: Settings) -> Exporter | None:
    """Returns the exporter that the table `[otlp]` configures; None without that table. Raises CommandFailed if the
    exporter's libraries are not installed."""
    from service.app import create_exporter

    if settings.otlp is None:
        return None
    public = settings.url if "url" in settings.model_fields_set else None
    try:
        return create_exporter(app, settings.otlp, f"{socket.gethostname()}:{settings.port}", public)
    except ModuleNotFoundError as error:
        raise CommandFailed(
            f"[otlp] needs the package {error.name}; to install it, run: pip install 'txnscope[otlp]'"
        ) from None


def run(_flags: Namespace, settings: Settings) -> int:
    """Serves until SIGTERM or SIGINT, and returns 0; returns 3 if the server does not start or ends by itself. Raises
    CommandFailed for brokers, a store, certificates, an address or a port that cannot be used."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(FINE))
    beat = lifeline.hold()
    kafka, remediation = service_clients(settings), remediation_clients(settings)
    plans = canary_plans(settings)
    with store_failures():
        open_reader(settings.store).dispose()
    check_exposure(settings)
    check_mcp(settings)
    tls = tls_of(settings)
    listening = listen(settings.host, settings.port)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(LogLimit())

    # imported here, because the web framework takes a second to load and a bad flag should not wait for it
    from service.api.http.access import AccessConfig
    from service.app import create_app, create_canaries, create_notifier
    from service.server.running import Server

    access = AccessConfig(settings.auth, AllowedHosts(settings.host, settings.allowed_hosts))
    mcp = None
    if settings.mcp:
        from service.mcp.http import McpEndpoint

        mcp = McpEndpoint(version())
    app = create_app(
        settings.store,
        version(),
        kafka.other,
        settings.operators,
        beat=beat,
        access=access,
        clusters=kafka.by_name,
        remediation=remediation,
        mcp=mcp,
    )
    _report_readiness(app.state.txnscope.watched_store)
    # the audit records the peer's own address: a header could contain any address
    server = Server(
        app,
        app.state.txnscope.event_feed.close,
        proxy_headers=False,
        **({} if tls is None else {"ssl_context_factory": lambda *_: tls.context}),
    )

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn raises again the signal that ended the server, for the handler that was installed before
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{'http' if tls is None else 'https'}://{host}:{settings.port}"
    base = settings.url if "url" in settings.model_fields_set else address
    notifier = create_notifier(settings.store, settings.notify, base) if settings.notify else None
    canaries = create_canaries(settings.store, plans)
    exporter = _exporter(app, settings)
    running.prepare()
    print(f"serving {address}", file=sys.stderr)
    sending = [one for one in (notifier, exporter) if one is not None]
    for one in sending:
        one.start()
    with _running(canaries):
        server.run(sockets=[listening])
    for one in sending:
        one.stop(_LAST_MESSAGE_S)
    return FINE if server.should_exit and server.started else UNREACHABLE
