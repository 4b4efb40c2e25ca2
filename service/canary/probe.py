"""Runs the canary's transactions at one coordinator: a transactional producer of librdkafka, and a read_committed
Fetch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from service.domain.canary.rounds import BROKER_NOT_AVAILABLE, REQUEST_TIMED_OUT, Failure, Phase, Round
from service.domain.canary.targets import Target
from service.kafka import errors
from service.kafka.canary_topic import look_for_committed
from service.kafka.client import KafkaClient
from service.kafka.errors import BadClientConfig, KafkaFailure, KafkaRefused
from service.kafka.librdkafka import config
from service.kafka.settings import ClientSettings

_silent: Final = logging.getLogger("txnscope.canary.librdkafka")

ROUND_S: Final = 4.0
"""Longest time (s) of a round. A round that takes longer has failed."""

ABORT_S: Final = 1.0
_LOOK_MS: Final = 500
_TRANSACTION_TIMEOUT_MS: Final = 10_000
_PRODUCER: Final = {
    "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
    "message.timeout.ms": int(ROUND_S * 1000),
    "socket.timeout.ms": int(ROUND_S * 1000),
    "socket.connection.setup.timeout.ms": int(ROUND_S * 1000),
    "reconnect.backoff.max.ms": 500,
    "linger.ms": 0,
    "queue.buffering.max.messages": 10,
    "allow.auto.create.topics": False,
    "log_level": 0,  # librdkafka's lines about its retries: what matters is in the round
}
_NAMES: Final = {
    "_TRANSPORT": "NETWORK_EXCEPTION",
    "_ALL_BROKERS_DOWN": BROKER_NOT_AVAILABLE,
    "_RESOLVE": "NETWORK_EXCEPTION",
    "_FENCED": "PRODUCER_FENCED",
    "_AUTHENTICATION": "SASL_AUTHENTICATION_FAILED",
    "_UNKNOWN_TOPIC": "UNKNOWN_TOPIC_OR_PARTITION",
    "_UNKNOWN_PARTITION": "UNKNOWN_TOPIC_OR_PARTITION",
}
"""Kafka's names for errors that librdkafka itself detects."""

