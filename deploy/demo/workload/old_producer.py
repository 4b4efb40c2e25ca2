"""A hand-made transactional producer for the old protocol. It sends any request, right or wrong.

Current client libraries never write after the end of a transaction, or to a partition that was never added. Older
clients have done both, and left hanging transactions.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import AddPartitionsToTxnRequest

from deploy.demo.workload.raw_producer import (
    Connection,
    HandMadeProducer,
    append,
    ask_coordinator,
    batch,
    wait_for_state,
)

_VERSION = 3
"""Version of AddPartitionsToTxn and EndTxn requests."""
PRODUCE = 9, 11
"""The oldest and the newest version of Produce to send. Kafka 3.3 supports the oldest. In versions above the newest,
the leader adds partitions to the transaction by itself."""


class OldProducer(HandMadeProducer):
    """A producer of the old protocol. If `transactional_id` is None, InitProducerId contains no id, and all other
    requests contain `as_id`."""

    def __init__(self, connection: Connection, transactional_id: str | None, as_id: str = "") -> None:
        super().__init__(connection, transactional_id, transactional_id or as_id)

    def add(self, topic: str, *partitions: int) -> None:
        """Adds partitions to the transaction, so that the coordinator will write markers to them."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))
            ],
            min_version=_VERSION,
            max_version=_VERSION,
        )
        ask_coordinator(self.connection, request, self.name, error_of=_first_error_of_added)

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
        """Writes one batch, even if the partition was not added. Returns the first offset of the batch. Raises Refused,
        Stopped."""
        sequence = self._sequences.get((topic, partition), 0)
        epoch = self.producer_epoch if producer_epoch is None else producer_epoch
        records = batch(values, self.producer_id, epoch, sequence, timestamp_ms)
        offset = append(self.connection, topic, partition, records, self.name, PRODUCE, retry_on)
        self._sequences[topic, partition] = sequence + len(values)
        return offset

    def end(self, *, commit: bool, wait: bool = True) -> None:
        """Ends the transaction. If `wait`, returns only when the coordinator reports that the markers are written."""
        self._end(_VERSION, commit=commit)
        if wait:
            ended = "CompleteCommit" if commit else "CompleteAbort"
            wait_for_state(self.connection, self.name, ended)


def _first_error_of_added(answer: Any) -> int:
    codes = [p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition]
    return next((code for code in codes if code), 0)
