"""Tests that REST, the page /notifications, the command line and the metrics show the deliveries of notifications."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.cli import main
from service.store import receivers
from tests.helpers.findings import WithFindings
from tests.helpers.stores import NOW_MS, client_of
from tests.helpers.terminal import Ask
from tests.service.notifications.receiving import endpoint


def stored(cluster: WithFindings) -> None:
    cluster.read()
    with cluster.engine.begin() as connection:
        for name in ("chat <b>", "pager"):
            receivers.add_receiver(connection, name, "webhook", 0)
        receivers.note_failure(connection, "pager", "it answered 503", NOW_MS - 60_000)
        receivers.note_delivery(connection, "chat <b>", 3, NOW_MS, delivered=3, dropped=1, begun=(), ended=())


pytestmark = pytest.mark.cluster(stored=stored)


@pytest.fixture
def client(cluster: WithFindings) -> Iterator[TestClient]:
    with client_of(cluster.url) as found:
        yield found


def test_rest_lists_the_receivers_by_name(client: TestClient) -> None:
    first = client.get("/api/v1/notifications", params={"limit": 1}).json()
    second = client.get("/api/v1/notifications", params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert second["next_cursor"] is None
    (chat,), (pager,) = first["items"], second["items"]
    assert (chat["receiver"], chat["delivered"], chat["dropped"], chat["failing_since"]) == ("chat <b>", 3, 1, None)
    assert (pager["receiver"], pager["failed"], pager["error"]) == ("pager", 1, "it answered 503")
    assert client.get("/api/v1/notifications", params={"lmit": 1}).status_code == 422


def test_the_page_shows_the_failing_receiver_first_and_escapes_names(client: TestClient) -> None:
    page = client.get("/notifications")
    assert page.status_code == 200
    assert "<b>" not in page.text
    assert page.text.index("pager") < page.text.index("chat")
    assert "it answered 503" in page.text
    assert "/notifications" in client.get("/").text


def test_the_command_prints_them(ask: Ask) -> None:
    code, out, _ = ask("notify")
    assert code == 0
    assert [line.split()[-1] for line in out.splitlines() if line.startswith("pager")] == ["503"]


def test_metrics_count_deliveries(client: TestClient) -> None:
    text = client.get("/metrics").text
    assert 'kafka_txn_notifications_total{outcome="failed",receiver="pager"} 1.0' in text
    assert 'kafka_txn_notifications_dropped_total{receiver="chat <b>"} 1.0' in text


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "txnscope.toml"


def test_a_test_reaches_the_receiver_that_is_named(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint() as one, endpoint() as other:
        config.write_text(
            f'[[notify]]\nname = "one"\nkind = "webhook"\nurl = "{one.url}"\n'
            f'[[notify]]\nname = "other"\nkind = "webhook"\nurl = "{other.url}"\n'
        )
        assert main(["notify", "--test", "other", "--config", str(config)]) == 0
        assert (len(one.requests), len(other.requests)) == (0, 1)
        assert other.requests[0].json["event"] == "test"
        assert "nothing is wrong" in other.requests[0].json["finding"]["summary"]
        one.answers = [500]
        assert main(["notify", "--test", "--config", str(config)]) == 3
        assert "one: the receiver answered with status 500" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "mistake"),
    [
        ('kind = "webhook"\nurl = "https://a"', "name"),
        ('name = "a"\nkind = "webhok"\nurl = "https://a"', "webhok"),
        ('name = "a"\nkind = "webhook"', "needs either url or url_file"),
        ('name = "a"\nkind = "webhook"\nurl = "https://a"\nurl_file = "b"', "needs either url or url_file"),
        ('name = "a"\nkind = "webhook"\nurl = "ftp://geheim"', "give one like https://"),
        ('name = "a"\nkind = "kafka"\nurl = "kafka://geheim:9092"', "kafka://HOST:PORT[,…]/TOPIC"),
        (
            'name = "a"\nkind = "webhook"\nurl = "https://a"\nallow_watched_cluster = true',
            "is for kafka, not for webhook",
        ),
        ('name = "a"\nkind = "webhook"\nurl = "https://a"\nmin_severity = "fatal"', "fatal"),
        ('name = "a"\nkind = "webhook"\nurl = "https://a"\nkinds = ["hangs"]', "hangs"),
        ('name = "a"\nkind = "webhook"\nurl = "https://a"\nsecret = "geheim"', "secret"),
        (
            'name = "a"\nkind = "webhook"\nurl = "https://a"\n[[notify]]\nname = "a"\nkind = "webhook"\nurl = "https://a"',
            "two receivers have the name 'a'",
        ),
    ],
)
def test_a_bad_table_is_named(config: Path, capsys: pytest.CaptureFixture[str], lines: str, mistake: str) -> None:
    config.write_text(f"[[notify]]\n{lines}\n")
    assert main(["notify", "--test", "--config", str(config)]) == 2
    error = capsys.readouterr().err
    assert mistake in error
    assert len(error.splitlines()) == 1
    assert "geheim" not in error


def test_an_unknown_receiver_is_named(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text('[[notify]]\nname = "a"\nkind = "webhook"\nurl = "https://a"\n')
    assert main(["notify", "--test", "b", "--config", str(config)]) == 2
    assert "no [[notify]] has this name; there are: a" in capsys.readouterr().err
