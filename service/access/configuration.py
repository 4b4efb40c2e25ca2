"""`[auth]`: which credentials the service accepts, and what those who have them may do.

[auth]
keys = true                                  # keys of `txnscope keys create`, kept in the store

[auth.basic.ann]
password = "scrypt:…"                        # from `txnscope keys hash`
roles = ["viewer", "operator@orders"]

[auth.oidc]
issuer = "https://login.example.org/realms/ops"
audience = "txnscope"
roles = {"kafka-oncall" = ["operator"]}      # by the values of the claim
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from service.access.hosts import is_loopback
from service.access.passwords import Hashed
from service.access.principal import Grant, grant_texts, parse_grants

_NAME: Final = re.compile(r"[^\x00-\x1f\x7f:]{1,100}")
"""A name of a person: RFC 7617 ends it at the first colon."""

_OIDC_TEXTS: Final = ("issuer", "audience", "jwks_url", "roles_claim", "name_claim", "ca")


class Person(NamedTuple):
    """Somebody who logs in with a password."""

    name: str
    password: Hashed
    grants: frozenset[Grant]


class Oidc(NamedTuple):
    """An issuer of tokens. `jwks_url` None: found at the issuer. `roles`: grants by value of the claim `roles_claim`.
    `ca`: file with the certificates that the issuer's is checked against; None: those of the system."""

    issuer: str
    audience: str
    roles: Mapping[str, frozenset[Grant]]
    jwks_url: str | None = None
    roles_claim: str = "groups"
    name_claim: str = "sub"
    ca: str | None = None


class AuthConfig(NamedTuple):
    """The table `[auth]`. `keys`: the keys of the store are accepted."""

    keys: bool = False
    basic: tuple[Person, ...] = ()
    oidc: Oidc | None = None

    @property
    def is_on(self) -> bool:
        """Whether a request needs credentials."""
        return self.keys or bool(self.basic) or self.oidc is not None

    def dump(self) -> str:
        """Returns the table as JSON, for `parse`; empty if nothing is on."""
        if not self.is_on:
            return ""
        table: dict[str, Any] = {"keys": self.keys}
        table["basic"] = {
            one.name: {"password": one.password.text, "roles": grant_texts(one.grants)} for one in self.basic
        }
        if self.oidc is not None:
            given = {key: value for key, value in self.oidc._asdict().items() if value is not None}
            roles = {value: grant_texts(grants) for value, grants in self.oidc.roles.items()}
            table["oidc"] = given | {"roles": roles}
        return json.dumps(table)


def parse(table: Any) -> AuthConfig:
    """Reads the table. ValueError with one line that names the key, and contains no password."""
    _check_keys("", table, ("keys", "basic", "oidc"))
    keys = table.get("keys", False)
    if not isinstance(keys, bool):
        raise ValueError("keys: neither true nor false")
    basic = table.get("basic", {})
    if not isinstance(basic, Mapping):
        raise ValueError("basic: not a table of people: write [auth.basic.NAME]")
    oidc = table.get("oidc")
    return AuthConfig(
        keys,
        tuple(_person(name, one) for name, one in basic.items()),
        None if oidc is None else _oidc(oidc),
    )


def _person(name: str, table: Any) -> Person:
    where = f"basic.{name}"
    _check_keys(f"{where}: ", table, ("password", "roles"))
    if not _NAME.fullmatch(name):
        raise ValueError(f"basic: {name!r} is no name: it is empty, too long, or has a colon or a control character")
    try:
        return Person(name, Hashed.parse(str(table.get("password", ""))), parse_grants(table.get("roles")))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _oidc(table: Any) -> Oidc:
    _check_keys("oidc: ", table, (*_OIDC_TEXTS, "roles"))
    texts = {name: table[name] for name in _OIDC_TEXTS if name in table}
    for name in ("issuer", "audience"):
        if name not in texts:
            raise ValueError(f"oidc: {name} is missing")
    for name, text in texts.items():
        if not isinstance(text, str) or not text:
            raise ValueError(f"oidc: {name}: not a text")
    for name in ("issuer", "jwks_url"):
        if name in texts and not _is_safe(texts[name]):
            raise ValueError(f"oidc: {name}: {texts[name]!r} is no https address (http is for loopback only)")
    roles = table.get("roles")
    if not isinstance(roles, Mapping) or not roles:
        raise ValueError('oidc: roles: not a table like {"kafka-oncall" = ["operator"]}')
    try:
        return Oidc(roles={value: parse_grants(grants) for value, grants in roles.items()}, **texts)
    except ValueError as error:
        raise ValueError(f"oidc: {error}") from None


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    )


def _check_keys(where: str, table: Any, known: tuple[str, ...]) -> None:
    if not isinstance(table, Mapping):
        raise ValueError(f"{where}not a table")
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ValueError(f"{where}unknown key {key!r}{hint}")
