"""A hand-made transactional producer for the newest protocol, and functions for requests to the coordinator of an id.

librdkafka uses the old protocol (TV0) on every cluster. Java's producer uses TV2 (KIP-890) if `transaction.version` is
2: the leader adds partitions by itself (Produce v12) and every EndTxn (v5) raises the epoch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from operator import attrgetter
from types import TracebackType
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest, ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from deploy.demo.workload.clients import PATIENCE_S, raise_if_stopped
from service.kafka.client import KafkaClient
from service.kafka.cluster import topic_layout
from service.kafka.errors import TRANSIENT, KafkaUnavailable
from service.kafka.settings import ClientSettings

_PRODUCE, _END = 12, 5
_FENCED = (47, 90)  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
_RETRIABLE = TRANSIENT | {14, 15, 16, 51}  # coordinator loading, not there, moved; CONCURRENT_TRANSACTIONS
_PAUSE_S = 0.05

TRANSACTIONS, GROUPS = 1, 0
"""Kinds of coordinators (`key_type` of FindCoordinator)."""


class Refused(Exception):
    """Kafka answered with an error that a retry does not fix, or no attempt succeeded within PATIENCE_S."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: error {code}")
        self.code = code


class Connection:
    """A connection that survives restarts of the broker: requests are repeated for up to PATIENCE_S. Not
    thread-safe."""

    def __init__(self, bootstrap: str, stop: threading.Event) -> None:
        self.bootstrap = bootstrap
        self._settings = ClientSettings.load(bootstrap, None)
        self.stop = stop
        self._client: KafkaClient | None = None

    def retry(
        self, what: str, attempt: Callable[[KafkaClient], tuple[int, Any]], retry_on: frozenset[int] = frozenset()
    ) -> Any:
        """Repeats `attempt`, which returns (error code, answer), until the code is 0. Returns the answer. `retry_on`:
        further codes after which to repeat, besides the transient errors. Raises Refused, Stopped."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            code, answer = self._try(attempt)
            if code == 0:
                return answer
            if code not in _RETRIABLE | retry_on or time.monotonic() > give_up:
                raise Refused(what, code)
            self.stop.wait(_PAUSE_S)
            raise_if_stopped(self.stop)

    def _try(self, attempt: Callable[[KafkaClient], tuple[int, Any]]) -> tuple[int, Any]:
        try:
            self._client = self._client or KafkaClient(self._settings, client_id="demo-raw")
            return attempt(self._client)
        except KafkaUnavailable:
            self.close()
            return 13, None  # NETWORK_EXCEPTION

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def transaction_version(connection: Connection) -> int:
    """Returns the cluster's finalized feature `transaction.version`; 0 if the cluster has no such feature."""

    def attempt(client: KafkaClient) -> tuple[int, Any]:
        answer = client.ask(ApiVersionsRequest(client_software_name="demo", client_software_version="1"))
        return answer.error_code, {f.name: f.max_version_level for f in answer.finalized_features or []}

    return int(connection.retry("ApiVersions", attempt).get("transaction.version", 0))


def ask_coordinator(
    connection: Connection,
    request: Any,
    key: str | None,
    kind: int = TRANSACTIONS,
    error_of: Callable[[Any], int] = attrgetter("error_code"),
) -> Any:
    """Sends `request` to the coordinator of `key` (a transactional.id, or a group), or to any broker if `key` is None.
    Returns the answer. Raises Refused, Stopped."""

    def attempt(client: KafkaClient) -> tuple[int, Any]:
        code, node = (0, None) if key is None else coordinator(client, key, kind)
        if code:
            return code, None
        answer = client.ask(request, node)
        return error_of(answer), answer

    return connection.retry(f"{type(request).__name__.removesuffix('Request')} {key}", attempt)


def describe(connection: Connection, transactional_id: str) -> Any:
    """Returns the DescribeTransactions answer: transaction_state, producer_id, producer_epoch, …"""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    answer = ask_coordinator(
        connection, request, transactional_id, error_of=lambda said: said.transaction_states[0].error_code
    )
    return answer.transaction_states[0]


def wait_for_state(connection: Connection, transactional_id: str, state: str) -> None:
    """Waits until the coordinator reports `state`. Raises Refused, Stopped, and TimeoutError after PATIENCE_S."""
    give_up = time.monotonic() + PATIENCE_S
    while (now := describe(connection, transactional_id).transaction_state) != state:
        if time.monotonic() > give_up:
            raise TimeoutError(f"{transactional_id} is {now}, not {state}")
        connection.stop.wait(0.1)
        raise_if_stopped(connection.stop)


