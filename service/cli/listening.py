"""The socket to serve on, bound before anything else starts: a taken port is one line and not a crash loop."""

from __future__ import annotations

import errno
import socket

from service.cli.errors import UNREACHABLE, CommandFailed


def listen(host: str, port: int) -> socket.socket:
    """A bound TCP socket. CommandFailed: 3 if the port is taken, 2 if the address is not ours to use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise CommandFailed(f"--host {host}: no such address") from None
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # Linux lets two sockets bind with SO_REUSEADDR; only listening tells that the port is taken
        bound.listen(2048)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise CommandFailed(f"port {port} is in use: choose another with --port", UNREACHABLE) from None
        if error.errno == errno.EACCES:
            raise CommandFailed(f"port {port}: no permission, ports below 1024 are the system's") from None
        raise CommandFailed(f"--host {host}: {error.strerror}") from None
    return bound
