"""The base of every application of the workload: a name, a pace, and a step of work that leaves no transaction open."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from deploy.demo.workload.bookkeeping import Book


class AppContext(NamedTuple):
    """The surroundings of the applications.

    `prefix` goes before every topic, group and transactional.id. `timeout_ms` is the transaction timeout of the
    applications that let it pass. `stop` ends every wait.
    """

    bootstrap: str
    seed: int
    prefix: str
    timeout_ms: int
    stop: threading.Event


class App(ABC):
    """An application, in one thread. Its choices come from its own generator, so that they do not depend on the other
    threads."""

    name: ClassVar[str]
    shows: ClassVar[str]
    """A line for people on what the page of `example` shows."""
    topics: ClassVar[dict[str, int]]
    """Partitions by topic."""
    pause_s: ClassVar[float]
    """Seconds between two steps, when running for people."""

    def __init__(self, context: AppContext) -> None:
        self.context = context
        self.book = Book(self.name)
        self.choices = random.Random(f"{context.seed}/{self.name}")

    @property
    @abstractmethod
    def example(self) -> str:
        """A transactional.id that exists from the first step on."""

    @abstractmethod
    def step(self) -> None:
        """Does some work. Every transaction that it begins has ended when it returns. Raises Stopped."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Leaves a consumer group, closes connections."""

    def named(self, name: str) -> str:
        return self.context.prefix + name
