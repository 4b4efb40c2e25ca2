"""Tests of refused requests: to an unknown host, from another site, with a wrong key, or about another cluster."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.access.configuration import AuthConfig
from service.access.credentials import new_key
from service.access.hosts import AllowedHosts
from service.access.principal import parse_grants
from service.access.refusals import EACH_S
from service.api.routes.events import Listening, SentEvent, stream_events
from service.app import create_app
from service.notifications.feed import Start
from service.store import api_keys
from service.store.errors import StoreError
from tests.helpers.access import PASSWORD, Guarded, basic, bearer, guarded
from tests.helpers.stores import NOW_MS
from tests.helpers.waiting import wait_until_equal
from tests.service.api.answers import items

C = "/api/v1/clusters/orders"
JSON = {"Content-Type": "application/json"}


def audited(here: Guarded, **filters: Any) -> list[dict[str, Any]]:
    answer = here.ask("admin", f"{C}/audit", params=filters)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


# hosts


@pytest.mark.parametrize("path", ["/", "/api/v1/clusters", "/-/healthy", "/metrics", "/nothing", "/clusters/orders/"])
def test_another_host_is_refused_everywhere_in_one_line(url: str, path: str) -> None:
    """DNS rebinding is refused: an attacker's host name resolves to 127.0.0.1, and the browser sends that name as
    Host."""
    with guarded(url, AuthConfig(), AllowedHosts("127.0.0.1", ["txnscope.example"])) as here:
        for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""):
            answer = here.client.get(path, headers={"Host": host}, follow_redirects=False)
            assert answer.status_code == 421
            assert "does not answer as host" in answer.text
            assert "orders" not in answer.text.replace("/clusters/orders", "")
        for host in ("localhost:8080", "127.0.0.1", "[::1]:1", "TXNSCOPE.example"):
            assert here.client.get(path, headers={"Host": host}, follow_redirects=False).status_code != 421


def test_no_redirect_leads_to_another_host(url: str) -> None:
    with guarded(url, AuthConfig()) as here:
        for path in ("/clusters/orders/", "/guide", "/go?cluster=orders", "/clusters/orders/goto?q=pay", "/static"):
            answer = here.client.get(path, headers={"Host": "evil.example"}, follow_redirects=False)
            assert answer.status_code in (303, 307), path
            assert re.match(r"/[^/]", answer.headers["Location"]), path


# requests without credentials


def test_a_challenge_names_the_accepted_schemes(here: Guarded) -> None:
    answer = here.client.get(C)
    assert (answer.status_code, answer.json()["type"]) == (401, "urn:txnscope:not-authenticated")
    assert answer.headers.get_list("WWW-Authenticate") == [
        'Basic realm="txnscope", charset="UTF-8"',
        'Bearer realm="txnscope"',
    ]
    assert answer.headers["Cache-Control"] == "no-store"
    page = here.client.get("/clusters/orders")
    assert (page.status_code, page.headers["Content-Type"]) == (401, "text/html; charset=utf-8")
    assert "needs credentials" in page.text


def test_without_basic_the_browser_does_not_ask_for_a_password(url: str) -> None:
    with guarded(url, AuthConfig(keys=True)) as here:
        assert here.client.get(C).headers.get_list("WWW-Authenticate") == ['Bearer realm="txnscope"']
        assert here.client.get(C, headers=basic("ann", PASSWORD)).status_code == 401


def test_a_name_and_a_password_open_pages(here: Guarded) -> None:
    assert here.client.get("/clusters/orders", headers=basic("ann", PASSWORD)).status_code == 200
    assert here.client.get("/clusters/payments", headers=basic("ann", PASSWORD)).status_code == 403


def test_a_key_works_on_the_next_request_and_not_after_it_is_revoked(here: Guarded) -> None:
    key = new_key()
    assert here.client.get(C, headers=bearer(key)).status_code == 401
    api_keys.create(here.cluster.engine, "new", key, parse_grants(["viewer"]), "tests", NOW_MS)
    assert here.client.get(C, headers=bearer(key)).status_code == 200
    api_keys.revoke(here.cluster.engine, "new", "tests", NOW_MS)
    wait_until_equal(
        lambda: here.client.get(C, headers=bearer(key)).status_code, 401, "the status of a request with the revoked key"
    )
    with pytest.raises(StoreError, match="no valid key 'new'"):
        api_keys.revoke(here.cluster.engine, "new", "tests", NOW_MS)
    with pytest.raises(StoreError, match="a key 'viewer' already"):
        api_keys.create(here.cluster.engine, "viewer", key, parse_grants(["viewer"]), "tests", NOW_MS)


# other clusters


def test_a_viewer_of_one_cluster_does_not_learn_of_the_others(here: Guarded) -> None:
    for path in ("/api/v1/clusters", "/", "/clusters/orders", C):
        assert "payments" not in here.ask("viewer", path).text, path
        assert "payments" in here.ask("viewer of all", path).text or path == C, path
    for cluster in ("payments", "nope"):
        for path in (f"/api/v1/clusters/{cluster}", f"/clusters/{cluster}", f"/go?cluster={cluster}"):
            answer = here.ask("viewer", path, follow_redirects=False)
            assert (answer.status_code, "knows" in answer.text) == (403, False)
        assert here.ask("viewer", f"/api/v1/events?cluster={cluster}", "HEAD").status_code == 403
    assert "the store knows: 'orders', 'payments'" in here.ask("admin", "/api/v1/clusters/nope").text


def test_a_cached_answer_for_one_user_is_not_sent_to_another(here: Guarded) -> None:
    """The second request comes within a second, while the answer to the first user is still cached."""
    for path in ("/", "/api/v1/clusters"):
        everything, one = here.ask("admin", path).text, here.ask("viewer", path).text
        assert ("payments" in everything, "payments" in one) == (True, False)
        etag = here.ask("admin", "/api/v1/clusters").headers["ETag"]
        assert here.ask("viewer", "/api/v1/clusters", headers={"If-None-Match": etag}).status_code == 200


class _Feed:
    """A feed of three events: orders, payments, orders."""

    async def follow(self, _: int) -> AsyncIterator[tuple[int, SentEvent]]:
        for number, cluster in enumerate(("orders", "payments", "orders"), 1):
            yield number, SentEvent("opened", cluster, "{}")


def test_a_stream_leaves_out_other_clusters_and_ends_with_its_credentials() -> None:
    def reported(*answers: bool | None) -> list[str | None]:
        found = iter(answers)

        async def may_see(_: str) -> bool | None:
            return next(found)

        async def read() -> list[str | None]:
            client = Listening(_Feed(), None, Start(0, is_reset=False), may_see)  # type: ignore[arg-type]
            return [event.id async for event in stream_events(client)]

        return asyncio.run(read())[1:]

    assert reported(True, False, True) == ["1", "3"]
    assert reported(True, None, True) == ["1"]


# other sites


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({**JSON}, 422),
        ({**JSON, "Sec-Fetch-Site": "same-origin"}, 422),
        ({**JSON, "Origin": "http://testserver"}, 422),
        ({**JSON, "Sec-Fetch-Site": "none"}, 422),
        ({**JSON, "Sec-Fetch-Site": "same-origin", "Origin": "null"}, 422),
        ({**JSON, "Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"}, 403),
        ({**JSON, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**JSON, "Sec-Fetch-Site": "same-site"}, 403),
        ({**JSON, "Origin": "http://evil.example"}, 403),
        ({**JSON, "Origin": "http://testserver.evil.example"}, 403),
        ({**JSON, "Origin": "null"}, 403),
        ({}, 403),
        ({"Content-Type": "text/plain"}, 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 403),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 403),
    ],
)
def test_a_browser_does_not_write_for_another_site(here: Guarded, headers: dict[str, str], status: int) -> None:
    """A browser adds the password also to a cross-site request."""
    sent = {**basic("ann", PASSWORD), **headers}
    assert here.client.post(f"{C}/mutes", content=b"{}", headers=sent).status_code == status
    assert audited(here, action="mute") == []


# wrong keys


def test_wrong_keys_are_slowed_logged_once_and_audited(here: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    wrong = "wrong-key-of-nobody"
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        answers = [here.client.get(C, headers=bearer(wrong)) for _ in range(6)]
    assert time.monotonic() - began > 6 * EACH_S * 0.9
    assert {answer.status_code for answer in answers} == {401}
    assert "the key is unknown or was revoked" in answers[0].json()["detail"]
    (line,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("refused")]
    assert line == f"refused GET {C} of ? from testclient: the key is unknown or was revoked"
    assert wrong not in caplog.text
    (row,) = audited(here, action="authenticate")
    assert (row["outcome"], row["address"], row["who"], row["count"], row["cluster"]) == (
        "refused",
        "testclient",
        None,
        1,
        "orders",
    )
    assert here.ask("viewer", C).status_code == 200


def test_the_number_of_wrong_keys_is_recorded_when_the_service_ends(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with guarded(url) as here:
        for _ in range(3):
            here.client.get(C, headers=basic("ann", "wrong"))
        keys = here.keys
    app = create_app(url, now_ms=lambda: NOW_MS)
    with TestClient(app) as client:
        rows = client.get(f"{C}/audit").json()["items"]
    assert [(row["who"], row["count"]) for row in rows if row["action"] == "authenticate"] == [("ann", 2), ("ann", 1)]
    assert PASSWORD not in caplog.text
    assert not [key for key in keys.values() if key in caplog.text]


def test_a_refused_request_is_one_printable_line_of_the_log(here: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    for headers in (bearer("x"), basic("ann\n2026-11-26 WARNING all is well", "x")):
        assert here.client.get("/clusters/a%0Ab%1b", headers=headers).status_code == 401
    reported = [record.getMessage() for record in caplog.records if record.getMessage().startswith("refused")]
    assert len(reported) == 2
    assert all(line.isprintable() for line in reported), reported


def test_wrong_keys_beyond_the_length_of_the_queue_are_turned_away(here: Guarded) -> None:
    slowdown, much_later_s = here.client.app.state.txnscope.access.slowdown, time.monotonic() + 3_600  # type: ignore[attr-defined]
    turns = [slowdown.turn("testclient", much_later_s) for _ in range(11)]
    assert turns == [*(EACH_S * number for number in range(1, 11)), None]
    answer = here.client.get(C, headers=bearer("wrong"))
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "5")
    assert here.ask("viewer", C).status_code == 200, "a sender with a right key does not wait"


def test_a_missing_role_is_audited_with_the_name_of_the_user(here: Guarded) -> None:
    answer = here.ask("viewer", f"{C}/mutes", "POST", json={})
    assert answer.status_code == 403
    assert answer.json()["detail"] == "'viewer' needs the role operator in 'orders' for this request"
    (row,) = audited(here, action="authorize")
    assert (row["who"], row["outcome"]) == ("viewer", "refused")
    assert "POST" in row["detail"]


# the audit


def test_audit_entries_without_a_cluster_are_for_admins_of_all_clusters(here: Guarded) -> None:
    created = audited(here, action="key", limit=200)
    assert {row["subject"] for row in created} == set(here.keys)
    assert {(row["outcome"], row["who"], row["cluster"]) for row in created} == {("created", "tests", None)}
    assert here.ask("operator", f"{C}/audit").json()["items"] == []


def test_the_audit_has_pages(here: Guarded) -> None:
    every = audited(here, limit=200)
    here.client.headers.update(here.headers("admin"))
    assert items(here.client, f"{C}/audit?limit=3") == every
    assert here.ask("admin", f"{C}/audit", params={"cursor": "x"}).status_code == 400
    assert here.ask("admin", f"{C}/audit", params={"action": "x"}).status_code == 422
    assert [row["id"] for row in every] == sorted((row["id"] for row in every), reverse=True)


# mutes


UNTIL = "2026-09-22T14:13:50.123Z"


def mute(here: Guarded, who: str = "operator", **body: Any) -> Any:
    return here.ask(who, f"{C}/mutes", "POST", json={"until": UNTIL, "reason": "known, ann looks at it"} | body)


@pytest.mark.parametrize("subject", ["finding", "prefix", "topic"])
def test_a_mute_is_shown_on_the_findings_that_it_covers(here: Guarded, subject: str) -> None:
    finding = here.finding()
    (item,) = here.ask("viewer", f"{C}/hanging").json()["items"]
    assert item["muted_until"] is None
    given = {"finding": finding, "prefix": "pa", "topic": "ord*"}[subject]
    answer = mute(here, **{subject: given})
    assert answer.status_code == 201, answer.text
    set_ = answer.json()
    assert (set_[subject], set_["until"], set_["set_by"]) == (given, UNTIL, "operator")
    for path in (f"{C}/hanging", f"{C}/findings"):
        assert here.ask("viewer", path).json()["items"][0]["muted_until"] == UNTIL
    assert here.ask("viewer", f"{C}/findings/{finding}").json()["muted_until"] == UNTIL
    assert "muted" in here.ask("viewer", f"/clusters/orders/findings/{finding}").text
    assert "1 hanging transaction is muted" in here.ask("viewer", "/clusters/orders").text
    assert here.ask("viewer", f"{C}/mutes").json()["items"] == [set_]
    assert here.ask("operator", f"{C}/mutes?id={set_['id']}", "DELETE").status_code == 204
    assert here.ask("viewer", f"{C}/findings/{finding}").json()["muted_until"] is None
    assert here.ask("viewer", f"{C}/mutes").json()["items"] == []
    assert here.ask("operator", f"{C}/mutes?id={set_['id']}", "DELETE").status_code == 404
    rows = audited(here, action="mute")
    assert [(row["outcome"], row["who"], row["subject"]) for row in rows] == [
        ("ended", "operator", str(set_["id"])),
        ("set", "operator", str(set_["id"])),
    ]
    assert "known, ann looks at it" in rows[1]["detail"]


def test_a_mute_of_another_subject_does_not_change_a_finding(here: Guarded) -> None:
    assert mute(here, prefix="other").status_code == 201
    assert mute(here, topic="other").status_code == 201
    assert here.ask("viewer", f"{C}/hanging").json()["items"][0]["muted_until"] is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"finding": "nope"}, 404),
        ({"prefix": "a", "topic": "b"}, 422),
        ({"prefix": "a", "reason": ""}, 422),
        ({"prefix": "a", "reason": "   "}, 422),
        ({"prefix": "a", "until": "2026-09-21T14:13:00Z"}, 422),
        ({"prefix": "a", "until": "2027-09-21T14:13:00Z"}, 422),
        ({"prefix": "a", "until": "tomorrow"}, 422),
        ({"prefix": "a", "until": "2026-09-22T00:00:00"}, 422),
        ({"topic": "a b"}, 422),
        ({"prefix": "a", "more": 1}, 422),
    ],
)
def test_a_mute_needs_an_end_a_reason_and_one_subject(here: Guarded, body: dict[str, Any], status: int) -> None:
    answer = mute(here, **body)
    assert answer.status_code == status, answer.text
    assert audited(here, action="mute") == []


def test_operators_of_the_configuration_may_still_write(url: str) -> None:
    operators = {"ann": "the-key-of-ann-000"}
    with guarded(url, AuthConfig(), operators=operators) as here:
        assert here.client.get(C).status_code == 200
        wish = {"prefix": "pa", "until": UNTIL, "reason": "as before"}
        assert here.client.post(f"{C}/mutes", json=wish).status_code == 403
        assert here.client.post(f"{C}/mutes", json=wish, headers=bearer(operators["ann"])).status_code == 201
    with guarded(url.replace("store.db", "other.db"), operators=operators) as here:
        assert here.client.get(C).status_code == 401
        assert here.client.get(C, headers=bearer(operators["ann"])).status_code == 200
