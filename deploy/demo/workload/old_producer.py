"""A hand-made transactional producer for the old protocol that sends any request, right or wrong.

Client libraries no longer write after the end of a transaction, or to a partition that was never added. Clients in the
field have done both, and left hanging transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from deploy.demo.workload.raw_producer import (
    GROUPS,
    TRANSACTIONS,
    Connection,
    append,
    batch,
    coordinator,
    wait_for_state,
)
from service.kafka.client import KafkaClient

_ADD, _ADD_OFFSETS, _OFFSETS, _END = 3, 3, 3, 3
PRODUCE = 9, 11
"""The versions of Produce that Kafka 3.3 knows, up to the newest one that does not add partitions to the transaction by
itself."""


class OldProducer:
    """A producer that checks nothing before it sends. If `transactional_id` is None, it gets a producer id that no
    transaction coordinator knows, and its writes name the id `as_id`.
    """

    def __init__(self, connection: Connection, transactional_id: str | None, as_id: str = "") -> None:
        self.connection = connection
        self.name = transactional_id or as_id
        self.transactional_id = transactional_id
        self.producer_id, self.producer_epoch = -1, -1
        self._sequences: dict[tuple[str, int], int] = {}

    def init(self, timeout_ms: int = 60_000, *, own: bool = False) -> None:
        """Initializes the id; `own`: with the producer's own id and epoch, as after an error (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=self.producer_id if own else -1,
            producer_epoch=self.producer_epoch if own else -1,
            min_version=4,
            max_version=4,
        )
        key = (self.transactional_id, TRANSACTIONS) if self.transactional_id is not None else None
        answer = self._ask("InitProducerId", request, key, lambda said: said.error_code)
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    def add(self, topic: str, *partitions: int) -> None:
        """Adds partitions to the transaction: the coordinator will write its markers there."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))
            ],
            min_version=_ADD,
            max_version=_ADD,
        )
        self._ask("AddPartitionsToTxn", request, (self.name, TRANSACTIONS), _first_error_of_added)

    def produce(
        self,
        topic: str,
        partition: int,
        values: list[bytes],
        *,
        timestamp_ms: int | None = None,
        producer_epoch: int | None = None,
        retry_on: frozenset[int] = frozenset(),
    ) -> int:
        """Writes one batch, whether the partition was added or not. Returns its first offset. Raises Refused."""
        sequence = self._sequences.get((topic, partition), 0)
        epoch = self.producer_epoch if producer_epoch is None else producer_epoch
        records = batch(values, self.producer_id, epoch, sequence, timestamp_ms)
        offset = append(self.connection, topic, partition, records, self.name, PRODUCE, retry_on)
        self._sequences[topic, partition] = sequence + len(values)
        return offset

    def add_offsets(self, group: str) -> None:
        """Adds the partition that keeps the group's offsets, as `add` does."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=group,
            min_version=_ADD_OFFSETS,
            max_version=_ADD_OFFSETS,
        )
        self._ask("AddOffsetsToTxn", request, (self.name, TRANSACTIONS), lambda said: said.error_code)

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commits `offsets`, by (topic, partition), without being a member of the group. Raises Refused."""
        in_topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        at = in_topic.TxnOffsetCommitRequestPartition
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[
                in_topic(
                    name=topic,
                    partitions=[
                        at(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=-1,
                            committed_metadata="",
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
            min_version=_OFFSETS,
            max_version=_OFFSETS,
        )
        self._ask("TxnOffsetCommit", request, (group, GROUPS), _first_error_of_offsets)

    def end(self, *, commit: bool, wait: bool = True) -> None:
        """Ends the transaction. If `wait`, returns only when the coordinator reports that the markers are written."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=commit,
            min_version=_END,
            max_version=_END,
        )
        self._ask("EndTxn", request, (self.name, TRANSACTIONS), lambda said: said.error_code)
        if wait:
            ended = "CompleteCommit" if commit else "CompleteAbort"
            wait_for_state(self.connection, self.name, ended, self.connection.stop)

    def _ask(self, what: str, request: Any, key: tuple[str, int] | None, error_of: Any) -> Any:
        """Sends `request` to the coordinator of `key` (a name and its kind), or to any broker if None. Returns the
        answer."""

        def attempt(client: KafkaClient) -> tuple[int, Any]:
            code, node = coordinator(client, *key) if key else (0, None)
            if code:
                return code, None
            answer = client.ask(request, node)
            return error_of(answer), answer

        return self.connection.retry(f"{what} {self.name}", attempt)


def _first_error_of_added(answer: Any) -> int:
    codes = [p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition]
    return next((code for code in codes if code), 0)


def _first_error_of_offsets(answer: Any) -> int:
    return next((p.error_code for t in answer.topics for p in t.partitions if p.error_code), 0)
