"""`txnscope keys`: creates, lists and revokes the keys of a service, in its store; makes hashes of passwords."""

from __future__ import annotations

import getpass
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from service.access.credentials import Hashed, new_key, weakness_of
from service.access.principal import grant_texts, parse_grants
from service.cli.errors import FINE, CommandFailed, store_failures
from service.cli.text import table, time_of
from service.clock import wall_clock_ms
from service.settings import Settings
from service.store import api_keys
from service.store.api_keys import KeyRow
from service.store.engine import open_engine, open_reader
from service.store.schema_check import SchemaCheck

_HEADS = ("NAME", "ROLES", "CREATED", "BY", "REVOKED", "BY")


def run(flags: Namespace, settings: Settings) -> int:
    """Runs one action. Raises CommandFailed: code 2 for an invalid name or role, for a password that is refused, for a
    name that is taken (`create`) or unknown (`revoke`), and for a store that cannot be used; 3 if the store does not
    answer."""
    if flags.action == "hash":
        return _hash()
    if flags.action == "list":
        return _list(settings)
    if not flags.name or not flags.name.isprintable() or flags.name != flags.name.strip():
        raise CommandFailed(f"NAME is missing or not printable: give `txnscope keys {flags.action} NAME`")
    return (_create if flags.action == "create" else _revoke)(flags, settings)


def _create(flags: Namespace, settings: Settings) -> int:
    try:
        grants = parse_grants(flags.role or ())
    except ValueError as error:
        raise CommandFailed(f"--role: {error}") from None
    key = new_key()
    with _store(settings, writes=True) as engine:
        api_keys.create(engine, flags.name, key, grants, _who(), wall_clock_ms())
    print(key)
    print(f"this key of {flags.name} is shown only once; a service with [auth] keys = true accepts it", file=sys.stderr)
    return FINE


def _revoke(flags: Namespace, settings: Settings) -> int:
    with _store(settings, writes=True) as engine:
        api_keys.revoke(engine, flags.name, _who(), wall_clock_ms())
    print(f"revoked the key of {flags.name}; services refuse it within two seconds", file=sys.stderr)
    return FINE


def _list(settings: Settings) -> int:
    with _store(settings, writes=False) as engine, engine.connect() as connection:
        keys = api_keys.read_all(connection)
    print(table(_HEADS, [_row(key) for key in keys]))
    return FINE


def _row(key_row: KeyRow) -> tuple[object, ...]:
    revoked = None if key_row.revoked_at_ms is None else time_of(key_row.revoked_at_ms)
    return (
        key_row.name,
        ", ".join(grant_texts(key_row.grants)),
        time_of(key_row.created_at_ms),
        key_row.created_by,
        revoked,
        key_row.revoked_by,
    )


def _hash() -> int:
    """Asks for a password (on a terminal, twice), and prints its hash for `[auth.basic]`. Raises CommandFailed (2) if
    the two inputs differ, or if the password is easy to guess."""
    if sys.stdin.isatty():
        password = getpass.getpass("password: ")
        if getpass.getpass("again: ") != password:
            raise CommandFailed("the two passwords differ")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if (why := weakness_of(password)) is not None:
        raise CommandFailed(f"this password {why}: choose another one")
    print(Hashed.of(password).text)
    return FINE


@contextmanager
def _store(settings: Settings, *, writes: bool) -> Iterator[Engine]:
    with store_failures():
        engine = open_engine(settings.store, must_exist=True) if writes else open_reader(settings.store)
        try:
            with engine.connect() as connection:
                SchemaCheck(engine).check(connection)
            yield engine
        finally:
            engine.dispose()


def _who() -> str:
    """Returns the name of the person at this machine, for the audit."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody at the store"
