"""Certificates and keys as text, as client.properties may have them (KIP-651); no files are needed to use them."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TRUSTED: Final = "ssl.truststore.certificates"
CHAIN: Final = "ssl.keystore.certificate.chain"
KEY: Final = "ssl.keystore.key"
TEXTS: Final = (TRUSTED, CHAIN, KEY)

# Java's PEM key store holds certificate and key in one file
_TEXT_FOR_FILE: Final = {"ssl.truststore.location": TRUSTED, "ssl.keystore.location": CHAIN}
FILES: Final = tuple(_TEXT_FOR_FILE)


def with_texts(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns client properties with the contents of PEM files in place of their names. Raises OSError."""
    return {
        _TEXT_FOR_FILE.get(key, key): Path(value).read_text("utf-8") if key in _TEXT_FOR_FILE else value
        for key, value in properties.items()
    }


def context(texts: Mapping[str, str], password: str | None, *, checks_host: bool) -> ssl.SSLContext:
    """Returns a context for clients. `texts`: by the keys in TEXTS, as far as they are set. `password`: of the key.
    Raises ssl.SSLError for a text that is no PEM, or that the password does not fit."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.check_hostname = checks_host
    if TRUSTED in texts:
        made.load_verify_locations(cadata=texts[TRUSTED])
    else:
        made.load_default_certs()
    if CHAIN in texts:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as own:  # OpenSSL reads these from files only
            own.write(f"{texts[CHAIN]}\n{texts.get(KEY, '')}\n")
            own.flush()
            made.load_cert_chain(own.name, password=password)
    return made
