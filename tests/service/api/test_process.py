"""Tests of the service as a process: a real server, real sockets, the longest ids, a clean shutdown, and
schemathesis."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.domain.partitions.group_offsets import GroupOffset
from service.store.writers.groups import GroupWriter
from tests.helpers.partitions import (
    LSO,
)
from tests.helpers.paths import ROOT
from tests.helpers.stores import NOW_MS, Id, SeededCluster, open_id
from tests.helpers.waiting import ANSWER_S, LIMIT_S
from tests.service.api.answers import with_everything

SERVER = """
import socket, sys, fastapi.routing, uvicorn
from service.app import create_app

fastapi.routing._PING_INTERVAL = 0.5
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(create_app(sys.argv[1], "1.2.3"), log_level="warning")).run(sockets=[listening])
"""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}")
    cluster.read([open_id(b"\x00" * 32_767, 9_000), open_id(b"s" * 32_767, 8_000), Id(b"plain")])
    cluster.close()
    command = [sys.executable, "-c", SERVER, cluster.url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            _, complaints = process.communicate(timeout=LIMIT_S)
            assert complaints == ""
        finally:
            process.kill()


def get(port: int, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, json.loads(body) if "json" in response.headers["content-type"] else body.decode()


def test_a_server_answers_over_sockets_for_the_longest_ids(port: int) -> None:
    assert get(port, "/-/ready") == (200, "OK\n")
    found = []
    cursor: str | None = ""
    while cursor is not None:
        status, page = get(port, f"/api/v1/clusters/orders/transactions?limit=1{cursor and '&cursor=' + cursor}")
        assert status == 200
        found += page["items"]
        cursor = page["next_cursor"]
    assert [item["transactional_id"][:4] for item in found] == ["\0\0\0\0", "ssss", "plai"]
    for item in found:
        status, followed = get(port, item["href"])
        assert (status, followed["transactional_id"]) == (200, item["transactional_id"])
    assert get(port, "/api/v1/clusters/nope")[0] == 404


def test_head_is_answered_like_get_and_keeps_the_connection(port: int) -> None:
    """An answer to HEAD has no body. A client would read the bytes of a body as the beginning of the next answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    answers = []
    for path in ("/-/healthy", "/api/v1/clusters/orders/transactions", "/static/style.css", "/nothing"):
        for method in ("GET", "HEAD"):
            connection.request(method, path)
            response = connection.getresponse()
            headers = {name: value for name, value in response.getheaders() if name != "date"}
            answers.append((response.status, headers, response.read()))
    connection.close()
    for got, headed in zip(answers[::2], answers[1::2], strict=True):
        assert headed == (*got[:2], b"")
        assert int(headed[1]["content-length"]) == len(got[2])
    assert [status for status, _, _ in answers[::2]] == [200, 200, 200, 404]


def test_the_answer_to_head_of_the_stream_ends(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    for _ in range(2):
        connection.request("HEAD", "/api/v1/events")
        response = connection.getresponse()
        assert (response.status, response.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
        assert response.read() == b""
    connection.close()


def test_a_stream_begins_with_its_retry_and_has_heartbeats(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    connection.request("GET", "/api/v1/events?cluster=orders", headers={"Last-Event-ID": "77"})
    response = connection.getresponse()
    assert (response.status, response.getheader("x-accel-buffering")) == (200, "no")
    assert response.getheader("cache-control") in ("no-cache", "no-store")
    lines = [response.readline().decode().rstrip("\n") for _ in range(8)]
    assert lines == ["retry: 2000", "", "event: reset", "data: {}", "id: 0", "", ": ping", ""]
    connection.close()
    assert get(port, "/api/v1/events?cluster=nope")[0] == 404


def test_many_readers_at_once_are_all_answered(port: int) -> None:
    connections = []
    for _ in range(60):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
        connection.request("GET", "/api/v1/clusters/orders/transactions")
        connections.append(connection)
    statuses = {connection.getresponse().status for connection in connections}
    for connection in connections:
        connection.close()
    assert statuses == {200}


CONFIG = Path(__file__).with_name("schemathesis.toml")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Yields the address of a service without brokers. The store has rows for most routes."""
    cluster = with_everything(f"sqlite:///{tmp_path / 'store.db'}", "orders")
    waiting = GroupOffset("eos", "orders", 0, LSO, 2, False)
    GroupWriter(cluster.engine, cluster.lease).replace([waiting], NOW_MS)
    cluster.close()
    command = [sys.executable, "-c", SERVER, cluster.url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()
            process.wait(LIMIT_S)


@pytest.mark.in_turns
def test_schemathesis_finds_no_failure(address: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run"]
    result = subprocess.run(
        [*command, f"{address}/openapi.json", "--wait-for-schema", "120", "--no-color"],
        cwd=tmp_path,  # schemathesis keeps its examples of former runs in this directory
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    asked = re.search(r"([\d,]+) generated", result.stdout)
    assert asked, result.stdout[-2000:]
    assert int(asked[1].replace(",", "")) > 300, "schemathesis sent few requests"
