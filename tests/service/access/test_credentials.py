"""Tests of API keys, passwords and the Authorization header: only senders of wrong credentials have to wait."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from service.access import credentials
from service.access.actions import Action
from service.access.authenticator import KEYS_READ_EVERY_S, Authenticator
from service.access.configuration import AuthConfig, Person
from service.access.credentials import KEPT_S, PREFIX, Hashed, Passwords, StoredKey, digest_of, new_key, weakness_of
from service.access.principal import Principal, Role, parse_grants
from service.access.refusals import (
    EACH_S,
    LONGEST_S,
    LONGEST_WINDOW_S,
    BadCredentials,
    Refusal,
    Refusals,
    Slowdown,
    network_of,
)
from tests.helpers.access import HASHED, basic, bearer
from tests.helpers.access import PASSWORD as RIGHT

VIEWER = parse_grants(["viewer"])
ANN = {"ann": Person(password=HASHED, roles=VIEWER)}


class Keys:
    """A source of stored keys that can be made to fail. `reads` counts how often the keys were read."""

    def __init__(self, *keys: str) -> None:
        self.keys, self.reads, self.fails = list(keys), 0, False

    def __call__(self) -> Iterable[StoredKey]:
        self.reads += 1
        if self.fails:
            raise OSError("store is down")
        return [StoredKey(f"key {number}", digest_of(key), VIEWER) for number, key in enumerate(self.keys)]


def header(headers: dict[str, str]) -> str:
    return headers["Authorization"]


def test_a_key_has_256_random_bits_and_is_kept_as_a_digest() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert {(key.startswith(PREFIX), len(key)) for key in keys} == {(True, len(PREFIX) + 43)}
    assert {len(digest_of(key)) for key in keys} == {64}
    assert not [key for key in keys if weakness_of(key)]


@pytest.mark.parametrize(
    "key",
    [
        "",
        "short",
        "0123456789abcde",
        "has a space in it",
        "\u00fcberlanger-schl\u00fcssel",
        "aaaaaaaaaaaaaaaaaaaa",
        "abababababababab",
        "ann-key-ann-key-",
        "0123456789abcdef",
        "abcdefghijklmnopqrstuvwxyz",
        "9876543210987654",
        "changeme-changeme",
        "Password-12345-x",
    ],
)
def test_a_weak_key_is_refused_with_a_reason(key: str) -> None:
    assert weakness_of(key)


@pytest.mark.parametrize("key", ["the-key-of-ann-000", "4f1c0a7be29d3366058acd7be1f2904c", RIGHT])
def test_a_strong_key_is_accepted(key: str) -> None:
    assert weakness_of(key) is None


def test_a_password_is_kept_as_scrypt() -> None:
    text = HASHED.text
    assert RIGHT not in text
    assert Hashed.parse(text) == HASHED
    assert HASHED.fits(RIGHT)
    assert not HASHED.fits(RIGHT + "x")
    assert Hashed.of(RIGHT).salt != HASHED.salt
    for other in ("", RIGHT, "scrypt:99:" + text.split(":", 2)[2], text + "x", "scrypt:15:x:y"):
        with pytest.raises(ValueError, match="txnscope keys hash") as error:
            Hashed.parse(other)
        assert other == "" or other not in str(error.value)


def test_a_pair_that_was_right_is_not_hashed_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    people = Passwords({"ann": (HASHED, Principal("ann", VIEWER))})
    assert people.known("ann", RIGHT, 0.0) is None
    assert people.check("ann", RIGHT, 0.0) is not None
    monkeypatch.setattr(credentials, "_scrypt", lambda *_: pytest.fail("a known password is hashed again"))
    assert people.known("ann", RIGHT, KEPT_S - 1) is not None
    assert people.known("ann", RIGHT, KEPT_S) is None
    for name, password in (("ann", RIGHT + "x"), ("bob", RIGHT), ("an", "n" + RIGHT), ("", "")):
        assert people.known(name, password, 1.0) is None


def test_an_unknown_name_takes_as_long_as_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def scrypt(password: str, *_: object) -> bytes:
        hashed.append(password)
        return b"x" * 32

    monkeypatch.setattr(credentials, "_scrypt", scrypt)
    people = Passwords({"ann": (HASHED, Principal("ann", VIEWER))})
    assert people.check("ann", "wrong", 0.0) is None
    assert people.check("nobody", "wrong", 0.0) is None
    assert hashed == ["wrong", "wrong"]


def test_keys_are_read_every_two_seconds_and_kept_while_the_store_is_down() -> None:
    key, read = new_key(), Keys()
    read.keys = [key]
    here = Authenticator(AuthConfig(keys=True), {}, read)
    assert here.known(header(bearer(key)), 0.0) is None
    assert here.check(header(bearer(key)), 0.0).name == "key 0"
    assert here.known(header(bearer(key)), KEYS_READ_EVERY_S - 0.1) is not None
    assert read.reads == 1
    read.fails = True
    assert here.known(header(bearer(key)), KEYS_READ_EVERY_S) is None
    assert here.check(header(bearer(key)), KEYS_READ_EVERY_S).name == "key 0"
    read.fails, read.keys = False, []
    with pytest.raises(BadCredentials):
        here.check(header(bearer(key)), 2 * KEYS_READ_EVERY_S)
    assert here.known(header(bearer(key)), 2 * KEYS_READ_EVERY_S) is None


def test_a_store_that_never_answered_admits_no_key() -> None:
    read = Keys()
    read.fails = True
    with pytest.raises(OSError, match="down"):
        Authenticator(AuthConfig(keys=True), {}, read).check(header(bearer(new_key())), 0.0)


def test_operator_keys_are_valid_for_every_cluster_with_and_without_auth() -> None:
    for config in (AuthConfig(), AuthConfig(keys=True)):
        here = Authenticator(config, {"ann": "the-key-of-ann-000"}, Keys())
        ann = here.known("bearer the-key-of-ann-000", 0.0)
        assert ann is not None
        assert (ann.name, ann.may(Role.OPERATOR, None), ann.may(Role.ADMIN, None)) == ("ann", True, False)


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer a.b.c",
        "Basic",
        "Basic !!!",
        "Basic YW5u",
        header(basic("ann", "wrong")),
        header(basic("bob", RIGHT)),
        f"Digest {RIGHT}",
        RIGHT,
    ],
)
def test_wrong_credentials_are_refused_without_repeating_them(given: str) -> None:
    here = Authenticator(AuthConfig(keys=True, basic=ANN), {}, Keys(new_key()))
    assert here.known(given, 0.0) is None
    with pytest.raises(BadCredentials) as error:
        here.check(given, 0.0)
    assert "wrong" not in str(error.value) or str(error.value) == "wrong name or password"


def test_a_correct_name_and_password_are_accepted() -> None:
    here = Authenticator(AuthConfig(basic=ANN), {}, Keys())
    assert here.check(header(basic("ann", RIGHT)), 0.0).name == "ann"
    assert here.known(header(basic("ann", RIGHT)), 1.0) is not None
    assert here.schemes[0].startswith("Basic ")


def test_wrong_credentials_of_one_address_wait_for_each_other() -> None:
    slow = Slowdown()
    turns = [slow.turn("10.0.0.1", 100.0) for _ in range(20)]
    taken = [turn for turn in turns if turn is not None]
    assert taken == [EACH_S * number for number in range(1, int(LONGEST_S / EACH_S) + 1)]
    assert slow.is_full("10.0.0.1", 100.0)
    assert slow.turn("10.0.0.2", 100.0) == EACH_S
    assert not slow.is_full("10.0.0.1", 100.0 + LONGEST_S)
    assert slow.turn("10.0.0.1", 200.0) == EACH_S


def test_an_attacker_with_many_addresses_fills_no_memory() -> None:
    slow = Slowdown()
    for number in range(30_000):
        slow.turn(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0.0)
    assert len(slow._free_at) <= 10_001
    slow.turn("192.0.2.1", 100.0)
    assert len(slow._free_at) < 10


def test_an_ipv6_sender_counts_by_its_network() -> None:
    assert network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2::9") == "2001:db8:1:2::/64"
    assert network_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert network_of("testclient") == "testclient"


def test_the_first_refusal_is_recorded_at_once_and_later_ones_as_a_sum() -> None:
    refusals = Refusals()
    refusal = Refusal(Action.AUTHENTICATE, "10.0.0.1", "", None, "GET /", "wrong")
    first = refusals.add(refusal, 0.0)
    assert first is not None
    assert first.times == 1
    assert [refusals.add(refusal, 0.1 * number) for number in range(199)] == [None] * 199
    assert refusals.due(9.9) == []
    assert [sums.times for sums in refusals.due(10.0)] == [199]
    assert refusals.next_s() == 30.0
    refusals.add(refusal, 11.0)
    assert [sums.times for sums in refusals.due(30.0)] == [1]
    assert refusals.due(70.0) == []
    assert refusals.next_s() is None


def test_an_attack_of_a_day_makes_fewer_than_40_records() -> None:
    refusals, records = Refusals(), 0
    refusal = Refusal(Action.AUTHENTICATE, "10.0.0.1", "ann", "orders", "GET /", "wrong")
    for second in range(86_400):
        records += refusals.add(refusal, float(second)) is not None
        records += len(refusals.due(float(second)))
    assert records < 40
    assert LONGEST_WINDOW_S == 3_600


def test_an_attack_from_many_addresses_makes_a_bounded_number_of_records() -> None:
    refusals = Refusals()
    reported = [
        refusals.add(Refusal(Action.AUTHENTICATE, f"h{n}", "", None, "GET /", "wrong"), 0.0) for n in range(5_000)
    ]
    assert sum(one is not None for one in reported) == 101
    assert sum(one.times for one in refusals.due(10.0)) == 5_000 - 101
