"""Tests of misbehaving servers and brokers. The client reports each one in one line, after a bounded wait and with
bounded memory.

The client still reads the partitions of other brokers.
"""

from __future__ import annotations

import re
import socket
import struct
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from deploy.demo.broker import Broker
from service.kafka import client as client_module
from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout, cluster_id, topic_layout
from service.kafka.connections import Connections
from service.kafka.ends import EndsWatcher
from service.kafka.errors import KafkaUnavailable
from service.kafka.settings import ClientSettings
from tests.helpers.brokers import Cluster
from tests.helpers.certificates import Authority
from tests.helpers.proxies import Misbehaviour, Proxies, endless, flood, garbage, huge, silent
from tests.helpers.servers import Served, serving
from tests.helpers.waiting import wait_for, wait_until
from tests.integration.producers import create_topic

LATE_S = 10.0
"""Limit in seconds for a `with bounded()` block, and for a sample. Bounded waits end earlier, even on a slow machine. A
wait without a bound would never end."""
INVALID = "gives no valid answer: "
NONE = "does not answer: "
NOT_IN_TIME = f"{NONE}no answer in time"
MEMORY = 400 << 20
"""Limit of the allocated bytes. Three frames of 96 MB (MAX_RESPONSE_BYTES) fit: a frame being read, its copy, and the
next frame."""


@contextmanager
def bounded() -> Iterator[None]:
    """Fails if the `with` block takes longer than LATE_S or allocates more than MEMORY."""
    tracemalloc.start()
    began = time.monotonic()
    try:
        yield
        assert time.monotonic() - began < LATE_S
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


