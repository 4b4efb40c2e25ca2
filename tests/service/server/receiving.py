"""Reads what a server sends."""

from __future__ import annotations

import socket


def everything(client: socket.socket) -> bytes:
    """Returns what the server sends until it closes the connection; a reset ends it, too."""
    received = b""
    with client:
        try:
            while chunk := client.recv(65_536):
                received += chunk
        except ConnectionResetError:
            pass
    return received
