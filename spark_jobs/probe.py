"""Asks coordinators about a few ids, at leisure and in a thread of its own: a slow answer holds nobody up."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, NamedTuple

from service.domain.findings.conditions import IdNow
from service.domain.findings.mismatch import NOT_FOUND, Answer
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaFailure
from service.kafka.metadata import TopicLayout, topic_layout
from service.kafka.settings import ClientSettings
from service.kafka.transactions import Described, describe_transactions
from service.store.display import display_id
from spark_jobs.source.planner import wall_clock_ms

log = logging.getLogger(__name__)

IDS_AT_ONCE: Final = 20


class Question(NamedTuple):
    """About an id as the store has it now, for the broker that leads its log partition."""

    about: IdNow
    coordinator: int


class Probe:
    """`ask` and `answers` return at once. What cannot be answered is left out: the next question comes soon."""

    def __init__(self, client: ClientSettings) -> None:
        self._settings = client
        self._questions: queue.Queue[Sequence[Question]] = queue.Queue(maxsize=1)
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._client: KafkaClient | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        """Does not wait for an answer that is under way."""
        self._stopping.set()

    def ask(self, questions: Sequence[Question]) -> bool:
        """False while it is busy with earlier ones."""
        try:
            self._questions.put_nowait(questions)
        except queue.Full:
            return False
        return True

    def answers(self) -> list[Answer]:
        """Those that came since the last call."""
        found = []
        while not self._answers.empty():
            found.append(self._answers.get())
        return found

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                questions = self._questions.get(timeout=0.5)
            except queue.Empty:
                continue
            by_coordinator: dict[int, list[Question]] = {}
            for question in questions:
                by_coordinator.setdefault(question.coordinator, []).append(question)
            for coordinator, some in by_coordinator.items():
                try:
                    self._ask(coordinator, some)
                except KafkaFailure as e:
                    log.debug("broker %d was not asked about transactions: %s", coordinator, e)
                    self._close()
                except Exception:
                    log.warning("broker %d was not asked about transactions", coordinator, exc_info=True)
                    self._close()
        self._close()

    def _ask(self, coordinator: int, questions: Sequence[Question]) -> None:
        self._client = self._client or KafkaClient(self._settings)
        by_name = {q.about.transactional_id.decode(): q.about for q in questions if _is_plain(q.about)}
        asked_at_ms = wall_clock_ms()
        described = describe_transactions(self._client, coordinator, list(by_name))
        answered_at_ms = wall_clock_ms()
        layouts: dict[str, TopicLayout | None] = {}
        for name, said in described.items():
            one = by_name[name]
            missing = self._missing(said, layouts) if (said.state or "").startswith("Prepare") else ()
            self._answers.put(
                Answer(
                    one.transactional_id,
                    one.offset,
                    asked_at_ms,
                    answered_at_ms,
                    said.state or NOT_FOUND,
                    said.producer_id,
                    said.producer_epoch,
                    missing,
                )
            )

    def _missing(self, said: Described, layouts: dict[str, TopicLayout | None]) -> tuple[tuple[str, int, int], ...]:
        """The partitions still without marker, and who leads them (-1: nobody)."""
        assert self._client is not None
        found = []
        for topic, partition in said.partitions[:10]:
            if topic not in layouts:
                layouts[topic] = topic_layout(self._client, topic)
            layout = layouts[topic]
            leader = None if layout is None else layout.leaders.get(partition)
            found.append((topic, partition, -1 if leader is None else leader.node))
        return tuple(found)

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _is_plain(one: IdNow) -> bool:
    """Kafka's text holds it: others cannot be asked about."""
    return display_id(one.transactional_id).encode() == one.transactional_id
