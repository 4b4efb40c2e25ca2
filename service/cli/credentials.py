"""What a command shows the service: a key, a certificate; and the authorities that it trusts."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

from service.cli.errors import CommandFailed
from service.settings import Settings


def key_of(settings: Settings) -> str | None:
    """Returns the key of --key-file; None without one. CommandFailed if it cannot be used; the message does not show
    the key."""
    return None if settings.key_file is None else read_key("--key-file", settings.key_file)


def operator_key_of(settings: Settings) -> str:
    """Returns the key of --key-file, or of the older --operator-key-file. CommandFailed as `key_of`, and without
    one."""
    if settings.operator_key_file is not None:
        return read_key("--operator-key-file", settings.operator_key_file)
    key = key_of(settings)
    if key is None:
        raise CommandFailed("--key-file is missing: give a file that contains only an operator's key")
    return key


def read_key(flag: str, file: Path) -> str:
    try:
        key = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not a text file"
        raise CommandFailed(f"{flag} {file}: {why}") from error
    if not re.fullmatch(r"[!-~]+", key):
        raise CommandFailed(f"{flag} {file}: the file has to contain one key, and nothing else")
    return key


def tls_context(settings: Settings) -> ssl.SSLContext:
    """Returns the context for https. CommandFailed for files that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=settings.ca)
    except OSError as error:  # also ssl.SSLError
        raise CommandFailed(f"--ca {settings.ca}: {_why(error)}") from None
    if settings.client_cert is not None:
        try:
            context.load_cert_chain(settings.client_cert)
        except OSError as error:
            raise CommandFailed(f"--client-cert {settings.client_cert}: {_why(error)}") from None
    return context


def _why(error: OSError) -> str:
    return "no certificates in PEM" if isinstance(error, ssl.SSLError) else error.strerror or str(error)
