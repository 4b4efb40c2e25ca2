"""Checks that a service which others can reach asks who they are, and cannot be overheard."""

from __future__ import annotations

import socket

from service.access.hosts import is_loopback
from service.cli.errors import CommandFailed
from service.server.tls import ReloadingTls, TlsError, TlsFiles
from service.settings import Settings

_HOW = "docs/security.md says how; --insecure serves it all the same"


def check_exposure(settings: Settings) -> None:
    """CommandFailed if the address to serve on is not of this machine alone, and authentication or TLS is missing."""
    if settings.insecure or _is_local(settings.host):
        return
    if not settings.auth.is_on and settings.tls_client_ca is None:
        raise CommandFailed(
            f"--host {settings.host}: everybody who reaches this address could read everything: configure [auth], or"
            f" --tls-client-ca ({_HOW})"
        )
    if settings.tls_cert is None:
        raise CommandFailed(
            f"--host {settings.host}: keys and passwords could be read on their way: give --tls-cert and --tls-key"
            f" ({_HOW})"
        )


def tls_of(settings: Settings) -> ReloadingTls | None:
    """Returns the TLS of the settings; None if there is none. CommandFailed for files that cannot be used."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    try:
        return ReloadingTls(TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_client_ca))
    except TlsError as error:
        raise CommandFailed(f"--tls-cert: {error}") from None


def _is_local(host: str) -> bool:
    """Returns whether only this machine reaches the host; also for one that does not exist, which cannot be bound."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return True
    return all(is_loopback(str(address[0]).partition("%")[0]) for *_, address in found)
