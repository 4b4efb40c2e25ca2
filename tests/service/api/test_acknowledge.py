"""Tests of findings that stay open until a user acknowledges them: permissions, refusals, and where they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from service.domain.findings.kinds import Kind
from service.domain.findings.rules import Rules
from service.store.engine import open_reader
from service.store.writers.findings import FindingWriter
from spark_jobs.judge.judge import Judge
from tests.helpers.access import PASSWORD, Guarded, basic, guarded
from tests.helpers.partitions import hanging_finding
from tests.helpers.stores import NOW_MS
from tests.service.web.every_kind import EVERY

C = "/api/v1/clusters/orders"
WHY = {"reason": "sent again <ticket 4711>"}
OURS = {"Origin": "http://testserver", "Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def here(url: str) -> Iterator[Guarded]:
    with guarded(url) as one:
        one.cluster.see(hanging_finding(), EVERY[Kind.LOST_RECORDS])
        yield one


def lost(here: Guarded) -> dict[str, Any]:
    (item,) = here.ask("viewer", f"{C}/findings?kind=lost_records").json()["items"]
    return dict(item)


def judge(here: Guarded) -> None:
    reader = open_reader(here.cluster.url)
    Judge(reader, FindingWriter(here.cluster.engine, here.cluster.lease), here.cluster.id, Rules()).round(NOW_MS + 9)
    reader.dispose()


def test_an_operator_acknowledges_and_all_see_who_when_and_why(here: Guarded) -> None:
    path = f"{C}/findings/{lost(here)['id']}"
    assert lost(here)["acknowledgement"] is None
    assert here.ask("viewer", f"{path}/acknowledge", "POST", json=WHY).status_code == 403
    answer = here.ask("operator", f"{path}/acknowledge", "POST", json=WHY)
    assert answer.status_code == 200, answer.text
    given = answer.json()
    assert given == {"at": "2026-09-21T14:13:50.123Z", "by": "operator", "reason": WHY["reason"]}
    assert (lost(here)["acknowledgement"], lost(here)["status"]) == (given, "confirmed")
    page = f"/clusters/orders/findings/{lost(here)['id']}"
    assert "sent again &lt;ticket 4711&gt;" in here.ask("viewer", page).text
    again = here.ask("admin", f"{path}/acknowledge", "POST", json=WHY)
    assert (again.status_code, "operator acknowledged this finding at 2026" in again.json()["detail"]) == (409, True)
    judge(here)
    ended = lost(here)
    assert (ended["status"], ended["resolution"], ended["acknowledgement"]) == ("resolved", "acknowledged", given)
    assert "operator acknowledged it: sent again &lt;ticket 4711&gt;" in here.ask("viewer", page).text
    assert here.ask("operator", f"{path}/acknowledge", "POST", json=WHY).status_code == 409
    (row,) = here.ask("admin", f"{C}/audit?action=acknowledge").json()["items"]
    assert (row["outcome"], row["who"], row["subject"], row["detail"]) == (
        "set",
        "operator",
        ended["id"],
        WHY["reason"],
    )


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "    "}, {"reason": "because", "more": 1}])
def test_an_acknowledgement_needs_a_reason(here: Guarded, body: dict[str, Any]) -> None:
    path = f"{C}/findings/{lost(here)['id']}/acknowledge"
    assert here.ask("operator", path, "POST", json=body).status_code == 422
    assert here.ask("admin", f"{C}/audit?action=acknowledge").json()["items"] == []


def test_only_existing_findings_that_stay_can_be_acknowledged(here: Guarded) -> None:
    answer = here.ask("operator", f"{C}/findings/{here.finding()}/acknowledge", "POST", json=WHY)
    assert answer.status_code == 409
    assert "only lost_records and torn_transaction stay open until acknowledged" in answer.json()["detail"]
    assert here.ask("operator", f"{C}/findings/nope/acknowledge", "POST", json=WHY).status_code == 404
    assert here.ask("admin", "/api/v1/clusters/no/findings/nope/acknowledge", "POST", json=WHY).status_code == 404


def test_only_operators_see_the_form_and_only_on_findings_that_stay(here: Guarded) -> None:
    page = f"/clusters/orders/findings/{lost(here)['id']}"
    form = f'action="{page}/acknowledge"'
    assert [form in here.ask(who, page).text for who in ("viewer", "operator")] == [False, True]
    assert "txnscope acknowledge" in here.ask("viewer", page).text
    assert 'id="acknowledge"' not in here.ask("operator", f"/clusters/orders/findings/{here.finding()}").text
    sent = basic("ann", PASSWORD) | OURS
    short = here.client.post(f"{page}/acknowledge", content="reason=+a+", headers=sent)
    assert (short.status_code, short.headers["Content-Type"]) == (422, "text/html; charset=utf-8")
    answer = here.client.post(f"{page}/acknowledge", content="reason=sent+again", headers=sent, follow_redirects=False)
    assert (answer.status_code, answer.headers["Location"]) == (303, page)
    text = here.ask("operator", page).text
    assert ("ann, " in text, "sent again" in text, f'action="{page}/acknowledge"' in text) == (True, True, False)
