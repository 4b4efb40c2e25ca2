"""Checks that a service which other machines can reach has authentication and TLS, and that a service with `--mcp` has
the extra `mcp`. Warns about files with secrets that others on this machine can read.

A readable file is a warning, never an error: containers get their secrets as files of root with the mode 0440 or 0644,
which nobody in the container can change.
"""

from __future__ import annotations

import os
import shlex
import socket
import stat
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from service.access.hosts import is_loopback
from service.cli.errors import CommandFailed
from service.server.tls import ReloadingTls, TlsError, TlsFiles
from service.settings import Settings

MCP_IS_MISSING: Final = "the package mcp is missing: install txnscope with its extra, `pip install 'txnscope[mcp]'`"
_HOW = "docs/security.md shows how; --insecure turns this check off"


def check_exposure(settings: Settings) -> None:
    """Raises CommandFailed if other machines can reach the address to serve on, but TLS is off, or neither `[auth]` nor
    `--tls-client-ca` is given. With `--insecure`, checks nothing."""
    if settings.insecure or _is_local(settings.host):
        return
    if not settings.auth.is_on and settings.tls_client_ca is None:
        raise CommandFailed(
            f"--host {settings.host}: anyone who reaches this address could read everything; configure [auth], or"
            f" --tls-client-ca ({_HOW})"
        )
    if settings.tls_cert is None:
        raise CommandFailed(
            f"--host {settings.host}: keys and passwords would be sent unencrypted; give --tls-cert and --tls-key"
            f" ({_HOW})"
        )


def check_mcp(settings: Settings) -> None:
    """Raises CommandFailed if `--mcp` is set and the extra `mcp` is not installed."""
    if settings.mcp and find_spec("mcp") is None:
        raise CommandFailed(f"--mcp: {MCP_IS_MISSING}")


def tls_of(settings: Settings) -> ReloadingTls | None:
    """Returns the TLS context for the service, from the settings --tls-cert, --tls-key and --tls-client-ca. Returns
    None without certificate or key. Raises CommandFailed for files that cannot be used."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    try:
        return ReloadingTls(TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_client_ca))
    except TlsError as error:
        raise CommandFailed(f"--tls-cert: {error}") from None


def _is_local(host: str) -> bool:
    """Returns True if only this machine can reach the host. Also returns True for an unknown host, because no service
    can listen there."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return True
    return all(is_loopback(str(address[0]).partition("%")[0]) for *_, address in found)


_PRIVATE_KEY: Final = b"PRIVATE KEY-----"
_MOST_BYTES: Final = 1 << 20


def warnings(settings: Settings, used: tuple[str, ...], config: str | None) -> Iterator[str]:
    """Yields a line for each file with secrets that others can read. `used`: the settings that the command takes;
    `config`: the file of --config."""
    for file in dict.fromkeys(_secret_files(settings, used, config)):
        if (who := _readers(file)) is not None:
            command = f"chmod 600 {shlex.quote(str(file))}"
            yield f"{file}: {who} can read this file with a secret; to protect it, run: {command}"


def _secret_files(settings: Settings, used: tuple[str, ...], config: str | None) -> Iterator[Path]:
    if "kafka_config" in used:
        if config is not None and _has_secret(Path(config)):
            yield Path(config)
        files = [settings.kafka_config, settings.remediation_config]
        for cluster in settings.clusters:
            files += [cluster.kafka_config, cluster.remediation_config]
        files += [table.kafka_config for table in settings.notify]
        for file in files:
            yield from _of_kafka(file)
        for receiver in settings.notify:
            yield from filter(None, (receiver.url_file, receiver.secret_file, receiver.bearer_file))
        if settings.otlp is not None:
            yield from filter(None, (settings.otlp.bearer_file, settings.otlp.headers_file))
    for name in ("tls_key", "client_cert", "key_file", "operator_key_file"):
        if name in used and (file := getattr(settings, name)) is not None:
            yield file


def _of_kafka(file: Path | None) -> Iterator[Path]:
    """Yields the files with secrets of a client.properties, `file`. First comes `file` itself, if it has a secret. Then
    come the files that its config providers read, except certificates, and last the PEM files with private keys that
    its settings name. Yields nothing if `file` cannot be used."""
    if file is None:
        return
    # imported here, because commands that need no broker should not wait for the library
    from service.kafka.errors import BadClientConfig
    from service.kafka.settings import ClientSettings

    try:
        client = ClientSettings((), file=file).latest()
        read, named = client.provider_files, client.pem_files
    except BadClientConfig:  # the command reports it
        return
    if client.has_secret:
        yield file
    yield from (path for path in read if not _is_public(_beginning(path)))
    yield from (path for path in named if _PRIVATE_KEY in _beginning(path))


def _has_secret(config: Path) -> bool:
    """Returns True if the TOML file has keys, passwords or hashes of passwords, settings of Spark (which may be
    secrets), or addresses that contain tokens."""
    table: dict[str, Any] = tomllib.loads(config.read_text("utf-8"))
    auth = table.get("auth") or {}
    named = "operators" in table or "spark_conf" in table or "basic" in auth
    store = str(table.get("store", ""))
    addresses = [str(one["url"]) for one in table.get("notify", ()) if "url" in one]
    return (
        named
        or "password=" in store
        or ":" in store.rpartition("@")[0].partition("//")[2]
        or not all(url.startswith(("http://", "https://", "kafka://")) and "@" not in url for url in addresses)
    )


def _readers(file: Path) -> str | None:
    """Returns the other users who can read the file, in words. Returns None if only its owner can, if it is no regular
    file, or if it does not exist.

    The file's group counts only if this process owns the file: otherwise the process itself reads the file as a member
    of that group.
    """
    try:
        found = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    if found.st_mode & stat.S_IROTH:
        return "everybody on this machine"
    return "its group" if found.st_mode & stat.S_IRGRP and found.st_uid == os.geteuid() else None


def _is_public(beginning: bytes) -> bool:
    """Returns True for certificates without a private key."""
    return beginning.startswith(b"-----BEGIN CERTIFICATE") and _PRIVATE_KEY not in beginning


def _beginning(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_BYTES)
    except OSError:
        return b""
