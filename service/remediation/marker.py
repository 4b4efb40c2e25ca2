"""Writes the marker, with the same epochs as Kafka's own tool (TransactionsCommand, KIP-664)."""

from __future__ import annotations

from typing import Final

from service.domain.error_codes import error_text
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from service.kafka.markers import NEEDS, write_marker
from service.remediation.checks import Refused
from service.remediation.way_out import WayOut

_INVALID_PRODUCER_EPOCH: Final = 47
_COORDINATOR_FENCED: Final = 52
_PERHAPS_APPENDED: Final = frozenset({-1, 6, 7, 20})
"""Errors after which the leader may have the marker in its log. The leader appends the marker, then waits for its
replicas. Meanwhile it may give up (REQUEST_TIMED_OUT), lose replicas (NOT_ENOUGH_REPLICAS_AFTER_APPEND) or lose the
leadership (NOT_LEADER_OR_FOLLOWER) (`ReplicaManager.appendRecords`). UNKNOWN_SERVER_ERROR leaves open what happened."""


class Unanswered(KafkaUnavailable):
    """The request with the marker got no answer, or an answer that does not tell what happened: the marker may be in
    the log, may still be appended, or may never have reached the broker."""


def write(client: KafkaClient, way: WayOut) -> None:
    """Writes the marker; once the function returns, the marker is in the log. Raises Unanswered if the marker may or
    may not be in the log; Refused, KafkaRefused or KafkaUnavailable if it was not written."""
    try:
        code = write_marker(
            client,
            way.leader.node,
            topic=way.topic,
            partition=way.partition,
            producer_id=way.producer_id,
            producer_epoch=way.producer_epoch,
            coordinator_epoch=way.coordinator_epoch,
            commit=way.commit,
        )
    except KafkaUnavailable as e:
        raise Unanswered(_unknown(way, str(e))) from e
    if code == errors.NONE:
        return
    if code == errors.CLUSTER_AUTHORIZATION_FAILED:
        raise KafkaRefused(f"nothing was written: the permission to write markers is missing: grant {NEEDS}")
    if code in (_INVALID_PRODUCER_EPOCH, _COORDINATOR_FENCED):
        raise Refused(
            f"nothing was written: broker {way.leader.node} refuses the marker, because producer id {way.producer_id}"
            f" has a newer epoch or marker on {way.place} ({error_text(code)})"
        )
    if code in _PERHAPS_APPENDED:
        raise Unanswered(_unknown(way, f"broker {way.leader.node} answers with {error_text(code)}"))
    if code in errors.TRANSIENT:
        raise KafkaUnavailable(
            f"nothing was written: broker {way.leader.node} cannot write the marker now ({error_text(code)}):"
            " repeat the request"
        )
    raise KafkaRefused(f"nothing was written: broker {way.leader.node} refuses the marker ({error_text(code)})")


def _unknown(way: WayOut, why: str) -> str:
    return (
        f"it is not known whether {way.marker} was written to {way.place} ({why}). If it was written, the finding"
        " resolves within seconds. If the finding does not resolve, repeat the request; all checks are then made again"
    )
