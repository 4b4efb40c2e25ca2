"""API keys: how they are made, what of them is kept, and which ones are too weak to be accepted."""

from __future__ import annotations

import re
import secrets
from hashlib import sha256
from itertools import pairwise
from typing import Final, NamedTuple

from service.access.principal import Grant

PREFIX: Final = "txnscope_"
"""The beginning of each key: scanners for leaked secrets find it."""

SHORTEST: Final = 16
"""Characters of a key that people chose themselves."""

_RANDOM_BYTES: Final = 32
_FEWEST_CHARACTERS: Final = 8
_KNOWN: Final = re.compile("changeme|password|passw0rd|secret|letmein|qwerty|txnscope|example|admin|1234")


class StoredKey(NamedTuple):
    """A key that is not revoked, as the store has it. `digest`: of `digest_of`."""

    name: str
    digest: str
    grants: frozenset[Grant]


def new_key() -> str:
    """Returns a key with 256 random bits."""
    return PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def digest_of(key: str) -> str:
    """Returns what is kept of a key: its SHA-256, in hex. A key has too many random bits to be guessed from that, so it
    needs no slow hash; a password does (`service.access.passwords`)."""
    return sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def weakness_of(key: str) -> str | None:
    """Returns why a key or password that people chose can be guessed, as the end of a sentence; None if it may do."""
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
