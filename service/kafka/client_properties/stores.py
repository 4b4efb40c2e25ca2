"""Reads key stores and trust stores: PEM as text or file (KIP-651), and PKCS12. The error for JKS names the command
that converts the store.

Java loads a PKCS12 store even if its type is given as JKS (`keystore.type.compat`), and so do these functions.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

TRUSTED: Final = "ssl.truststore.certificates"
CHAIN: Final = "ssl.keystore.certificate.chain"
KEY: Final = "ssl.keystore.key"
KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105  # the name of a key
TEXTS: Final = (TRUSTED, CHAIN, KEY)

TRUST_STORE: Final = "ssl.truststore"
KEY_STORE: Final = "ssl.keystore"
FILES: Final = (f"{TRUST_STORE}.location", f"{KEY_STORE}.location")
ATTRIBUTES: Final = ("location", "type", "password")
TYPES: Final = ("PEM", "PKCS12", "JKS")

_JAVA_ONLY: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
"""The first bytes of the formats that only Java reads."""


def with_texts(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns client properties with certificates and keys as text in place of the stores. Raises ValueError naming the
    key and the file."""
    of_stores = {f"{store}.{name}" for store in (TRUST_STORE, KEY_STORE) for name in ATTRIBUTES}
    return {
        **{key: value for key, value in properties.items() if key not in of_stores},
        **_trust_store(properties),
        **_key_store(properties),
    }


def _trust_store(properties: Mapping[str, str]) -> dict[str, str]:
    raw = _raw(properties, TRUST_STORE, TRUSTED)
    if raw is None:
        return {}
    if _is_pem(raw):
        return {TRUSTED: raw.decode("utf-8", errors="replace")}
    store = _pkcs12(raw, properties, TRUST_STORE, f"{TRUST_STORE}.password")
    if store.key is not None:  # only Java reads the attribute that marks trusted certificates
        raise ValueError(
            f"{TRUST_STORE}.location: {properties[f'{TRUST_STORE}.location']} has a private key: give a store with"
            " only the trusted certificates"
        )
    return {TRUSTED: _pem_of(certificate.certificate for certificate in store.additional_certs)}


def _key_store(properties: Mapping[str, str]) -> dict[str, str]:
    raw = _raw(properties, KEY_STORE, CHAIN)
    if raw is None:
        return {}
    if _is_pem(raw):  # Java's PEM key store holds certificate and key in one file
        return {CHAIN: raw.decode("utf-8", errors="replace")}
    password_key = KEY_PASSWORD if properties.get(KEY_PASSWORD) else f"{KEY_STORE}.password"
    store = _pkcs12(raw, properties, KEY_STORE, password_key)
    if store.key is None or store.cert is None:
        raise ValueError(f"{KEY_STORE}.location: {properties[f'{KEY_STORE}.location']} has no private key")
    chain = _pem_of(_chain(store.cert.certificate, [certificate.certificate for certificate in store.additional_certs]))
    return {CHAIN: chain, **_key(store, properties.get(password_key))}


def _key(store: PKCS12KeyAndCertificates, password: str | None) -> dict[str, str]:
    """Returns the properties for the store's private key: its text, encrypted with `password`, and that password.
    Without a password the text is not encrypted."""
    from cryptography.hazmat.primitives import serialization

    locked: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        locked = serialization.BestAvailableEncryption(password.encode())
    assert store.key is not None
    text = store.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    return {KEY: text.decode(), KEY_PASSWORD: password or ""}


def _raw(properties: Mapping[str, str], store: str, of_text: str) -> bytes | None:
    """Returns the bytes of a store; None if the properties name no such store. Raises ValueError if the store cannot be
    read, has another format than its type says, or may not be combined with another key of the properties."""
    location, given = properties.get(f"{store}.location"), properties.get(f"{store}.type", "").upper()
    if not location:
        return None
    if of_text in properties:
        raise ValueError(f"{store}.location and {of_text} exclude each other: give only one of them")
    try:
        raw = Path(location).read_bytes()
    except OSError as e:
        raise ValueError(f"{store}.location: {location}: {e.strerror}") from e
    if (only := _JAVA_ONLY.get(raw[:4])) is not None and given != "PEM":
        raise ValueError(
            f"{store}.location: {location} is {only}, which only Java reads; {_conversion(location, only)}"
        )
    if given and _is_pem(raw) != (given == "PEM"):
        raise ValueError(f"{store}.type={given}, but {location} is {'PEM' if _is_pem(raw) else 'not PEM'}")
    if _is_pem(raw) and properties.get(f"{store}.password"):
        raise ValueError(f"{store}.password cannot be given for PEM: the password of a private key is {KEY_PASSWORD}")
    return raw


def _conversion(location: str, store_type: str) -> str:
    """Returns advice for a store in a format that only Java reads: the command that converts the store to PKCS12."""
    new = shlex.quote(str(Path(location).with_suffix(".p12")))
    return (
        f"to convert it, run: keytool -importkeystore -srckeystore {shlex.quote(location)} -srcstoretype {store_type}"
        f" -destkeystore {new} -deststoretype PKCS12"
    )


def _is_pem(raw: bytes) -> bool:
    return b"-----BEGIN" in raw


def _pkcs12(raw: bytes, properties: Mapping[str, str], store: str, password_key: str) -> PKCS12KeyAndCertificates:
    """Opens the store with the password under `password_key`. If the store cannot be opened, raises ValueError with the
    name of this key."""
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    password = properties.get(password_key)
    try:
        return load_pkcs12(raw, password.encode() if password else None)
    except ValueError as e:
        wrong = f"neither PEM nor PKCS12, or {password_key} is wrong" if password else f"{password_key} is missing"
        raise ValueError(f"{store}.location: {properties[f'{store}.location']}: {wrong}") from e


def _chain(own: Certificate, others: list[Certificate]) -> Iterator[Certificate]:
    """Yields `own`, its issuer, the issuer of that certificate, and so on, as far as `others` contains the issuers."""
    known, current = list(others), own
    while True:
        yield current
        issuer = next(
            (certificate for certificate in known if certificate.subject == current.issuer and certificate != current),
            None,
        )
        if issuer is None:
            return
        known.remove(issuer)
        current = issuer


def _pem_of(certificates: Iterator[Certificate]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)
