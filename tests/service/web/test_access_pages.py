"""Tests of the audit page, the form for mutes, and the actions that a page offers to each user. Some tests use a
browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from service.access.configuration import AuthConfig
from tests.helpers.access import PASSWORD, Guarded, basic, guarded, guarded_app
from tests.service.web.browser import Browse

FORM = "/clusters/orders/findings/{}/mute"
OURS = {"Origin": "http://testserver", "Content-Type": "application/x-www-form-urlencoded"}


def test_a_page_offers_what_its_viewer_may_do(here: Guarded) -> None:
    finding = f"/clusters/orders/findings/{here.finding()}"
    for who, may in (("viewer", False), ("operator", True), ("admin", True), ("viewer of all", False)):
        page = here.ask(who, finding).text
        assert ('href="/clusters/orders/audit"' in page, 'id="mute"' in page) == (may, may), who


def test_without_authentication_the_audit_is_shown_and_no_form(url: str) -> None:
    with guarded(url, AuthConfig()) as here:
        (item,) = here.client.get("/api/v1/clusters/orders/hanging").json()["items"]
        page = here.client.get(f"/clusters/orders/findings/{item['id']}").text
        assert ('href="/clusters/orders/audit"' in page, 'id="mute"' in page) == (True, False)
        audit = here.client.get("/clusters/orders/audit")
        assert (audit.status_code, "at the store" in audit.text, "created" in audit.text) == (200, True, True)


def test_the_form_mutes_a_finding_and_the_audit_shows_the_mute(here: Guarded) -> None:
    sent = basic("ann", PASSWORD) | OURS
    path = FORM.format(here.finding())
    answer = here.client.post(path, content="for=4h&reason=ann+%3Clooks%3E", headers=sent, follow_redirects=False)
    assert (answer.status_code, answer.headers["Location"]) == (303, path.removesuffix("/mute"))
    assert "Muted until" in here.client.get(path.removesuffix("/mute"), headers=sent).text
    page = here.client.get("/clusters/orders/audit", headers=sent).text
    assert ("ann &lt;looks&gt;" in page, "<looks>" in page, "Mutes in effect" in page) == (True, False, True)
    assert "created" not in page, "only an admin of all clusters sees entries about keys"
    assert "created" in here.ask("admin", "/clusters/orders/audit").text
    assert "mute" in here.ask("admin", "/clusters/orders/audit?action=mute&before=10000").text
    assert here.ask("admin", "/clusters/orders/audit?action=nothing").status_code == 422


@pytest.mark.parametrize(
    "fields", ["", "for=4h", "for=4h&reason=a", "for=soon&reason=abc", "reason=abc", "for=1000d&reason=abc"]
)
def test_an_invalid_form_is_refused_with_a_page(here: Guarded, fields: str) -> None:
    sent = basic("ann", PASSWORD) | OURS
    answer = here.client.post(FORM.format(here.finding()), content=fields, headers=sent)
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, "text/html; charset=utf-8")
    assert here.client.post(FORM.format("nope"), content="for=4h&reason=abc", headers=sent).status_code == 404


def test_a_browser_may_mute_from_our_page_but_not_from_another_site(url: str, browse: Browse) -> None:
    """The form works without JavaScript. A form on another site is refused, although the browser sends the password
    with it."""
    with guarded_app(url) as (app, _, _):
        login = {"username": "ann", "password": PASSWORD}
        tab = browse(app, http_credentials=login, script=False)
        page = tab.open("/clusters/orders/findings")
        page.get_by_role("link", name="orders-0").first.click()
        address = page.url
        foreign = browse(tab.address, http_credentials=login)
        foreign.page.set_content(
            f'<form method="post" action="{address}/mute"><input name="for" value="7d">'
            '<input name="reason" value="not ours"><button>Win</button></form>'
        )
        foreign.page.get_by_role("button").click()
        expect(foreign.page.locator("#problem")).to_contain_text("a page of another site")
        foreign.complaints.clear()  # the browser console reports the status 403
        page.get_by_label("Reason").fill("ann looks at it")
        page.get_by_role("button", name="Mute").click()
        expect(page.locator("#verdict")).to_contain_text("Muted until")
        page.get_by_role("link", name="Audit").click()
        expect(page.locator("#mutes")).to_contain_text("ann looks at it")
        assert "not ours" not in page.content()
