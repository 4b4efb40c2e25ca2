"""Tests of grants, of the role that each route needs, and of allowed hosts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from service.access.hosts import AllowedHosts, is_loopback, parse_host
from service.access.needs import Need, is_declared, need_of
from service.access.principal import Grant, Principal, Role, grant_texts, parse_grant, parse_grants


@pytest.mark.parametrize("text", ["metrics", "viewer", "operator", "admin", "viewer@orders", "operator@a b&c@d"])
def test_a_grant_is_written_as_it_was_read(text: str) -> None:
    assert parse_grant(text).text == text
    assert grant_texts(parse_grants([text])) == [text]


@pytest.mark.parametrize(
    ("parse", "given"),
    [
        *((parse_grant, one) for one in ("", "root", "Viewer", "viewer@", "viewer@ x", "viewer@a/b", "metrics@orders")),
        *((parse_grant, one) for one in (1, None, ["viewer"])),
        *((parse_grants, one) for one in ("viewer", [], None, {"viewer": 1}, ["viewer", "nobody"])),
    ],
)
def test_an_invalid_grant_or_list_of_grants_is_named(parse: Callable[[object], object], given: object) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        parse(given)


def test_a_higher_role_includes_the_lower_ones_where_it_holds() -> None:
    principal = Principal("ann", parse_grants(["operator@orders", "viewer@payments"]))
    assert [principal.may(role, "orders") for role in Role] == [True, True, True, False]
    assert [principal.may(role, "payments") for role in Role] == [True, True, False, False]
    assert (principal.may(Role.METRICS, None), principal.may(Role.VIEWER, "others"), principal.sees_all) == (
        False,
        False,
        False,
    )
    assert (principal.may_somewhere(Role.OPERATOR), principal.may_somewhere(Role.ADMIN)) == (True, False)
    assert Principal("bob", frozenset({Grant(Role.ADMIN)})).may(Role.ADMIN, "any")


@pytest.mark.parametrize(
    ("method", "path", "need"),
    [
        ("GET", "/-/ready", Need(None)),
        ("GET", "/-/ready/", Need(Role.VIEWER)),
        ("POST", "/-/ready", None),
        ("GET", "/metrics", Need(Role.METRICS)),
        ("GET", "/", Need(Role.VIEWER, somewhere=True)),
        ("GET", "/static/style.css", Need(Role.VIEWER, somewhere=True)),
        ("GET", "/static", Need(Role.VIEWER)),
        ("GET", "/notifications", Need(Role.VIEWER)),
        ("HEAD", "/clusters/orders", Need(Role.VIEWER, "orders")),
        ("GET", "/clusters/orders/", Need(Role.VIEWER, "orders")),
        ("GET", "/api/v1/clusters/a b/x/y", Need(Role.VIEWER, "a b")),
        ("GET", "//clusters/orders", Need(Role.VIEWER)),
        ("GET", "/clusters//findings", Need(Role.VIEWER)),
        ("GET", "/api/v1/clusters/orders/audit", Need(Role.OPERATOR, "orders")),
        ("POST", "/api/v1/clusters/orders/findings/f/resolve", Need(Role.OPERATOR, "orders")),
        ("POST", "/api/v1/clusters/orders/findings//resolve", None),
        ("POST", "/api/v1/clusters/orders/findings/f/g/resolve", None),
        ("PUT", "/api/v1/clusters/orders/findings/f/resolve", None),
    ],
)
def test_each_path_needs_its_declared_role_or_a_closed_default(method: str, path: str, need: Need | None) -> None:
    assert need_of(method, path) == need


def test_a_route_that_changes_something_has_to_be_declared() -> None:
    assert is_declared("GET", "/anything")
    assert is_declared("POST", "/api/v1/clusters/{cluster}/findings/{finding}/resolve")
    assert not is_declared("POST", "/api/v1/clusters/{cluster}/findings/{finding}/reopen")
    assert not is_declared("DELETE", "/api/v1/clusters/{cluster}/findings/{finding}/resolve")
    assert not is_declared("POST", "/anything")


OURS = ("localhost", "LOCALHOST:8080", "a.localhost", "127.0.0.1", "127.3.2.1:1", "[::1]:8080", "10.0.0.7", "name.")
OTHERS = (
    *("", "evil.example", "localhost.evil.example", "evillocalhost", "127.0.0.1.evil.example", "10.0.0.8", "[::2]"),
    *("localhost:80:80", "a@localhost", "localhost/evil.example", "name\n", "2130706433x"),
)


@pytest.mark.parametrize(("host", "is_ours"), [*((one, True) for one in OURS), *((one, False) for one in OTHERS)])
def test_a_host_is_ours_by_its_whole_name_or_address(host: str, is_ours: bool) -> None:
    assert AllowedHosts("10.0.0.7", ["name"]).allows(host, "10.0.0.7") is is_ours


def test_on_every_interface_the_address_of_the_connection_is_ours() -> None:
    hosts = AllowedHosts("0.0.0.0")
    assert hosts.allows("10.0.0.7:8080", "10.0.0.7")
    assert not hosts.allows("10.0.0.7:8080", "10.0.0.8")
    assert not hosts.allows("0.0.0.0:8080", "10.0.0.7")


def test_every_form_of_an_allowed_address_is_accepted() -> None:
    hosts = AllowedHosts("::")
    assert hosts.allows("10.0.0.7:8080", "::ffff:10.0.0.7")
    assert hosts.allows("[2001:DB8:0::0007]:8080", "2001:db8::7")
    assert AllowedHosts("2001:db8::7").allows("[2001:db8:0:0::7]", None)
    assert AllowedHosts("127.0.0.1").allows("[::ffff:127.0.0.1]", None)
    assert not hosts.allows("[::ffff:10.0.0.8]", "::ffff:10.0.0.7")


def test_only_loopback_addresses_and_localhost_are_loopback() -> None:
    hosts = ("127.9.9.9", "::1", "localhost", "0.0.0.0", "10.0.0.1", "::", "x")
    assert [host for host in hosts if is_loopback(host)] == ["127.9.9.9", "::1", "localhost"]


def test_a_host_of_the_settings_has_no_port() -> None:
    assert [parse_host(text) for text in ("A.example.", "[::1]", "10.0.0.1")] == ["a.example", "::1", "10.0.0.1"]
    for text in ("a:80", "http://a", "a b", "", "*"):
        with pytest.raises(ValueError, match="is no host"):
            parse_host(text)
