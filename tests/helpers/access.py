"""Runs a service with authentication over a store of two clusters, with a key for every role."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.access.configuration import AuthConfig, Person
from service.access.credentials import Hashed, new_key
from service.access.hosts import AllowedHosts
from service.access.principal import parse_grants
from service.api.http.access import AccessConfig
from service.app import create_app
from service.store import api_keys
from tests.helpers.partitions import PID, WithPartitions, entry, hanging_finding, read, stalled_partition
from tests.helpers.stores import NOW_MS, Id, SeededCluster

PASSWORD: Final = "correct-horse-battery"
HASHED: Final = Hashed.of(PASSWORD)

WHO: Final = {
    "viewer": ["viewer@orders"],
    "viewer of another": ["viewer@payments"],
    "operator": ["operator@orders"],
    "operator of another": ["operator@payments"],
    "viewer of all": ["viewer"],
    "admin": ["admin"],
    "scraper": ["metrics"],
}
"""A mapping from the name of each key to its roles."""


class Guarded:
    """A service with authentication. `client` sends requests to the service. `keys` has the API key of each name in
    WHO. `cluster` is "orders", and has a hanging transaction."""

    def __init__(self, client: TestClient, keys: Mapping[str, str], cluster: WithPartitions) -> None:
        self.client, self.keys, self.cluster = client, dict(keys), cluster

    def ask(self, who: str | None, path: str, method: str = "GET", **more: Any) -> Any:
        return self.client.request(method, path, headers=self.headers(who) | more.pop("headers", {}), **more)

    def headers(self, who: str | None) -> dict[str, str]:
        return {} if who is None else bearer(self.keys[who])

    def finding(self) -> str:
        (item,) = self.ask("admin", "/api/v1/clusters/orders/hanging").json()["items"]
        return str(item["id"])


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@contextmanager
def guarded_app(
    url: str,
    auth: AuthConfig | None = None,
    hosts: AllowedHosts | None = None,
    operators: Mapping[str, str] | None = None,
) -> Iterator[tuple[FastAPI, dict[str, str], WithPartitions]]:
    """Yields a service with authentication, its keys, and the cluster "orders", which has a hanging transaction. By
    default, the service accepts the keys of WHO, and the login of `ann`, an operator of "orders", with PASSWORD."""
    other = SeededCluster(url, "payments")
    other.read([Id(b"theirs")])
    cluster = WithPartitions(url)
    cluster.read([Id(b"pay", producer_id=PID)])
    cluster.look(stalled_partition(), read(entry()))
    cluster.see(hanging_finding())
    keys = {name: new_key() for name in WHO}
    for name, roles in WHO.items():
        api_keys.create(cluster.engine, name, keys[name], parse_grants(roles), "tests", NOW_MS)
    if auth is None:
        auth = AuthConfig(keys=True, basic={"ann": Person(password=HASHED, roles=parse_grants(["operator@orders"]))})
    yield create_app(url, "1.2.3", None, operators, lambda: NOW_MS, access=AccessConfig(auth, hosts)), keys, cluster
    cluster.close()
    other.close()


@contextmanager
def guarded(
    url: str, auth: AuthConfig | None = None, hosts: AllowedHosts | None = None, **more: Any
) -> Iterator[Guarded]:
    """Yields the service of `guarded_app`, with a client."""
    with (
        guarded_app(url, auth, hosts, **more) as (app, keys, cluster),
        TestClient(app, raise_server_exceptions=False) as client,
    ):
        yield Guarded(client, keys, cluster)
