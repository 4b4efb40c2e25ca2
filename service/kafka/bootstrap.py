"""The first connection to a cluster, past servers that do not answer."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import kafka.errors
from kafka.net.compat import KafkaNetClient

from service.processes import progress

CONNECT_TIMEOUT_MS: Final = 5_000
PASS_ON_MS: Final = 1_500
"""How long one server of several is waited for before the next is asked. Slower ones are reached in the end, by
asking all with more patience."""
PASSED_ON: Final = 3


def bootstrapped(config: Mapping[str, Any], servers: Sequence[str]) -> KafkaNetClient:
    """A client that knows the brokers. Raises what the library raises: KafkaError, ValueError, AssertionError, OSError.

    The library picks a server at random and gives it all the time there is: of a frozen broker that is what the whole
    cluster seems to be.
    """
    if len(servers) > 1:
        for server in random.sample(servers, min(len(servers), PASSED_ON)):
            try:
                return _asked(config, [server], PASS_ON_MS)
            except kafka.errors.KafkaTimeoutError:
                continue
    return _asked(config, servers, CONNECT_TIMEOUT_MS)


def _asked(config: Mapping[str, Any], servers: Sequence[str], timeout_ms: int) -> KafkaNetClient:
    progress.step()
    client = KafkaNetClient(**{**config, "bootstrap_servers": list(servers)})
    try:
        client._manager.bootstrap(timeout_ms=timeout_ms)
    except BaseException:
        client.close()
        raise
    return client
