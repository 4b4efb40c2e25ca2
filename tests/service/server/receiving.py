"""Reads the bytes that a server sends."""

from __future__ import annotations

import socket


def everything(client: socket.socket) -> bytes:
    """Returns the bytes that the server sends until it closes or resets the connection."""
    received = b""
    with client:
        try:
            while chunk := client.recv(65_536):
                received += chunk
        except ConnectionResetError:
            pass
    return received
