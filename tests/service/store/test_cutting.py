"""However a log is cut into batches, the store ends up the same, and its counts are what really happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Participants
from service.store import schema
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, Entry, batch, counters, entry, everything, read, rows

IDS = (b"a", b"b", b"c\x00")
NOTHING: tuple[Participants, ...] = ()

# what a coordinator appends for each deed: states, and their partitions where they are not the usual ones
DEEDS: dict[str, tuple[tuple[int, tuple[Participants, ...] | None], ...]] = {
    "init": ((states.EMPTY, None),),
    "rotate": ((states.EMPTY, None),),
    "open": ((states.ONGOING, (Participants("t", (0, 1)), Participants("u", (5,)))),),
    "commit": ((states.ONGOING, None), (states.PREPARE_COMMIT, None), (states.COMPLETE_COMMIT, None)),
    "abort": ((states.ONGOING, None), (states.PREPARE_ABORT, None), (states.COMPLETE_ABORT, None)),
    "empty abort": ((states.PREPARE_ABORT, NOTHING), (states.COMPLETE_ABORT, NOTHING)),
    "repeat": (),
    "expire": ((states.EXPIRED, None),),
    "undecodable": ((states.UNKNOWN, None),),
}


class Coordinator:
    """Writes a log, and knows where transactions ended and ids were removed."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.ends: dict[str, list[tuple[int, bytes]]] = {"commit": [], "abort": [], "expire": []}
        self._newest: dict[bytes, Entry] = {}
        self._pids: dict[bytes, int] = {}

    def do(self, key: bytes, deed: str) -> None:
        before = self._newest.get(key)
        if before is not None and before.record.state == states.EXPIRED and deed in ("expire", "undecodable"):
            return  # nothing is left to remove
        if deed == "rotate" or key not in self._pids:
            self._pids[key] = 100 + len(self.log)
        if deed == "repeat" and before is not None:
            again = before.record._replace(offset=len(self.log), timestamp_ms=self._now_ms())
            self._append(before._replace(record=again))
        started_ms = 5_000 + len(self.log)
        for state, topics in DEEDS[deed]:
            number, pid, at_ms = len(self.log), self._pids[key], self._now_ms()
            self._append(entry(number, state, key, pid=pid, start_ms=started_ms, at_ms=at_ms, topics=topics))
        if deed in self.ends:
            self.ends[deed].append((len(self.log) - 1, key))

    def _now_ms(self) -> int:
        """Some decisions are repeated quickly, some after longer than ordinary markers take."""
        return 10_000 + 400 * len(self.log)

    def _append(self, one: Entry) -> None:
        self.log.append(one)
        self._newest[one.transactional_id] = one

    def ended(self, deed: str, counted_from: int) -> Counter[bytes]:
        """Returns the number of ends of each id at or above this offset."""
        return Counter(key for offset, key in self.ends[deed] if offset >= counted_from)


def feed(cluster: Cluster, log: list[Entry], cuts: Iterable[int], counted_from: int) -> dict[str, list[dict[str, Any]]]:
    """Apply the log in pieces that end at `cuts`; what the store has then."""
    cluster.start({0: counted_from})
    edges = sorted({cut % (len(log) + 1) for cut in cuts} | {0, counted_from, len(log)})
    for lo, hi in pairwise(edges):
        span = read(lo, hi, end=len(log), counts=lo >= counted_from)
        cluster.writer.apply(batch(log[lo:hi], span), NOW_MS)
    found = everything(cluster.engine, cluster.id)
    found["coordinator_states"] = [r for r in found["coordinator_states"] if r["ids"]]
    return found


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    deeds=st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(sorted(DEEDS))), max_size=40),
    cuts=st.lists(st.integers(0, 200), max_size=12),
    border=st.integers(0, 200),
)
def test_the_cuts_do_not_matter(
    new_cluster: Callable[[], Cluster], deeds: list[tuple[bytes, str]], cuts: list[int], border: int
) -> None:
    coordinator = Coordinator()
    for key, deed in deeds:
        coordinator.do(key, deed)
    log = coordinator.log
    counted_from = border % (len(log) + 1)
    whole, pieces, single = new_cluster(), new_cluster(), new_cluster()

    at_once = feed(whole, log, [], counted_from)
    assert feed(pieces, log, cuts, counted_from) == at_once
    assert feed(single, log, range(len(log)), counted_from) == at_once

    commits, aborts, expiries = (coordinator.ended(deed, counted_from) for deed in ("commit", "abort", "expire"))
    for found in rows(whole.engine, schema.transactional_ids, whole.id):
        key = found["transactional_id"]
        counted_aborts = sum(found[name] for name in found if name.startswith("aborts_"))
        waiting = found["settles_at_ms"] is not None and found["abort_counts"]
        assert (found["commits"], counted_aborts + waiting) == (commits[key], aborts[key])
    counted = Counter(counters(whole.engine, whole.id))
    assert (counted["commits"], counted["aborts"]) == (commits.total(), aborts.total())
    assert counted["expired"] == expiries.total()

    by_state = Counter((r["partition"], r["state"]) for r in rows(single.engine, schema.transactional_ids, single.id))
    assert {(r["partition"], r["state"]): r["ids"] for r in at_once["coordinator_states"]} == by_state
