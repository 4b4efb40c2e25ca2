"""Tests of receivers against real servers: the messages that arrive, and the errors after a failure."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from service.domain.findings.kinds import Severity
from service.notifications.configuration import NotifyTable
from service.notifications.notification import Receiver, Undelivered
from service.notifications.receivers import receiver_of
from tests.helpers.alertmanagers import alertmanager
from tests.helpers.servers import get_json
from tests.helpers.waiting import wait_until_equal
from tests.service.notifications.receiving import BASE, Endpoint, endpoint, notification


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with endpoint() as found:
        yield found


def receiver(kind: str, url: str | None = None, **more: Any) -> Receiver:
    return receiver_of(NotifyTable(name="test", kind=kind, url=url, **more), BASE, list)  # type: ignore[arg-type]


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_a_webhook_gets_each_event_as_json(server: Endpoint) -> None:
    receiver("webhook", server.url + "/hook").send([notification(1), notification(2, "resolved")])
    first, last = (request.json for request in server.requests)
    assert (first["event"], first["cluster"], first["sequence"]) == ("opened", "orders", 1)
    assert first["link"] == f"{BASE}/clusters/orders/findings/id-of-pay"
    assert first["finding"]["subject"]["transactional_id"] == "pay"
    assert (last["event"], last["finding"]["status"], last["finding"]["resolution"]) == (
        "resolved",
        "resolved",
        "healed",
    )
    assert [request.path for request in server.requests] == ["/hook", "/hook"]


def test_the_signature_is_that_of_standard_webhooks(server: Endpoint, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    sending = receiver("webhook", server.url, secret_file=file)
    sending.send([notification()])
    (request,) = server.requests
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert Verifier(SECRET).verify(request.body, headers) == request.json
    with pytest.raises(WebhookVerificationError):
        Verifier(SECRET).verify(request.body.replace(b"pay", b"gap"), headers)
    file.write_text("whsec_b3RoZXI=")
    sending.send([notification()])
    newest = {name.lower(): value for name, value in server.requests[-1].headers.items()}
    assert newest["webhook-id"] == headers["webhook-id"], "each attempt has the same webhook-id"
    with pytest.raises(WebhookVerificationError):
        Verifier(SECRET).verify(request.body, newest)


def test_two_events_under_one_number_are_two_messages(server: Endpoint) -> None:
    """The first event shows that a mute has ended. The second event is the end of the finding; the store has no event
    for this end. Both events have the number of the newest event in the store. A receiver that drops messages with a
    known id must not drop the second one."""
    receiver("webhook", server.url).send([notification(7), notification(7, "resolved")])
    opened, resolved = ({name.lower(): value for name, value in request.headers.items()} for request in server.requests)
    assert opened["webhook-id"] != resolved["webhook-id"]


def test_a_template_makes_the_body(server: Endpoint, tmp_path: Path) -> None:
    file = tmp_path / "body.j2"
    file.write_text('{"text": {{ (cluster ~ ": " ~ finding.summary) | tojson }}}')
    sending = receiver("webhook", server.url, template=file)
    sending.send([notification()])
    assert server.requests[0].json["text"].startswith("orders: ")
    file.write_text("{{ ''.__class__.__mro__ }}")
    with pytest.raises(Undelivered, match="unsafe"):
        sending.send([notification()])


def test_a_bearer_token_is_read_anew_for_each_request(server: Endpoint, tmp_path: Path) -> None:
    file = tmp_path / "token"
    sending = receiver("webhook", server.url, bearer_file=file)
    with pytest.raises(Undelivered, match="token: No such file"):
        sending.send([notification()])
    for token in ("first", "second"):
        file.write_text(token)
        sending.send([notification()])
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize(("status", "is_refused"), [(400, True), (422, True), (401, False), (404, False), (503, False)])
def test_a_failure_says_what_was_answered(server: Endpoint, status: int, is_refused: bool) -> None:
    server.answers = [200, status]
    server.headers = {"Retry-After": "7"}
    with pytest.raises(Undelivered, match=f"answered with status {status}") as failure:
        receiver("webhook", server.url).send([notification(number) for number in (1, 2, 3)])
    assert (failure.value.taken, failure.value.is_refused, failure.value.retry_after_s) == (1, is_refused, 7)


def test_a_redirect_is_not_followed(server: Endpoint) -> None:
    with endpoint() as elsewhere:
        for kind in ("webhook", "apprise"):
            server.answers = [307]
            server.headers = {"Location": elsewhere.url}
            url = server.url if kind == "webhook" else server.url.replace("http://", "json://")
            with pytest.raises(Undelivered):
                receiver(kind, url).send([notification()])
        assert elsewhere.requests == []
    assert len(server.requests) == 2


def test_an_address_where_nobody_listens_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(Undelivered, match="Connection refused"):
        receiver("webhook", url).send([notification()])


CONFIG = """
route: {receiver: nobody}
receivers: [{name: nobody}]
"""


@pytest.fixture
def alerts(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "alertmanager.yml").write_text(CONFIG)
    with alertmanager(tmp_path / "alertmanager.yml", tmp_path) as url:
        yield url


def firing(url: str) -> list[tuple[str, str]]:
    """Returns severity and owner of each alert that Alertmanager shows as active."""
    found = get_json(f"{url}/api/v2/alerts")
    return sorted((one["labels"]["severity"], one["labels"].get("owner", "")) for one in found)


def test_an_alert_fires_until_its_finding_is_resolved(alerts: str) -> None:
    pager = receiver("alertmanager", alerts + "/")
    pager.send([notification()])
    wait_until_equal(lambda: firing(alerts), [("critical", "payments")], "the alert")
    (shown,) = get_json(f"{alerts}/api/v2/alerts")
    assert shown["labels"]["alertname"] == "KafkaTransactionOverdue"
    assert shown["labels"]["transactional_id"] == "pay"
    assert shown["generatorURL"] == shown["annotations"]["page_url"] == f"{BASE}/clusters/orders/findings/id-of-pay"
    assert shown["annotations"]["runbook_url"] == f"{BASE}/guide/runbooks/KafkaTransactionOverdue.md"
    pager.send([notification(2, "resolved")])
    wait_until_equal(lambda: firing(alerts), [], "the end of the alert")


def test_a_graver_alert_takes_the_place_of_the_one_before(alerts: str) -> None:
    pager = receiver("alertmanager", alerts)
    pager.send([notification(severity=Severity.WARNING, owner="search")])
    wait_until_equal(lambda: firing(alerts), [("warning", "search")], "the first alert")
    pager.repeat([notification(2, "updated")])
    wait_until_equal(lambda: firing(alerts), [("critical", "payments")], "the second alert alone")
    pager.send([notification(3, "resolved")])
    wait_until_equal(lambda: firing(alerts), [], "the end of the alert")


def test_an_alert_that_was_resolved_before_it_grew_is_ended_too(alerts: str) -> None:
    pager = receiver("alertmanager", alerts)
    pager.send([notification(severity=Severity.WARNING), notification(name=b"other")])
    wait_until_equal(lambda: len(firing(alerts)), 2, "both alerts")
    pager.send([notification(2, "resolved", severity=Severity.CRITICAL)])
    wait_until_equal(lambda: firing(alerts), [("critical", "payments")], "only the alert of the other id")


def test_another_server_than_alertmanager_is_named(server: Endpoint) -> None:
    server.answers = [404]
    with pytest.raises(Undelivered, match="answered with status 404"):
        receiver("alertmanager", server.url).send([notification()])


def test_people_get_one_message_with_the_worst_first(server: Endpoint, tmp_path: Path) -> None:
    file = tmp_path / "addresses"
    file.write_text(f"# the team\n{server.url.replace('http://', 'json://')}/chat\n")
    people = receiver("apprise", url_file=file)
    assert people.gathers_s > 0
    news = [notification(number, name=b"pay-%d" % number, severity=Severity.WARNING) for number in range(30)]
    news += [notification(31, name=b"pay-0", event="resolved"), notification(32, name=b"worst")]
    people.send(news)
    (request,) = server.requests
    told = request.json
    assert told["title"] == "orders: 31 findings: 30 open, 1 resolved"
    assert told["message"].startswith("- critical: ")
    assert "and 21 more: https://txnscope.example.org/clusters/orders/findings" in told["message"]
    assert told["type"] == "failure"
    people.send([notification(33, name=b"worst", event="resolved")])
    assert server.requests[1].json["type"] == "success"
    assert server.requests[1].json["title"] == "orders: resolved: overdue_transaction"


def test_an_id_in_a_message_calls_nobody(server: Endpoint) -> None:
    news = [notification(1, name=b"<!channel>"), notification(2, name=b"@everyone")]
    receiver("apprise", server.url.replace("http://", "json://")).send(news)
    text = "\n".join(line for line in server.requests[0].json["message"].splitlines() if "://" not in line)
    assert all(name in text for name in ("‹!channel›", "＠everyone"))  # noqa: RUF001 - similar on purpose
    assert not any(call in text for call in ("<!", "@everyone"))


def test_a_failure_shows_no_secret_of_an_address(server: Endpoint) -> None:
    server.answers = [500]
    url = server.url.replace("http://", "json://user:geheim@")
    with pytest.raises(Undelivered) as failure:
        receiver("apprise", url).send([notification()])
    table = NotifyTable(name="chat", kind="apprise", url=url)
    assert "geheim" not in str(failure.value) + repr(table) + json.dumps(str(table))
