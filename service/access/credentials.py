"""Secrets by which people and programs prove who they are: passwords, stored as scrypt hashes, and API keys, stored as
SHA-256 digests.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from itertools import pairwise
from typing import Final, NamedTuple

from service.access.principal import Grant, Principal

KEPT_S: Final = 300.0
"""Seconds for which a valid name and password are not hashed again, because pages send them every 5 s, Prometheus every
15 s.
"""

_COST: Final = 15  # log2: 32 MB and some 60 ms a password
_BLOCK, _LANES = 8, 1
_LARGEST_COST: Final = 17
_FORM: Final = re.compile(r"scrypt:(\d{1,2}):([A-Za-z0-9+/]{22,44}={0,2}):([A-Za-z0-9+/]{43}=)")
_MOST_KEPT: Final = 10_000


class Hashed(NamedTuple):
    """A password as it is stored: its scrypt hash. `cost`: log2 of scrypt's N."""

    cost: int
    salt: bytes
    hash: bytes

    def __repr__(self) -> str:
        return "Hashed(…)"

    @classmethod
    def of(cls, password: str) -> Hashed:
        salt = secrets.token_bytes(16)
        return cls(_COST, salt, _scrypt(password, salt, _COST))

    @classmethod
    def parse(cls, text: str) -> Hashed:
        """Reads a text made by `Hashed.text`. Raises ValueError for any other text; the error does not contain it."""
        found = _FORM.fullmatch(text)
        if found is None or not 10 <= int(found[1]) <= _LARGEST_COST:
            raise ValueError("not a hash: make one with `txnscope keys hash`, which asks for the password")
        return cls(int(found[1]), b64decode(found[2]), b64decode(found[3]))

    @property
    def text(self) -> str:
        return f"scrypt:{self.cost}:{b64encode(self.salt).decode()}:{b64encode(self.hash).decode()}"

    def fits(self, password: str) -> bool:
        return hmac.compare_digest(_scrypt(password, self.salt, self.cost), self.hash)


def _scrypt(password: str, salt: bytes, cost: int) -> bytes:
    memory = 256 * _BLOCK << cost  # twice what it needs
    given = password.encode("utf-8", "surrogateescape")
    return hashlib.scrypt(given, salt=salt, n=1 << cost, r=_BLOCK, p=_LANES, maxmem=memory, dklen=32)


class Passwords:
    """The people who may log in with a password. Safe to call from many threads."""

    def __init__(self, people: Mapping[str, tuple[Hashed, Principal]]) -> None:
        self._people = dict(people)
        self._secret = secrets.token_bytes(32)
        self._right: dict[bytes, tuple[Principal, float]] = {}
        self._nobody = Hashed(_COST, secrets.token_bytes(16), secrets.token_bytes(32))

    def __bool__(self) -> bool:
        return bool(self._people)

    def known(self, name: str, password: str, now_s: float) -> Principal | None:
        """Returns the principal if the name and password were found valid within the last KEPT_S, else None. Takes
        microseconds."""
        principal, until_s = self._right.get(self._mark(name, password), (None, 0.0))
        return principal if now_s < until_s else None

    def check(self, name: str, password: str, now_s: float) -> Principal | None:
        """Returns the principal if the password is right, else None. Takes some 60 ms of a core, even for an unknown
        name."""
        hashed, principal = self._people.get(name, (self._nobody, None))
        if not hashed.fits(password) or principal is None:
            return None
        right = {mark: kept for mark, kept in self._right.items() if now_s < kept[1]}
        if len(right) < _MOST_KEPT:
            right[self._mark(name, password)] = (principal, now_s + KEPT_S)
        self._right = right
        return principal

    def _mark(self, name: str, password: str) -> bytes:
        """Returns the key under which a valid pair is remembered: a hash keyed with a secret of this process."""
        pair = f"{len(name)}:{name}:{password}".encode("utf-8", "surrogateescape")
        return hmac.digest(self._secret, pair, "sha256")


PREFIX: Final = "txnscope_"
"""The prefix of each key that `new_key` returns. Scanners for leaked secrets recognise keys by it."""

SHORTEST: Final = 16
"""Minimum number of characters of a key or password that a person chose."""

_RANDOM_BYTES: Final = 32
_FEWEST_CHARACTERS: Final = 8
_KNOWN: Final = re.compile("changeme|password|passw0rd|secret|letmein|qwerty|txnscope|example|admin|1234")


class StoredKey(NamedTuple):
    """A key of the store that is not revoked. `digest`: the result of `digest_of` for the key."""

    name: str
    digest: str
    grants: frozenset[Grant]


def new_key() -> str:
    """Returns a key with 256 random bits."""
    return PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def digest_of(key: str) -> str:
    """Returns the SHA-256 of a key, in hex; the key itself is not kept. A key of `new_key` has too many random bits to
    be guessed from its digest, so no slow hash is needed, unlike for a password (`Hashed`)."""
    return sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def weakness_of(key: str) -> str | None:
    """Returns the reason why a key or password that a person chose is easy to guess, as the end of a sentence; None if
    there is no such reason."""
    if len(key) < SHORTEST or not re.fullmatch(r"[!-~]+", key):
        return f"is not {SHORTEST} or more printable characters without spaces"
    if len(set(key)) < _FEWEST_CHARACTERS:
        return f"has only {len(set(key))} different characters"
    if any(key == (key[:size] * len(key))[: len(key)] for size in range(1, len(key) // 2 + 1)):
        return "repeats itself"
    steps = [ord(after) - ord(before) for before, after in pairwise(key)]
    if 2 * sum(step in (-1, 0, 1) for step in steps) > len(steps):
        return "is mostly a row of neighbouring characters"
    if 2 * len(_KNOWN.sub("", key.lower())) <= len(key):
        return "is made of words that everybody tries first"
    return None
