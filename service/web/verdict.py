"""The first line: does anything hang, and does it heal by itself? Unknown, hangs, blocked, nothing hangs: in that order."""

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
    if freshness.word == READING and freshness.read is not None:
        return Verdict(READING, "unknown", f"Reading the transaction log: {100 * freshness.read:.0f} %.")
    if freshness.word == NEVER:
        return Verdict(NEVER, "unknown", f"Unknown: nothing of {cluster} was read yet.")
    if freshness.word == UNKNOWN:
        age = words.duration(freshness.age_ms)
        return Verdict(UNKNOWN, "unknown", f"Unknown: nothing of {cluster} has been read for {age}.")
    last_known = "Last known: " if freshness.is_old else ""
    if hanging:
        hang = "hang. They will" if hanging > 1 else "hangs. It will"
        title = f"{last_known}{words.plural(hanging, 'transaction')} {hang} not heal by themselves."
        return Verdict(HANGS, "critical", title if hanging > 1 else title.replace("by themselves", "by itself"))
    if freshness.is_old:
        return Verdict(UNKNOWN, "unknown", f"{last_known}nothing hung. Nothing new is judged.")
    if not coverage.watched:
        return Verdict(UNKNOWN, "unknown", "Unknown: no partition was looked at yet.")
    if not coverage.judged:
        return Verdict(UNKNOWN, "unknown", "Unknown: none of the partitions can be judged.")
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
