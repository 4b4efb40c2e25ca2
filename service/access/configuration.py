"""The table `[auth]`: the credentials that the service accepts, and the roles that they give.

[auth]
keys = true                                  # keys of `txnscope keys create`, kept in the store

[auth.basic.ann]
password = "scrypt:…"                        # from `txnscope keys hash`
roles = ["viewer", "operator@orders"]

[auth.oidc]
issuer = "https://login.example.org/realms/ops"
audience = "txnscope"
roles = {"kafka-oncall" = ["operator"]}      # the roles for each value of the claim
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, StrictBool

from service.access.credentials import Hashed
from service.access.hosts import is_loopback
from service.access.principal import Grant, grant_texts, parse_grants

_NAME: Final = re.compile(r"[^\x00-\x1f\x7f:]{1,100}")
"""Matches the name of a person. A name has no colon, because RFC 7617 ends the name at the first colon."""


def _person(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: it is empty, too long, or has a colon or a control character")
    return name


def _safe_url(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))):
        raise ValueError(f"{url!r} is no https address (http is for loopback only)")
    return url


def _one_of(kind: type[Any], read: Callable[[Any], Any]) -> PlainValidator:
    """Returns a validator that accepts a value of type `kind` unchanged, and converts any other value with `read`."""
    return PlainValidator(lambda value: value if isinstance(value, kind) else read(value))


Grants = Annotated[
    frozenset[Grant], _one_of(frozenset, parse_grants), PlainSerializer(grant_texts, return_type=list[str])
]
"""Roles as people write them: a list like `["viewer", "operator@orders"]`."""
Password = Annotated[
    Hashed,
    _one_of(Hashed, lambda text: Hashed.parse(str(text))),
    PlainSerializer(lambda password: password.text, return_type=str),
]
Text = Annotated[str, Field(min_length=1)]
SafeUrl = Annotated[Text, AfterValidator(_safe_url)]


class Table(BaseModel):
    """A table of the configuration. Unknown keys are errors; no error message of pydantic shows a value."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Person(Table):
    """Somebody who logs in with a password."""

    password: Password = Field(repr=False)
    roles: Grants = Field(examples=['["viewer", "operator@orders"]'])


class Oidc(Table):
    """An issuer of tokens. `jwks_url`: the address of the issuer's keys; if None, the address in the issuer's discovery
    document. `roles`: a mapping from a value of the claim that `roles_claim` names to roles. `ca`: a file with the CA
    certificates that are trusted for the issuer; if None, those of the system."""

    issuer: SafeUrl
    audience: Text
    roles: dict[str, Grants] = Field(min_length=1, examples=['{"kafka-oncall" = ["operator"]}'])
    jwks_url: SafeUrl | None = None
    roles_claim: Text = "groups"
    name_claim: Text = "sub"
    ca: Text | None = None


class AuthConfig(Table):
    """The table `[auth]`. `keys`: True if the keys of the store are accepted. `basic`: a mapping from a person's name
    to the password and roles."""

    keys: StrictBool = False
    basic: dict[Annotated[str, AfterValidator(_person)], Person] = {}
    oidc: Oidc | None = None

    @property
    def is_on(self) -> bool:
        """True if requests need credentials."""
        return self.keys or bool(self.basic) or self.oidc is not None
