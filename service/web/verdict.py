"""The first line: does anything hang, and does it heal by itself? Unknown, hangs, blocked, nothing hangs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from service.domain.open_entries import HANGING
from service.store.read_judged import Coverage
from service.web import words
from service.web.chain import Link
from service.web.freshness import NEVER, READING, UNKNOWN, Freshness

HANGS: Final = "hangs"
BLOCKED: Final = "blocked"
QUIET: Final = "quiet"
PARTLY: Final = "partly"
EMPTY: Final = "empty"


class Verdict(NamedTuple):
    """`word`: which lines follow. `tone`: of the drawing. `title`: one sentence."""

    word: str
    tone: str
    title: str


def verdict_of(
    freshness: Freshness, hanging: int, links: Sequence[Link], coverage: Coverage, ids: int, cluster: str
) -> Verdict:
    """`hanging`: confirmed findings. `ids`: transactional.ids that are known.

    A few partitions that cannot be judged never hide what hangs, nor turn green: only what is fresh and judged whole
    says that nothing hangs.
    """
    if freshness.word in (READING, NEVER, UNKNOWN):
        return Verdict(freshness.word, "unknown", _not_judged(freshness, cluster))
    if hanging:
        last_known = "Last known: " if freshness.is_old else ""
        ends = "hangs. It will not heal by itself." if hanging == 1 else "hang. They will not heal by themselves."
        return Verdict(HANGS, "critical", f"{last_known}{words.plural(hanging, 'transaction')} {ends}")
    if freshness.is_old:
        return Verdict(UNKNOWN, "unknown", "Last known: nothing hung. Nothing new is judged.")
    return _nothing_hangs(links, coverage, ids)


def _not_judged(freshness: Freshness, cluster: str) -> str:
    if freshness.read is not None:
        return f"Reading the transaction log: {100 * freshness.read:.0f} %."
    if freshness.word == NEVER:
        return f"Unknown: nothing of {cluster} was read yet."
    return f"Unknown: nothing of {cluster} has been read for {words.duration(freshness.age_ms)}."


def _nothing_hangs(links: Sequence[Link], coverage: Coverage, ids: int) -> Verdict:
    if not coverage.judged:
        which = "none of the partitions can be judged" if coverage.watched else "no partition was looked at yet"
        return Verdict(UNKNOWN, "unknown", f"Unknown: {which}.")
    if coverage.unknown:
        text = f"Nothing hangs in the {coverage.judged:,} of {coverage.watched:,} partitions that can be judged."
        return Verdict(PARTLY, "info", text)
    if links:
        text = f"Nothing hangs. {words.plural(len(links), 'partition is', 'partitions are')} blocked."
        tone = "warning" if any(link.tone for link in links if link.relation != HANGING) else "info"
        return Verdict(BLOCKED, tone, text)
    if not ids:
        return Verdict(EMPTY, "info", "No transactions seen yet.")
    return Verdict(QUIET, "ok", "Nothing hangs. Nothing is blocked.")
