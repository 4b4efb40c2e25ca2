"""What Kafka's own tools say of the transaction log: the truth that ours is compared with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from deploy.demo.broker import Broker

FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
COMPLETE_COMMIT, COMPLETE_ABORT = 4, 5


def completed(tool: Broker, bootstrap: str) -> dict[str, tuple[int, int]]:
    """(commits, aborts) by id: completing records in the whole log, as Kafka's console consumer prints them.

    `tool` must be a 4.x broker (its formatter prints JSON); it may read the log of any other.
    """
    printed = tool.tool(
        CONSUMER,
        *("--bootstrap-server", bootstrap, "--topic", "__transaction_state", "--from-beginning"),
        *("--formatter", FORMATTER, "--timeout-ms", "4000"),
    )
    ends: Counter[tuple[str, int]] = Counter()
    for record in _values(printed):
        value = record.get("value") or {}
        if isinstance(value.get("data"), dict):
            ends[record["key"]["data"]["transactionalId"], value["data"]["transactionStatus"]] += 1
    names = {name for name, _ in ends}
    return {name: (ends[name, COMPLETE_COMMIT], ends[name, COMPLETE_ABORT]) for name in names}


def _values(printed: str) -> Iterator[Any]:
    """JSON values that follow one another with nothing in between."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(printed):
        value, at = decoder.raw_decode(printed, at)
        yield value
        while printed[at : at + 1].isspace():
            at += 1
