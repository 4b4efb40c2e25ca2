"""Requests the pages of the services again and again. Measures how long no service answers, and how old the data
are."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from service.domain.source_state import SourceName
from tests.helpers.waiting import LIMIT_S

_PATIENCE_S: Final = 30.0
_OF_CLUSTER: Final = (
    "",
    "/findings",
    "/transactions",
    "/applications",
    "/partitions",
    "/groups",
    "/expiring",
    "/pipeline",
)
_OF_REST: Final = (
    "",
    "/transactions",
    "/findings",
    "/hanging",
    "/partitions",
    "/groups",
    "/coordinators",
    "/applications",
)
_SOURCES: Final = (SourceName.TRANSACTION_LOG, SourceName.PARTITIONS)


@dataclass
class Figures:
    """The figures of one phase, in seconds.

    - `together`: the longest time for which one of the pages got no good answer from any service.
    - `alone`: the longest time for which one of the pages got no good answer from one of the services.
    - `age`: the greatest age that the data of any source had.
    - `stood`: the longest time for which no new data of one source arrived.
    """

    together: float = 0.0
    alone: float = 0.0
    age: float = 0.0
    stood: float = 0.0


@dataclass
class Polled:
    """The results so far. `phases`: the figures of each phase, keyed by its name. `answers`: the number of good
    answers. `others`: the number of other answers and of failed requests, keyed by status or reason."""

    phases: dict[str, Figures] = field(default_factory=dict)
    answers: int = 0
    others: Counter[str] = field(default_factory=Counter)


class Polling:
    """Requests each page of the services at `ports` again and again, with one thread for each service,
    and `pause_s` seconds between two requests."""

    def __init__(self, ports: Sequence[int], cluster: str, transactional_id: str, pause_s: float) -> None:
        self._pause_s = pause_s
        self._ports, self._rest = ports, f"/api/v1/clusters/{cluster}"
        self._paths = [
            *("/", "/metrics", "/-/ready", "/api/v1/clusters", "/notifications"),
            *(f"/clusters/{cluster}{page}" for page in _OF_CLUSTER),
            f"/clusters/{cluster}/transaction?id={transactional_id}",
            *(f"{self._rest}{page}" for page in _OF_REST),
            *(f"{self._rest}/transaction{part}?id={transactional_id}" for part in ("", "/timeline", "/rates")),
        ]
        self.polled = Polled()
        self._lock = threading.Lock()
        self._good_s: dict[tuple[int, str], float] = {}
        self._as_of: dict[str, tuple[float, float]] = {}
        self._phase = Figures()

    @property
    def pages(self) -> int:
        return len(self._paths)

    def is_ready(self, port: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=_PATIENCE_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def begin(self, phase: str) -> None:
        """Begins a phase. From now on, the figures belong to this phase."""
        with self._lock:
            self._phase = self.polled.phases.setdefault(phase, Figures())

    @contextmanager
    def running(self) -> Iterator[None]:
        stop = threading.Event()
        now = time.monotonic()
        self._good_s = {(port, path): now for port in self._ports for path in self._paths}
        threads = [threading.Thread(target=self._ask, args=(port, stop), daemon=True) for port in self._ports]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(LIMIT_S)

    def _ask(self, port: int, stop: threading.Event) -> None:
        while not stop.is_set():
            for path in self._paths:
                stop.wait(self._pause_s)
                body = self._answer(port, path)
                if body is not None and path == self._rest:
                    self._note_age(json.loads(body))

    def _answer(self, port: int, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=_PATIENCE_S) as answer:
                body: bytes = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                self._note_other(f"{error.code} {_reason(error.read())}")
            return None
        except OSError as error:
            self._note_other(f"no connection ({type(getattr(error, 'reason', error)).__name__})")
            return None
        self._note_good(port, path)
        return body

    def _note_other(self, what: str) -> None:
        with self._lock:
            self.polled.others[what] += 1

    def _note_good(self, port: int, path: str) -> None:
        with self._lock:
            now = time.monotonic()
            newest = max(self._good_s[port, path] for port in self._ports)
            self._phase.together = max(self._phase.together, now - newest)
            self._phase.alone = max(self._phase.alone, now - self._good_s[port, path])
            self._good_s[port, path] = now
            self.polled.answers += 1

    def _note_age(self, cluster: Any) -> None:
        as_of = {source["source"]: source["as_of"] for source in cluster["sources"]}
        now = time.time()
        with self._lock:
            for source in _SOURCES:
                if as_of.get(source) is None:
                    continue
                at_s = datetime.fromisoformat(as_of[source]).timestamp()
                before_s, moved_s = self._as_of.get(source, (at_s, now))
                self._phase.age = max(self._phase.age, now - at_s)
                self._phase.stood = max(self._phase.stood, now - moved_s)
                if at_s > before_s or source not in self._as_of:
                    self._as_of[source] = at_s, now


def _reason(body: bytes) -> str:
    """Returns the `detail` of a problem document (at most 200 characters), or "page of an error" for any other body."""
    try:
        return str(json.loads(body)["detail"])[:200]
    except (ValueError, KeyError, TypeError):
        return "page of an error"
