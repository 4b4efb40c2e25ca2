"""Reads the transactional.ids that a transaction coordinator knows, and their states (KIP-664)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest

from service.domain.error_codes import error_text
from service.domain.transaction_log.coordinator_partition import coordinator_partition, partition_count
from service.domain.transaction_log.states import TOPIC
from service.kafka import errors
from service.kafka.client import REQUEST_TIMEOUT_MS, KafkaClient
from service.kafka.cluster import broker_ids, topic_layout

TRANSACTIONAL_ID_NOT_FOUND: Final = 105
_DOES_NOT_KNOW: Final = (errors.NONE, TRANSACTIONAL_ID_NOT_FOUND)
"""Error codes in the answer of a broker that does not know the id with the producer id in question. NONE: the broker
knows the id with another producer id. TRANSACTIONAL_ID_NOT_FOUND: the broker does not know the id at all."""


class TransactionDescription(NamedTuple):
    """A coordinator's description of one id. `state`: Kafka's name of the state; None if the coordinator does not know
    the id.

    `partitions`: in Ongoing, all partitions of the transaction; in PrepareX, the partitions that have no marker yet; in
    other states, empty.
    """

    state: str | None
    producer_id: int
    producer_epoch: int
    partitions: tuple[tuple[str, int], ...]


class ListedId(NamedTuple):
    """A transactional.id that a coordinator knows, with its present producer id. `state`: Kafka's name of the state."""

    transactional_id: str
    producer_id: int
    state: str


def list_transactions(
    client: KafkaClient, node: int, producer_ids: Sequence[int] = (), timeout_ms: int = REQUEST_TIMEOUT_MS
) -> list[ListedId]:
    """Returns the ids that broker `node` coordinates; if `producer_ids` are given, only ids that have one of these
    producer ids. Kafka silently leaves out ids that the principal may not describe. So an id that is missing from the
    result may still exist.

    Raises KafkaUnavailable (also while the broker loads any part of the transaction log) or KafkaRefused.
    """
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=list(producer_ids), max_version=0)
    answer = client.ask(request, node, timeout_ms)
    if answer.error_code:
        raise errors.KafkaUnavailable(f"ListTransactions of broker {node}: {error_text(answer.error_code)}")
    return [ListedId(t.transactional_id, t.producer_id, t.transaction_state) for t in answer.transaction_states]


def lists_ids_without_log(client: KafkaClient) -> bool:
    """Returns whether a broker lists transactional ids although the cluster has no topic `__transaction_state`. A
    broker of Apache Kafka that lists an id leads a partition of the topic, and so has the topic in its metadata.

    A broker that does not answer ListTransactions counts as one that lists no ids. Raises KafkaUnavailable if Metadata
    requests get no answer, KafkaRefused if the topic may not be described.
    """
    for node in broker_ids(client):
        try:
            listed = list_transactions(client, node)
        except errors.KafkaFailure:
            continue
        if listed and topic_layout(client, TOPIC, node) is None:
            return True
    return False


def describe_transactions(
    client: KafkaClient, coordinator: int, ids: Sequence[str], timeout_ms: int = REQUEST_TIMEOUT_MS
) -> dict[str, TransactionDescription]:
    """Asks the ids' coordinator to describe them, and returns the descriptions by id (see `descriptions_in`). Raises
    KafkaUnavailable or KafkaRefused."""
    return descriptions_in(client.ask(describe_request(ids), coordinator, timeout_ms))


def no_coordinator_knows(
    client: KafkaClient, transactional_id: str, producer_id: int, timeout_ms: int = REQUEST_TIMEOUT_MS
) -> bool | None:
    """Returns True if no coordinator will end the transaction of the id, False if a broker still ends it, and None if
    this is not known now. Call this for an id whose records were left behind in its former partition of the transaction
    log when partitions were added to the log.

    If a broker describes the id with `producer_id`, returns False: that broker has not restarted since partitions were
    added, and still ends the transaction. Returns True if two conditions are met. Every broker answers that it is not
    the coordinator, does not find the id, or has the id under another producer id. And the leader of the partition to
    which the id hashes now answers that it does not find the id, or has the id under another producer id. These answers
    do not become outdated: a broker that starts later reads the present number of partitions, and a broker that has not
    restarted loads no further partition (`TransactionStateManager.validateTransactionTopicPartitionCountIsStable`).

    Raises KafkaUnavailable or KafkaRefused.
    """
    layout = topic_layout(client, TOPIC)
    if layout is None:
        return None
    looked_for = coordinator_partition(transactional_id.encode(), partition_count(layout.leaders))
    leader = None if looked_for is None else layout.leaders.get(looked_for)
    requests = {node: [describe_request([transactional_id])] for node in broker_ids(client, timeout_ms)}
    answers = client.ask_all(requests, timeout_ms)
    found: dict[int, tuple[int, int]] = {}
    for node, answer in answers.items():
        if isinstance(answer, errors.KafkaFailure):
            return None
        (one,) = answer[0].transaction_states
        found[node] = one.error_code, one.producer_id
    if (errors.NONE, producer_id) in found.values():
        return False
    if leader is None or leader.node not in found or found[leader.node][0] not in _DOES_NOT_KNOW:
        return None
    return True if all(code in (*_DOES_NOT_KNOW, errors.NOT_COORDINATOR) for code, _ in found.values()) else None


def describe_request(ids: Sequence[str]) -> Any:
    return DescribeTransactionsRequest(transactional_ids=list(ids))


def descriptions_in(answer: Any) -> dict[str, TransactionDescription]:
    """Returns the descriptions in a coordinator's answer. Leaves out ids that the broker does not describe now: the
    principal has no DESCRIBE on the id, or the broker is not the coordinator any more, or is still loading.
    """
    found = {}
    for state in answer.transaction_states:
        if state.error_code == TRANSACTIONAL_ID_NOT_FOUND:
            found[state.transactional_id] = TransactionDescription(None, -1, -1, ())
        elif state.error_code == errors.NONE:
            places = tuple(sorted((t.topic, p) for t in state.topics for p in t.partitions))
            found[state.transactional_id] = TransactionDescription(
                state.transaction_state, state.producer_id, state.producer_epoch, places
            )
    return found
