"""A worker that asks Kafka in a thread of its own, so that a slow answer delays only the worker."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaFailure
from service.kafka.settings import ClientSettings
from service.processes.waiting import heard_by
from spark_jobs.runtime.error_summary import error_summary
from spark_jobs.runtime.liveness import BACKGROUND_S, Liveness

log = logging.getLogger(__name__)

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class KafkaWorker(Generic[Question, Answer]):
    """A worker with a thread of its own. The thread has its own connection, and ends with the `with` block. `ask` and
    `answers` return at once, without waiting for Kafka."""

    def __init__(self, name: str, client: ClientSettings, liveness: Liveness) -> None:
        self._name, self._settings, self._liveness = name, client, liveness
        self._client: KafkaClient | None = None
        self._questions: queue.Queue[Question] = queue.Queue(maxsize=1)
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._busy, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        """Stops the thread. Does not wait for an answer that is under way."""
        self._stopping.set()

    def ask(self, question: Question) -> bool:
        """Hands a question to the thread. Returns False, and drops the question, while the thread is busy with an
        earlier one."""
        if self._busy.is_set():
            return False
        self._busy.set()
        self._questions.put_nowait(question)
        return True

    def answers(self) -> list[Answer]:
        """Returns the answers that have arrived since the last call."""
        found = []
        while not self._answers.empty():
            found.append(self._answers.get())
        return found

    def _answer(self, question: Question) -> None:
        """Asks Kafka, and adds any answers to `_answers`. Runs in the worker's thread, and raises nothing."""
        raise NotImplementedError

    def _run(self) -> None:
        with self._liveness.part(f"the {self._name}", BACKGROUND_S) as part, heard_by(part.step):
            while not self._stopping.is_set():
                part.step()
                try:
                    question = self._questions.get(timeout=0.5)
                except queue.Empty:
                    continue
                self._answer(question)
                self._busy.clear()
        self._close()

    @contextmanager
    def _trying(self, failure: str) -> Iterator[None]:
        """Logs an exception that ends the block, and closes the connection; does not raise the exception."""
        try:
            yield
        except KafkaFailure as e:
            log.debug("%s: %s", failure, e)
            self._close()
        except Exception as e:
            log.warning("%s: %s", failure, error_summary(e))
            self._close()

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.close()