_SAYS_LITTLE: Final = frozenset({"_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "_PURGE_QUEUE", "_PURGE_INFLIGHT"})
"""Errors that only report that something did not happen; the connection's own error says why."""


class Probe:
    """The canary's Kafka clients for one coordinator. Only one thread may use an object of this class. `now_s`: returns
    monotonic seconds."""

    def __init__(self, settings: ClientSettings, topic: str, now_s: Callable[[], float]) -> None:
        self._settings, self._topic, self._now_s = settings, topic, now_s
        self._producer: Producer | None = None
        self._reader: KafkaClient | None = None
        self._id = ""
        self._phase = Phase.INIT
        self._connection_error: KafkaError | None = None
        self._is_open = False

    def round(self, target: Target, at_ms: int) -> Round:
        """Runs one transaction, for at most ROUND_S. A failed round may take a little longer, because it aborts its
        transaction. After a failure, the next round makes new clients, which read the credentials again. Their
        InitProducerId fences a transaction that was left open."""
        give_up_s = self._now_s() + ROUND_S
        init_us = commit_us = visible_us = failure = None
        self._connection_error, self._phase = None, Phase.INIT
        try:
            if self._producer is None or self._id != target.transactional_id:
                begun_s = self._now_s()
                self._init(target, give_up_s)
                init_us = _us(self._now_s() - begun_s)
            producer = self._producer
            assert producer is not None
            if self._reader is None:
                self._reader = KafkaClient(self._settings, client_id="txnscope-canary")
            begun_s = self._now_s()
            offset = self._write(producer, target, give_up_s)
            self._phase = Phase.COMMIT
            producer.commit_transaction(self._left_s(give_up_s))
            self._is_open = False
            committed_s = self._now_s()
            commit_us = _us(committed_s - begun_s)
            self._phase = Phase.VISIBLE
            self._await_visible(target, offset, give_up_s)
            visible_us = _us(self._now_s() - committed_s)
        except KafkaException as error:
            failure = self._failure(error.args[0])
        except BadClientConfig as error:
            failure = Failure(self._phase, "_INVALID_ARG", str(error))
        except KafkaRefused as error:
            failure = Failure(self._phase, error.error, str(error))
        except KafkaFailure as error:
            failure = Failure(self._phase, "NETWORK_EXCEPTION", str(error))
        if failure is not None:
            self._forget(None if failure.error == REQUEST_TIMED_OUT else ABORT_S)
        return Round(at_ms, init_us, commit_us, visible_us, failure)

    def close(self) -> None:
        """Aborts the transaction that is open, if there is one, and forgets the clients."""
        self._forget(ABORT_S)

    def _forget(self, abort_within_s: float | None) -> None:
        """Aborts an open transaction, then forgets the clients. `abort_within_s`: longest time (s) for the abort. If it
        is None, nothing is aborted here, because the coordinator does not answer; the coordinator aborts the
        transaction after the transaction's timeout."""
        producer, reader, self._producer, self._reader = self._producer, self._reader, None, None
        if producer is not None:
            producer.purge()
            if self._is_open and abort_within_s is not None:
                with suppress(KafkaException):
                    producer.abort_transaction(abort_within_s)
        self._is_open = False
        if reader is not None:
            reader.close()

    def _init(self, target: Target, give_up_s: float) -> None:
        self.close()
        settings = config(self._settings) | _PRODUCER
        settings |= {"transactional.id": target.transactional_id, "error_cb": self._note_error}
        self._producer = producer = Producer(settings, logger=_silent)
        self._id = target.transactional_id
        producer.init_transactions(self._left_s(give_up_s))

    def _write(self, producer: Producer, target: Target, give_up_s: float) -> int:
        """Begins a transaction with one record, and returns the record's offset."""
        self._phase, outcomes = Phase.PRODUCE, list[Message | KafkaError]()
        producer.begin_transaction()
        self._is_open = True
        producer.produce(
            self._topic,
            b"",
            target.transactional_id,
            partition=target.topic_partition,
            on_delivery=lambda error, message: outcomes.append(message if error is None else error),
        )
        producer.flush(self._left_s(give_up_s))
        if not outcomes:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        (delivered,) = outcomes
        if isinstance(delivered, KafkaError):
            if delivered.name() in _SAYS_LITTLE:
                producer.commit_transaction(0.1)  # raises the error for which librdkafka gave the record up
            raise KafkaException(delivered)
        offset = delivered.offset()
        assert offset is not None
        return int(offset)

    def _await_visible(self, target: Target, offset: int, give_up_s: float) -> None:
        """Waits until the record is visible. Raises KafkaException, KafkaUnavailable or KafkaRefused."""
        assert self._reader is not None
        code = errors.NONE
        while (left_s := give_up_s - self._now_s()) > 0:
            wait_ms = min(int(left_s * 1000), _LOOK_MS)
            place = (self._topic, target.topic_partition, target.leader)
            is_visible, code = look_for_committed(self._reader, *place, offset, wait_ms)
            if is_visible:
                return
            if code != errors.NONE:
                break
        raise KafkaException(KafkaError(code or KafkaError._TIMED_OUT))

    def _left_s(self, give_up_s: float) -> float:
        return max(give_up_s - self._now_s(), 0.001)

    def _note_error(self, error: KafkaError) -> None:
        self._connection_error = error

    def _failure(self, error: Any) -> Failure:
        """Returns the failure. If librdkafka reports only a timeout, the failure has the connection's own error
        instead, if there is one."""
        if self._producer is not None:
            self._producer.poll(0)  # calls _note_error
        is_unseen = self._phase == Phase.VISIBLE  # then _await_visible raised the error, and not the producer
        if error.name() in _SAYS_LITTLE and not is_unseen and self._connection_error is not None:
            error = self._connection_error
        if error.name() in _SAYS_LITTLE:
            what = "the record was not seen" if is_unseen else "no answer"
            return Failure(self._phase, REQUEST_TIMED_OUT, f"{what} within {ROUND_S:g} s")
        name = error.name()
        return Failure(self._phase, _NAMES.get(name, name), " ".join(error.str().split()))


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)
