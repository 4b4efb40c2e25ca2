"""The overview as it is served: its words, headline and links."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi.testclient import TestClient

from service.app import create_app
from tests.helpers.partitions import WithPartitions, moving_partition
from tests.helpers.stores import NOW_MS, Id, open_id
from tests.service.web.page_text import PageText

PAGE: Final = "/clusters/prod-eu"


def page_of(url: str, later_ms: int = 1_200, path: str = PAGE) -> str:
    with TestClient(create_app(url, "1.2.3", now_ms=lambda: NOW_MS + later_ms)) as client:
        response = client.get(path)
    assert response.status_code == 200, response.text
    return response.text


def words_of(html: str, id_: str = "") -> str:
    return PageText(html).texts[id_]


def links_of(html: str) -> list[str]:
    return [*PageText(html).links.values()]


def h1(html: str) -> str:
    (title,) = re.findall(r"<h1[^>]*>(.*?)</h1>", html)
    return str(title)


def quiet(cluster: WithPartitions, **more: Any) -> None:
    cluster.read([Id(b"a", commits=600)], now_ms=NOW_MS - 90_000)
    cluster.read([Id(b"a"), open_id("orders-etl-1", 3_200, timeout_ms=60_000)])
    cluster.look(moving_partition(0), moving_partition(1), **more)