class TestFirstContact:
    """Tests of the first connection to a server that is no broker, or that is a broken broker."""

    @pytest.mark.parametrize(
        ("served", "failure"),
        [
            (
                Served(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
                f"{INVALID}it answers as an HTTP server, not as a Kafka broker",
            ),
            (Served(b"\x15\x03\x03\x00\x02\x02\x0a"), f"{INVALID}it answers as a TLS listener, not as a Kafka broker"),
            (Served(struct.pack(">i", 2**31 - 1)), f"{INVALID}2147483647 is not a valid length of a Kafka frame"),
            (Served(struct.pack(">i", -5)), f"{INVALID}-5 is not a valid length of a Kafka frame"),
            (
                Served(struct.pack(">ii", 40, 1) + bytes(range(90, 126))),
                f"{INVALID}(Unable to decode response|its answer .*)",
            ),
            (Served(struct.pack(">ii", 8, 77) + bytes(4)), f"{INVALID}Correlation IDs do not match: sent 1, recv 77"),
            (Served(), f"{NONE}it closed the connection"),
            (Served(is_silent=True), NOT_IN_TIME),
            (Served(struct.pack(">i", 90 << 20), 0.02, b"x" * 1000), NOT_IN_TIME),
            (
                Served(struct.pack(">i", 90 << 20), 0, b"x" * (1 << 20)),
                f"{INVALID}Correlation IDs do not match: .*|{NOT_IN_TIME}",
            ),
        ],
        ids=["http", "tls", "2 GB", "negative", "garbage", "other", "closed", "silent", "drip", "flood"],
    )
    def test_a_failure_is_one_line_with_host_and_reason(
        self, served: Served, failure: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if NOT_IN_TIME in failure:
            monkeypatch.setattr(client_module, "CONNECT_TIMEOUT_MS", 1_000)
        with serving(served) as address, bounded(), pytest.raises(KafkaUnavailable) as raised:
            KafkaClient(ClientSettings.load(address, None))
        assert re.fullmatch(f"{address} ({failure})", str(raised.value))

    def test_a_tls_listener_that_never_answers_is_given_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(client_module, "CONNECT_TIMEOUT_MS", 1_000)
        with serving(Served(is_silent=True)) as address, bounded(), pytest.raises(KafkaUnavailable) as failure:
            KafkaClient(ClientSettings.load(address, tls(tmp_path)))
        assert re.fullmatch(
            f"{address} does not answer: (no answer in time|TLS: the handshake did not end in time)", str(failure.value)
        )

    def test_an_expired_certificate_is_named(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        expired = authority.issue("broker", life=-timedelta(hours=1))
        with serving(Served(), certificate=expired) as address, bounded(), pytest.raises(KafkaUnavailable) as failure:
            KafkaClient(ClientSettings.load(address, tls(tmp_path, authority.certificate)))
        assert (
            str(failure.value) == f"{address} does not answer: TLS: the certificate is refused: certificate has expired"
        )

    def test_of_several_servers_the_last_one_is_named(self) -> None:
        with serving(Served()) as one, serving(Served()) as two, pytest.raises(KafkaUnavailable) as failure:
            KafkaClient(ClientSettings.load(f"{one},{two}", None))
        assert re.fullmatch(f"{one},{two} does not answer: ({one}|{two}): it closed the connection", str(failure.value))

    def test_an_attempt_that_the_limit_cuts_off_does_not_hide_the_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        failures = [KafkaConnectionError("it closed the connection"), KafkaConnectionError("Connection timed out")]

        async def fail(connections: Connections, server: str, timeout_ms: float) -> None:
            failure = failures.pop(0)
            if not failures:
                time.sleep(timeout_ms / 1000)
            raise failure

        monkeypatch.setattr(Connections, "_learn_brokers", fail)
        with pytest.raises(KafkaUnavailable, match="it closed the connection"):
            KafkaClient(ClientSettings.load("127.0.0.1:9", None))


def tls(folder: Path, trusted: Path | None = None) -> Path:
    file = folder / "client.properties"
    trust = f"ssl.truststore.location={trusted}\n" if trusted else ""
    file.write_text(f"security.protocol=SSL\n{trust}")
    return file


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster("3.9.2", tmp_path_factory.mktemp("misbehaving")) as running:
        create_topic(running.bootstrap, "spread", partitions=6)
        yield running


@pytest.mark.broker
class TestOneOfThreeBrokers:
    """Tests of a cluster in which one broker misbehaves after the connection is made."""

    @pytest.mark.parametrize("how", [garbage, huge, endless, flood, silent], ids=lambda how: how.__name__)
    def test_partitions_of_other_brokers_are_read_while_one_misbehaves(
        self, cluster: Cluster, how: Misbehaviour
    ) -> None:
        with (
            Proxies({node: broker.bootstrap for node, broker in cluster.nodes.items()}) as proxies,
            KafkaClient(ClientSettings.load(proxies.bootstrap, None)) as client,
        ):
            layout = wait_for(lambda: topic_layout(client, "spread"), "the layout of the topic")
            layouts, watcher = {"spread": layout}, EndsWatcher(client)
            led = {p for p, leader in layout.leaders.items() if leader.node == 2}
            wait_until(lambda: unread(watcher, layouts), lambda found: found == set(), "all partitions to be read")
            proxies.misbehave(2, how)
            with bounded():
                assert unread(watcher, layouts) <= led
            wait_until(
                lambda: unread(watcher, layouts), lambda found: found == led, "the partitions of broker 2 to be unread"
            )
            began = time.monotonic()
            assert unread(watcher, layouts) == led
            assert time.monotonic() - began < LATE_S, "the second sample does not wait for broker 2"
            assert watcher.trouble is not None
            assert re.fullmatch(rf"broker 2 \({proxies.address(2)}\) ({INVALID}|{NONE})[^\n]+", watcher.trouble)
            proxies.behave(2)
            wait_until(
                lambda: unread(watcher, layouts), lambda found: found == set(), "all partitions to be read again"
            )
            assert cluster_id(client)


@pytest.mark.broker
def test_a_host_name_whose_address_changes_is_resolved_again(
    broker_431: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker is real, and the name resolution is faked."""
    where = {"kafka.one": "127.0.0.1"}
    look_up = socket.getaddrinfo

    def found(host: str, *more: Any, **options: Any) -> Any:
        return look_up(where.get(host, host), *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    with Proxies({1: broker_431.bootstrap}, name="kafka.one") as old:
        port = old.port(1)
        client = KafkaClient(ClientSettings.load(old.bootstrap, None))
        assert cluster_id(client)
    with client, Proxies({1: broker_431.bootstrap}, host="127.0.0.2", ports={1: port}, name="kafka.one"):
        with pytest.raises(KafkaUnavailable, match=rf"^broker 1 \(kafka.one:{port}\) does not answer: "):
            cluster_id(client)
        where["kafka.one"] = "127.0.0.2"
        wait_for(lambda: cluster_id(client), "an answer from the new address", retry_on=(KafkaUnavailable,))


def unread(watcher: EndsWatcher, layouts: Mapping[str, TopicLayout]) -> set[int]:
    """Returns the partitions without an answer in a sample of all partitions."""
    found = watcher.sample(layouts, with_start=True)
    return {p for (_, p), ends in found.items() if ends.error}