class HandMadeProducer:
    """A producer that checks nothing before it sends a request. If `transactional_id` is None, the producer gets a
    producer id that no transaction coordinator knows. `name`: the transactional.id in all requests except
    InitProducerId."""

    def __init__(self, connection: Connection, transactional_id: str | None, name: str) -> None:
        self.connection, self.transactional_id, self.name = connection, transactional_id, name
        self.producer_id, self.producer_epoch = -1, -1
        self._sequences: dict[tuple[str, int], int] = {}

    def init(self, timeout_ms: int = 60_000, *, own: bool = False) -> None:
        """Sends InitProducerId. With `own`, the request contains the producer's present id and epoch, as after an error
        (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=self.producer_id if own else -1,
            producer_epoch=self.producer_epoch if own else -1,
            min_version=4,
            max_version=4,
        )
        self._set_identity(ask_coordinator(self.connection, request, self.transactional_id))

    def _end(self, version: int, *, commit: bool) -> Any:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=commit,
            min_version=version,
            max_version=version,
        )
        return ask_coordinator(self.connection, request, self.name)

    def _set_identity(self, answer: Any) -> None:
        """Takes over the producer id and epoch of `answer`, and resets the sequence numbers, which begin at 0 with
        every epoch."""
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()


class RawProducer(HandMadeProducer):
    """A producer of the protocol TV2. After each transaction, it uses the producer id and epoch of the EndTxn
    answer."""

    def __init__(self, connection: Connection, transactional_id: str) -> None:
        super().__init__(connection, transactional_id, transactional_id)

    def produce(self, topic: str, partition: int, values: list[bytes]) -> None:
        """Writes one batch and waits for its acknowledgement. The partition is then in the transaction."""
        sequence = self._sequences.get((topic, partition), 0)
        records = batch(values, self.producer_id, self.producer_epoch, sequence)
        append(self.connection, topic, partition, records, self.name, (_PRODUCE, _PRODUCE))
        self._sequences[topic, partition] = sequence + len(values)

    def end(self, *, commit: bool) -> None:
        try:
            self._set_identity(self._end(_END, commit=commit))
        except Refused as e:
            self._accept_ended(e, "Commit" if commit else "Abort")

    def _accept_ended(self, refused: Refused, outcome: str) -> None:
        """Accepts an EndTxn that was refused as fenced, if the coordinator has decided `outcome` for the transaction;
        otherwise raises `refused`. An EndTxn is refused, for example, if its first answer was lost in a restart of the
        coordinator: the repeated request has an old epoch."""
        now = describe(self.connection, self.name)
        done = now.producer_epoch == self.producer_epoch + 1 and now.transaction_state.endswith(outcome)
        if refused.code not in _FENCED or not done:
            raise refused
        self._set_identity(now)


def coordinator(client: KafkaClient, key: str, kind: int = TRANSACTIONS) -> tuple[int, int]:
    """Returns (error code, node) of the coordinator of a transactional.id, or of a group."""
    answer = client.ask(FindCoordinatorRequest(key=key, key_type=kind, max_version=3))
    return answer.error_code, answer.node_id


def batch(
    values: list[bytes], producer_id: int, producer_epoch: int, sequence: int, timestamp_ms: int | None = None
) -> bytes:
    """Returns one transactional batch, uncompressed. `timestamp_ms`: the timestamp of all its records; None for the
    present time."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        batch_size=1 << 20,
    )
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=timestamp_ms, key=None, value=value, headers=[])
    return bytes(builder.build())


def append(
    connection: Connection,
    topic: str,
    partition: int,
    records: bytes,
    transactional_id: str,
    versions: tuple[int, int],
    retry_on: frozenset[int] = frozenset(),
) -> int:
    """Produces `records` with acks=all. Returns the offset of the first record. Raises Refused, Stopped.

    `versions`: the oldest and the newest version of Produce that may be sent. The newest of these versions that the
    broker knows is sent.
    """
    data = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[data(name=topic, partition_data=[part])],
        min_version=versions[0],
        max_version=versions[1],
    )

    def attempt(client: KafkaClient) -> tuple[int, Any]:
        layout = topic_layout(client, topic)
        if layout is None:
            return 3, None  # UNKNOWN_TOPIC_OR_PARTITION
        answer = client.ask(request, layout.leaders[partition].node)
        appended = answer.responses[0].partition_responses[0]
        return appended.error_code, appended.base_offset

    return int(connection.retry(f"Produce {topic}-{partition}", attempt, retry_on))
