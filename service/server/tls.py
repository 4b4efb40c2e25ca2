"""TLS from certificate files that are read again when they change: a new certificate needs no restart."""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path
from typing import Final, NamedTuple

log = logging.getLogger(__name__)


class TlsFiles(NamedTuple):
    """The PEM files of a server. `cert`: its certificate chain. `client_ca`: authorities that must have signed the
    certificates of clients; None: clients need no certificate."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    def load(self) -> ssl.SSLContext:
        """Returns a context made from the files as they are now. Raises TlsError, with one line, if they cannot be
        used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        for file in (self.cert, self.key, *([self.client_ca] if self.client_ca else ())):
            try:
                file.read_bytes()
            except OSError as error:
                raise TlsError(f"{file}: {error.strerror}") from None
        try:
            context.load_cert_chain(self.cert, self.key, _no_password)
        except (ssl.SSLError, ValueError) as error:
            raise TlsError(
                f"{self.cert}, {self.key}: these files are not a PEM certificate and its key: {_line(error)}"
            ) from None
        if self.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self.client_ca)
            except ssl.SSLError as error:
                raise TlsError(f"{self.client_ca}: no certificates in PEM: {_line(error)}") from None
        return context

    def signature(self) -> tuple[tuple[int, int, int], ...] | None:
        """Returns inode, time and size of each file, to detect that one of them has changed; None while a file cannot
        be found."""
        try:
            found = [file.stat() for file in self if file is not None]
        except OSError:
            return None
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)


class TlsError(Exception):
    """The files cannot be used; the message is one line that names the wrong file, or the certificate and its key."""


class ReloadingTls:
    """The context of a listening server. Each handshake checks whether the files have changed, and loads changed files.
    If the new files do not fit together, for example in the middle of a change, the last good ones stay in use."""

    def __init__(self, files: TlsFiles) -> None:
        """Loads the files. Raises TlsError if they cannot be used."""
        self._files = files
        self._lock = threading.Lock()
        self._seen = files.signature()
        self._current = files.load()
        self.context: Final = files.load()
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._newest()

    def _newest(self) -> ssl.SSLContext:
        seen = self._files.signature()
        with self._lock:
            if seen != self._seen:
                self._seen = seen
                try:
                    self._current = self._files.load()
                    log.warning("the TLS files have changed: the new files are in use")
                except TlsError as error:
                    log.error(
                        "the TLS files have changed, but cannot be used; the previous settings stay in use: %s",
                        error,
                    )
            return self._current


def _no_password() -> str:
    """Raises ValueError. OpenSSL calls this function for an encrypted key, instead of asking for a password on the
    terminal."""
    raise ValueError("the key is encrypted: give one without a password, readable by this user only")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
