"""Reads the transaction log with Kafka's own tools. Tests compare our results with the log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from deploy.demo.broker import Broker
from service.domain.transaction_log.states import COMPLETE_ABORT, COMPLETE_COMMIT, PREPARE_ABORT
from tests.helpers.waiting import LIMIT_S, wait_until
from tests.integration.application import log_ends, log_starts

FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


class Printed(NamedTuple):
    """A record of an id as Kafka prints it: the code of its state, the count of its partitions, and its times."""

    state: int
    partitions: int
    timeout_ms: int
    start_ms: int
    last_update_ms: int

    @property
    def is_abort(self) -> bool:
        """True if the record begins an abort of a transaction with partitions."""
        return self.state == PREPARE_ABORT and self.partitions > 0

    @property
    def ran_out(self) -> bool:
        """True if the record begins an abort of a transaction that was open for longer than its timeout."""
        return self.is_abort and self.last_update_ms - self.start_ms > self.timeout_ms


def history(tool: Broker, bootstrap: str) -> dict[str, list[Printed]]:
    """Returns a mapping from id to its records in the whole log, as Kafka's console consumer prints them: in log order,
    without tombstones.

    `tool` must be a 4.x broker, whose formatter prints JSON. The log may belong to a broker of any version.
    """
    found: dict[str, list[Printed]] = {}
    for record in _records(tool, bootstrap):
        data = (record.get("value") or {}).get("data")
        if isinstance(data, dict):
            partitions = sum(len(topic["partitionIds"]) for topic in data["transactionPartitions"] or ())
            times = [data[f"transaction{name}Ms"] for name in ("Timeout", "StartTimestamp", "LastUpdateTimestamp")]
            printed = Printed(data["transactionStatus"], partitions, *times)
            found.setdefault(record["key"]["data"]["transactionalId"], []).append(printed)
    return found


def completed(tool: Broker, bootstrap: str) -> dict[str, tuple[int, int]]:
    """Returns a mapping from id to (commits, aborts): the numbers of CompleteCommit and CompleteAbort records in the
    whole transaction log. `tool` must be a 4.x broker, as for `history`."""
    return ends_of(history(tool, bootstrap))


def ends_of(records: Mapping[str, Iterable[Printed]]) -> dict[str, tuple[int, int]]:
    """Returns a mapping from id to (commits, aborts): the numbers of CompleteCommit and CompleteAbort records in
    `records`."""
    states = {name: Counter(printed.state for printed in of_id) for name, of_id in records.items()}
    return {name: (counts[COMPLETE_COMMIT], counts[COMPLETE_ABORT]) for name, counts in states.items()}


def _records(tool: Broker, bootstrap: str) -> list[Any]:
    """Returns all records of the log. The console consumer ends after a time without records. On a busy machine, it may
    end before the first record. It therefore runs again, with a longer timeout, until it has read as many records as
    the log had."""
    starts, log = log_starts(bootstrap), log_ends(bootstrap)
    wanted = sum(end - starts[p] for p, end in log.items())
    patience_ms = iter((4_000, 10_000, 30_000))

    def read() -> list[Any]:
        printed = tool.tool(
            CONSUMER,
            *("--bootstrap-server", bootstrap, "--topic", "__transaction_state", "--from-beginning"),
            *("--formatter", FORMATTER, "--timeout-ms", str(next(patience_ms, 60_000))),
            timeout_s=LIMIT_S,
        )
        return list(_values(printed))

    return wait_until(read, lambda records: len(records) >= wanted, f"{wanted} records of the transaction log")


def _values(printed: str) -> Iterator[Any]:
    """Yields JSON values that follow one another without separators."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(printed):
        value, at = decoder.raw_decode(printed, at)
        yield value
        while printed[at : at + 1].isspace():
            at += 1
