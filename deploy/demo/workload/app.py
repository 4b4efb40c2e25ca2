"""What every application of the workload is made of: a name, a pace, and one step of work that leaves nothing open."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from deploy.demo.workload.ledger import Book


class World(NamedTuple):
    """Where and how the applications run.

    `prefix` goes before every topic, group and transactional.id. `timeout_ms` is the transaction timeout of those that
    let it pass. `stop` ends every wait.
    """

    bootstrap: str
    seed: int
    prefix: str
    timeout_ms: int
    stop: threading.Event


class App(ABC):
    """Lives in one thread. Its choices come from its own generator, so that they do not depend on the other threads."""

    name: ClassVar[str]
    shows: ClassVar[str]
    """What is to be seen on the page of `example`, for people."""
    topics: ClassVar[dict[str, int]]
    """Partitions by topic."""
    pause_s: ClassVar[float]
    """Between two steps, when running for people."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.book = Book(self.name)
        self.choices = random.Random(f"{world.seed}/{self.name}")

    @property
    @abstractmethod
    def example(self) -> str:
        """A transactional.id that exists from the first step on."""

    @abstractmethod
    def step(self) -> None:
        """Some work; every transaction begun in it has ended when it returns. Raises Stopped."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Leave a consumer group, close connections."""

    def named(self, name: str) -> str:
        return self.world.prefix + name
