"""Tests that requests are counted by method, route template and status, and that docs/metrics.md lists the served
metrics."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.responses import StreamingResponse
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Message

from service.metrics.catalogue import OF_CLUSTERS
from service.metrics.page import Metrics
from service.metrics.requests import HttpMetrics
from service.store.engine import open_reader
from tests.helpers.metrics_document import DOCUMENT, OURS, document, page
from tests.helpers.waiting import ANSWER_S


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Metrics]:
    reader = open_reader(f"sqlite:///{tmp_path / 'store.db'}")
    yield Metrics(reader)
    reader.dispose()


def app(metrics: Metrics) -> FastAPI:
    router = APIRouter()

    @router.get("/clusters/{cluster}")
    def cluster(cluster: str) -> str:
        return cluster

    @router.get("/guide/{name:path}")
    def guide(name: str) -> str:
        return name

    @router.get("/broken")
    def broken() -> str:
        raise RuntimeError("on purpose")

    @router.get("/stream")
    def stream() -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"one "
            yield b"two"

        return StreamingResponse(parts())

    made = FastAPI()
    made.include_router(router, prefix="/api/v1")
    made.include_router(router)  # pages have the same paths, without the prefix
    made.add_middleware(HttpMetrics, requests=metrics.requests)
    return made


def ask(app: Any, path: str, method: str = "GET") -> tuple[int, list[bytes]]:
    messages: list[Message] = []

    requests = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Message:
        for request in requests:
            return request
        await asyncio.sleep(60)  # the client stays connected until it has its answer
        raise AssertionError("no answer")

    async def send(message: Message) -> None:
        messages.append(message)

    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": [], "http_version": "1.1"}
    asyncio.run(
        app(scope | {"scheme": "http", "server": ("t", 80), "client": ("t", 1), "root_path": ""}, receive, send)
    )
    return messages[0]["status"], [message["body"] for message in messages[1:] if message["body"]]


def counted(metrics: Metrics) -> dict[tuple[str, ...], float]:
    text = metrics.render("", "", 0)[0].decode()
    return {
        (sample.labels["method"], sample.labels["route"], sample.labels["status"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "http_requests_total"
    }


def test_requests_are_counted_by_route_template_and_status(metrics: Metrics) -> None:
    served = app(metrics)
    assert ask(served, "/api/v1/clusters/orders")[0] == 200
    assert ask(served, "/api/v1/clusters/payments")[0] == 200
    assert ask(served, "/api/v1/clusters/orders", "BREW")[0] == 405
    assert ask(served, "/wp-admin/setup.php")[0] == 404
    with pytest.raises(RuntimeError, match="on purpose"):
        ask(served, "/api/v1/broken")
    assert counted(metrics) == {
        ("GET", "/api/v1/clusters/{cluster}", "200"): 2,
        ("other", "/api/v1/clusters/{cluster}", "405"): 1,
        ("GET", "(none)", "404"): 1,
        ("GET", "/api/v1/broken", "500"): 1,
    }


def test_a_name_with_slashes_is_counted_under_one_route(metrics: Metrics) -> None:
    assert ask(app(metrics), "/api/v1/guide/runbooks/One.md") == (200, [b'"runbooks/One.md"'])
    assert counted(metrics) == {("GET", "/api/v1/guide/{name}", "200"): 1}


def test_durations_are_measured_by_route_template(metrics: Metrics) -> None:
    ask(app(metrics), "/api/v1/clusters/orders")
    text = metrics.render("", "", 0)[0].decode()
    assert 'http_request_duration_seconds_count{route="/api/v1/clusters/{cluster}"} 1.0\n' in text
    assert 'http_request_duration_seconds_bucket{le="30.0",route="/api/v1/clusters/{cluster}"} 1.0\n' in text


def test_a_stream_arrives_part_by_part(metrics: Metrics) -> None:
    assert ask(app(metrics), "/api/v1/stream") == (200, [b"one ", b"two"])


PROMTOOL = shutil.which("promtool")


def test_the_committed_document_equals_that_of_the_catalogue() -> None:
    assert DOCUMENT.read_text("utf-8") == document(), "out of date, run python -m tests.helpers.metrics_document"


def test_the_document_shows_a_series_of_every_metric() -> None:
    text = "".join(re.findall(r"^```\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    shown = {family.name: family for family in text_string_to_metric_families(text)}
    for metric in (*OF_CLUSTERS, *OURS):
        family = shown.pop(metric.name.removesuffix("_total"))
        assert family.documentation == metric.help
        assert family.samples, metric.name
        labels = set(family.samples[0].labels) - {"le"}
        assert labels == {*metric.labels, *(("cluster",) if metric in OF_CLUSTERS else ())}, metric.name
    assert not shown


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_accepts_the_metrics_page() -> None:
    command = [str(PROMTOOL), "check", "metrics"]
    result = subprocess.run(command, input=page(), capture_output=True, text=True, timeout=ANSWER_S, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
