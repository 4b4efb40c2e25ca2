"""Makes the TLS context of connections: trusted certificates, own certificate, and allowed protocols and ciphers."""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Iterable, Mapping
from typing import Final

from service.kafka.client_properties.stores import (
    CHAIN,
    KEY,
    KEY_PASSWORD,
    KEY_STORE,
    TRUST_STORE,
    TRUSTED,
    with_texts,
)

HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
ENABLED: Final = "ssl.enabled.protocols"
NEWEST: Final = "ssl.protocol"
CIPHERS: Final = "ssl.cipher.suites"

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SUITE: Final = re.compile(r"TLS_(RSA|ECDHE_RSA|ECDHE_ECDSA|DHE_RSA|DHE_DSS)_WITH_(AES_\d+|CHACHA20)_(\w+)_(SHA\d*)")
_SUITE_1_3: Final = re.compile(r"TLS_(AES|CHACHA20)_\w+")


def context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Returns a context for clients; reads stores and certificates again at each call. Raises ValueError with a text
    that names the wrong key, and its file."""
    texts = with_texts(properties)
    if KEY in texts and CHAIN not in texts:
        raise ValueError(f"{KEY} needs {CHAIN}")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = bool(properties.get(HOST_CHECK, "https"))
    _narrow(made, properties)
    try:
        if TRUSTED in texts:
            made.load_verify_locations(cadata=texts[TRUSTED])
        else:
            made.load_default_certs()
    except (ssl.SSLError, ValueError) as e:
        raise ValueError(f"{_origin(properties, TRUST_STORE, TRUSTED)}: {e.args[-1]}") from e
    try:
        if CHAIN in texts:
            _load_own(made, texts)
    except (ssl.SSLError, ValueError) as e:
        raise ValueError(f"{_origin(properties, KEY_STORE, CHAIN)}: {e.args[-1]}") from e
    return made


def _load_own(made: ssl.SSLContext, texts: Mapping[str, str]) -> None:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as own:  # OpenSSL reads these from files only
        own.write(f"{texts[CHAIN]}\n{texts.get(KEY, '')}\n")
        own.flush()
        # without a password OpenSSL would ask for one at the terminal
        made.load_cert_chain(own.name, password=texts.get(KEY_PASSWORD, ""))


def _origin(properties: Mapping[str, str], store: str, of_text: str) -> str:
    location = properties.get(f"{store}.location")
    return f"{store}.location: {location}" if location else of_text


def _narrow(made: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """Restricts the context to the allowed protocols and cipher suites. Python cannot choose among the suites of
    TLSv1.3: either all these suites are allowed, or TLSv1.3 is not allowed. Raises ValueError if no protocol is
    left."""
    suites = _words(properties.get(CIPHERS, ""))
    older = [name for suite in suites if (name := _openssl_name(suite)) is not None and _is_known(name)]
    allowed = set(_words(properties.get(ENABLED, "")) or VERSIONS) & VERSIONS.keys()
    if properties.get(NEWEST) == "TLSv1.2":
        allowed.discard("TLSv1.3")
    if suites and not older:
        allowed.discard("TLSv1.2")
    if suites and not any(_SUITE_1_3.fullmatch(suite) for suite in suites):
        allowed.discard("TLSv1.3")
    if not allowed:
        given = [f"{key}={properties[key]}" for key in (NEWEST, ENABLED, CIPHERS) if key in properties]
        raise ValueError(f"{', '.join(given)}: neither TLSv1.2 nor TLSv1.3 is left")
    versions = [VERSIONS[one] for one in allowed]
    made.minimum_version, made.maximum_version = min(versions), max(versions)
    if older:
        made.set_ciphers(":".join(older))


def _words(value: str) -> list[str]:
    return [word for part in value.split(",") if (word := part.strip())]


def _openssl_name(suite: str) -> str | None:
    """Returns OpenSSL's name of a suite of TLSv1.2, such as ECDHE-RSA-AES256-GCM-SHA384; None for a name that does not
    match _SUITE, such as a suite of TLSv1.3 or a suite with 3DES."""
    found = _SUITE.fullmatch(suite)
    if found is None:
        return None
    keys, cipher, mode, digest = found.groups()
    if cipher == "CHACHA20":
        parts: Iterable[str] = (keys, "CHACHA20", "POLY1305")
    else:
        parts = (keys, cipher.replace("_", ""), *([] if mode == "CBC" else [mode]), digest)
    return "-".join(part.replace("_", "-") for part in parts if part != "RSA")


def _is_known(cipher: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(cipher)
    except ssl.SSLError:
        return False
    return True
