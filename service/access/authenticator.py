"""Turns the header Authorization into a principal, or into the reason why there is none."""

from __future__ import annotations

import binascii
import hmac
import threading
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from service.access.configuration import AuthConfig
from service.access.credentials import Passwords, StoredKey, digest_of
from service.access.oidc import Tokens
from service.access.principal import Grant, Principal, Role
from service.access.refusals import BadCredentials

KEYS_READ_EVERY_S: Final = 2.0
"""Seconds after which the keys of the store are read again. A revoked key is refused within this time, as long as the
store answers."""

_NEW_KEY_AFTER_S: Final = 0.2
"""Minimum time (s) from a read of the keys until an unknown key causes another read. An unknown key may have been
created in the meantime."""

_BEARER, _BASIC = "bearer", "basic"


ReadKeys = Callable[[], Iterable[StoredKey]]
"""Reads the keys that are valid now. Raises the errors of the store."""


class _Given(NamedTuple):
    """The two parts of the header Authorization: the scheme in lower case, and the text after the scheme."""

    scheme: str
    text: str

    def __repr__(self) -> str:
        return f"_Given({self.scheme}, …)"

    @property
    def is_token(self) -> bool:
        """True for a bearer token in the form of a JWT. No key of `txnscope keys create` has this form."""
        return self.scheme == _BEARER and self.text.count(".") == 2


class Authenticator:
    """Checks credentials against all those that one service accepts. Safe to call from many threads.

    `operators`: a mapping from name to key, from the configuration. Each key gives the role operator in all clusters.
    """

    def __init__(self, config: AuthConfig, operators: Mapping[str, str], read_keys: ReadKeys) -> None:
        writes = frozenset({Grant(Role.OPERATOR)})
        self._operators = {digest_of(key): Principal(name, writes) for name, key in operators.items()}
        people = {name: (person.password, Principal(name, person.roles)) for name, person in config.basic.items()}
        self._passwords = Passwords(people)
        self._keys = _StoredKeys(read_keys) if config.keys else None
        self._tokens = None if config.oidc is None else Tokens(config.oidc)
        self.is_on = config.is_on

    @property
    def may_write(self) -> bool:
        """True if the service accepts credentials of at least one kind. Otherwise no request may change anything."""
        return self.is_on or bool(self._operators)

    @property
    def schemes(self) -> tuple[str, ...]:
        """The values of the header WWW-Authenticate of a 401. Browsers ask for a name and a password if Basic comes
        first."""
        basic = ('Basic realm="txnscope", charset="UTF-8"',) if self._passwords else ()
        return (*basic, 'Bearer realm="txnscope"')

    def known(self, header: str, now_s: float) -> Principal | None:
        """Returns the principal if the credentials were found valid a short time ago, are a key that the last read of
        the store returned (at most KEYS_READ_EVERY_S ago), or belong to an operator of the configuration. Else returns
        None: call `check`, which reads the store, hashes a password, or checks a token if necessary."""
        given = _given(header)
        if given.scheme == _BASIC:
            pair = _pair(given.text)
            return None if pair is None else self._passwords.known(*pair, now_s)
        if given.scheme != _BEARER:
            return None
        digest = digest_of(given.text)
        if (found := self._operator(digest)) is not None:
            return found
        if given.is_token and self._tokens is not None:
            return self._tokens.known(given.text, now_s)
        return None if self._keys is None else self._keys.known(digest, now_s)

    def check(self, header: str, now_s: float) -> Principal:
        """Returns the principal. May take 0.1 s, or as long as the store and the issuer of tokens take.

        Raises BadCredentials for unknown or wrong credentials, for a token that gives no role, and for a token whose
        issuer does not answer. Raises the store's errors if the keys of the store have never been read, and cannot be
        read now.
        """
        given = _given(header)
        if given.scheme == _BEARER and (found := self._operator(digest_of(given.text))) is not None:
            return found
        if given.scheme == _BASIC and self._passwords:
            pair = _pair(given.text)
            if pair is None:
                raise BadCredentials("the text after Basic is not a name and a password")
            person = self._passwords.check(*pair, now_s)
            if person is None:
                raise BadCredentials("wrong name or password")
            return person
        if given.scheme != _BEARER:
            raise BadCredentials("Authorization has a scheme that is not accepted here")
        if given.is_token and self._tokens is not None:
            return self._tokens.check(given.text, now_s)
        found = None if self._keys is None else self._keys.find(digest_of(given.text), now_s)
        if found is None:
            raise BadCredentials("the key is unknown or was revoked")
        return found

    def is_slow(self, header: str) -> bool:
        """Returns True if `check` is too expensive for an address that has sent many wrong credentials."""
        given = _given(header)
        return given.scheme == _BASIC or given.is_token

    def _operator(self, digest: str) -> Principal | None:
        # compared with all keys, so that the time taken reveals nothing
        found = [principal for known, principal in self._operators.items() if hmac.compare_digest(known, digest)]
        return found[0] if found else None


class _StoredKeys:
    """The keys of the store, read again when they are KEYS_READ_EVERY_S old. If the store does not answer, the keys of
    the last read stay valid, because the data that they protect are in the same store."""

    def __init__(self, read: ReadKeys) -> None:
        self._read = read
        self._reading = threading.Lock()
        self._known: dict[str, Principal] | None = None
        self._read_at_s = 0.0

    def known(self, digest: str, now_s: float) -> Principal | None:
        is_old = self._known is None or now_s >= self._read_at_s + KEYS_READ_EVERY_S
        return None if self._known is None or is_old else self._known.get(digest)

    def find(self, digest: str, now_s: float) -> Principal | None:
        with self._reading:
            is_known = self._known is not None and digest in self._known
            if self._known is None or now_s >= self._read_at_s + (KEYS_READ_EVERY_S if is_known else _NEW_KEY_AFTER_S):
                try:
                    keys = {
                        stored_key.digest: Principal(stored_key.name, stored_key.grants) for stored_key in self._read()
                    }
                except Exception:
                    if self._known is None:
                        raise
                    keys = self._known
                self._known, self._read_at_s = keys, now_s
            return self._known.get(digest)


def name_in(header: str) -> str:
    """Returns the name that the credentials claim, before anything is checked; empty if they claim none."""
    given = _given(header)
    pair = _pair(given.text) if given.scheme == _BASIC else None
    return "" if pair is None else pair[0]


def _given(header: str) -> _Given:
    scheme, _, text = header.partition(" ")
    return _Given(scheme.lower(), text.strip())


def _pair(text: str) -> tuple[str, str] | None:
    try:
        name, colon, password = b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if colon else None
