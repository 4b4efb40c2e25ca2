"""Tests of access to `/mcp`: the keys, roles, hosts and bounds are those of REST."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from service.access.configuration import AuthConfig
from service.access.credentials import new_key
from service.access.hosts import AllowedHosts
from service.access.principal import parse_grants
from service.api.http.access import AccessConfig
from service.app import create_app
from service.cli import exposure, main
from service.cli.commands import mcp as mcp_command
from service.mcp.http import McpEndpoint
from service.store import api_keys
from tests.helpers.access import WHO, bearer
from tests.helpers.brokers import free_port
from tests.helpers.partitions import PID, WithPartitions, entry, hanging_finding, read, stalled_partition
from tests.helpers.servers import serving_app
from tests.helpers.stores import NOW_MS, Id, SeededCluster
from tests.helpers.waiting import LIMIT_S
from tests.service.cli.test_running import Command
from tests.service.mcp.talking import answered, ask, by_http, by_stdio, served

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@dataclass
class Service:
    url: str
    keys: dict[str, str]

    def post(self, who: str | None, headers: dict[str, str] | None = None, **more: Any) -> httpx2.Response:
        credentials = {} if who is None else bearer(self.keys[who])
        body = more or {"json": LIST}
        with httpx2.Client(trust_env=False, timeout=60) as client:
            return client.post(f"{self.url}/mcp", headers=ACCEPT | credentials | (headers or {}), **body)


@pytest.fixture
def guarded(cluster: WithPartitions) -> Iterator[Service]:
    """Yields a service with authentication over two clusters. The cluster "orders" has a hanging transaction."""
    other = SeededCluster(cluster.url, "payments")
    other.read([Id(b"theirs")])
    cluster.read([Id(b"pay", producer_id=PID)])
    cluster.look(stalled_partition(), read(entry()))
    cluster.see(hanging_finding())
    keys = {name: new_key() for name in WHO}
    for name, roles in WHO.items():
        api_keys.create(cluster.engine, name, keys[name], parse_grants(roles), "tests", NOW_MS)
    access = AccessConfig(AuthConfig(keys=True), AllowedHosts("127.0.0.1"))
    app = create_app(cluster.url, "1.2.3", now_ms=lambda: NOW_MS, access=access, mcp=McpEndpoint("1.2.3"))
    with serving_app(app) as url:
        yield Service(url, keys)
    other.close()


@pytest.mark.parametrize(
    ("who", "status"), [(None, 401), ("scraper", 403), ("viewer", 200), ("viewer of another", 200), ("admin", 200)]
)
def test_a_viewer_of_any_cluster_may_ask(guarded: Service, who: str | None, status: int) -> None:
    answer = guarded.post(who)
    assert answer.status_code == status
    if status == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["detail"].startswith("this request needs credentials")
    if status == 200:
        assert len(answer.json()["result"]["tools"]) == 4


def test_tools_see_what_their_key_may_see(guarded: Service) -> None:
    async def look(client: Client) -> list[Any]:
        wrong = await ask(client, "what_is_wrong")
        names = [cluster["cluster"] for cluster in wrong["clusters"]]
        return [names, await ask(client, "history_of", cluster="orders", transactional_id="pay")]

    def by(who: str) -> Any:
        return by_http(guarded.url, look, bearer(guarded.keys[who]))

    names, history = by("viewer")
    assert (names, history["state"]) == (["orders"], "CompleteCommit")
    names, history = by("viewer of another")
    assert names == ["payments"]
    assert history == {"error": "'viewer of another' needs the role viewer in 'orders' for this request"}
    assert by("viewer of all")[0] == ["orders", "payments"]


def test_a_key_file_is_used_on_stdio(guarded: Service, tmp_path: Path) -> None:
    file = tmp_path / "viewer.key"
    file.write_text(guarded.keys["viewer"])
    file.chmod(0o600)

    async def look(client: Client) -> dict[str, Any]:
        return await ask(client, "what_is_wrong")

    assert [cluster["cluster"] for cluster in by_stdio(guarded.url, look, "--key-file", str(file))["clusters"]] == [
        "orders"
    ]
    without = by_stdio(guarded.url, look)
    assert without == {
        "error": "this request needs credentials, such as the header Authorization: Bearer KEY"
        " (for commands: --key-file FILE)"
    }


def test_requests_of_other_sites_and_hosts_are_refused(guarded: Service) -> None:
    assert guarded.post("viewer", {"Host": "evil.example.org"}).status_code == 421
    assert guarded.post("viewer", {"Origin": "https://evil.example.org"}).status_code == 403
    assert guarded.post("viewer", {"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_other_sites_are_refused_also_without_authentication(cluster: WithPartitions) -> None:
    cluster.read([Id(b"pay")])
    with served(cluster.url) as url:
        service = Service(url, {})
        assert service.post(None).status_code == 200
        assert service.post(None, {"Origin": "https://evil.example.org"}).status_code == 403
        assert service.post(None, {"Content-Type": "text/plain"}, content=json.dumps(LIST)).status_code == 403


def test_only_post_of_a_bounded_size_is_taken(guarded: Service) -> None:
    headers = bearer(guarded.keys["viewer"])
    with httpx2.Client(trust_env=False, timeout=60) as client:
        for method in ("GET", "DELETE", "PUT"):
            answer = client.request(method, f"{guarded.url}/mcp", headers=headers | ACCEPT)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    large = guarded.post("viewer", content=json.dumps(LIST | {"params": {"x": "x" * 200_000}}), headers=JSON)
    assert large.status_code == 413


JSON = {"Content-Type": "application/json"}


def test_clients_of_the_older_protocol_are_answered_too(cluster: WithPartitions) -> None:
    cluster.read([Id(b"pay")])

    async def look(client: Client) -> list[Any]:
        tools = (await client.list_tools()).tools
        return [client.protocol_version, len(tools), await ask(client, "what_is_wrong")]

    with served(cluster.url) as url:
        version, tools, wrong = by_http(url, look, mode="legacy")
    assert version < "2026"
    assert (tools, wrong["clusters"][0]["cluster"]) == (4, "orders")


def test_a_service_without_it_has_no_such_path(cluster: WithPartitions) -> None:
    cluster.read([Id(b"pay")])
    with serving_app(create_app(cluster.url, "1.2.3")) as url:
        assert Service(url, {}).post(None).status_code == 404


def test_requests_are_counted_by_route(guarded: Service) -> None:
    guarded.post("viewer")
    with httpx2.Client(trust_env=False, timeout=60) as client:
        page = client.get(f"{guarded.url}/metrics", headers=bearer(guarded.keys["scraper"])).text
    assert 'http_requests_total{method="POST",route="/mcp",status="200"} 1.0' in page


def test_a_service_that_is_away_is_reported_until_it_is_back(cluster: WithPartitions) -> None:
    """A client starts the process `txnscope mcp` once and keeps it running. If the service does not answer, the process
    must not end."""
    cluster.read([Id(b"pay")])
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    async def script(client: Client) -> list[dict[str, Any]]:
        with served(cluster.url, port):
            before = await ask(client, "what_is_wrong")
        away = await ask(client, "what_is_wrong")
        with served(cluster.url, port):
            return [before, away, await ask(client, "what_is_wrong")]

    before, away, after = by_stdio(url, script)
    assert away == {"error": f"no answer from {url} (--url): Connection refused"}
    assert before["clusters"] == after["clusters"]
    assert before["clusters"][0]["cluster"] == "orders"


def test_serve_answers_models_with_its_flag(cluster: WithPartitions, tmp_path: Path) -> None:
    cluster.read([Id(b"pay")])
    port = free_port()
    command = Command(tmp_path, "serve", "--port", str(port), "--store", cluster.url, "--mcp")
    command.wait_for_text("serving http")
    try:
        found = answered(lambda script: by_http(f"http://127.0.0.1:{port}", script), "what_is_wrong")
    finally:
        command.process.terminate()
        assert command.process.wait(LIMIT_S) == 0
    assert found["clusters"][0]["cluster"] == "orders"


@pytest.mark.parametrize("arguments", [("mcp",), ("serve", "--mcp"), ("watch", "--mcp")])
def test_a_missing_extra_is_named(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for module in (exposure, mcp_command):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    (tmp_path / "client.properties").write_text("bootstrap.servers=127.0.0.1:1\n")
    more = ("--kafka-config", "client.properties", "--cluster", "x") if arguments[0] == "watch" else ()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert main([*arguments, *more]) == 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "the package mcp is missing: install txnscope with its extra" in capsys.readouterr().err
