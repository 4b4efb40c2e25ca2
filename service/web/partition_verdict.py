"""The first line of a partition's page: what it hides from readers of committed records, and whether that heals."""

from __future__ import annotations

from typing import Final

from service.domain.partitions.open_entries import (
    ADOPTED,
    COMPLETING,
    HANGING,
    NOT_KNOWN,
    OPENED,
    OVERDUE,
    UNREPLICATED,
)
from service.store.queries.judged_partitions import JudgedPartition
from service.web.cluster.verdict import Verdict
from service.web.freshness import NEVER, READING, UNKNOWN, Freshness
from service.web.partitions.blocking_chain import Link
from service.web.shared import words

_SAYS: Final = {
    OPENED: ("info", "A transaction is open, in time."),
    OVERDUE: ("warning", "A transaction is overdue."),
    COMPLETING: ("warning", "Its transaction is completing."),
    ADOPTED: ("warning", "Old records wait for another transaction's end."),
    UNREPLICATED: ("warning", "The marker is not replicated."),
    HANGING: ("critical", "It will not heal by itself."),
    NOT_KNOWN: ("unknown", "Who holds them is not known."),
}


def partition_verdict(freshness: Freshness, place: str, judged: JudgedPartition | None, link: Link | None) -> Verdict:
    """`judged` None: it is not watched. `link` None: its LSO is at the high watermark. Only what is fresh is said to
    hide nothing."""
    if judged is None:
        return Verdict("not_watched", "unknown", f"Unknown: {place} is not watched.")
    if freshness.word in (NEVER, UNKNOWN):
        ago = "yet" if freshness.word == NEVER else f"for {words.duration(freshness.age_ms)}"
        return Verdict(UNKNOWN, "unknown", f"Unknown: nothing has been read {ago}.")
    if judged.row.why is not None:
        return Verdict(UNKNOWN, "unknown", f"Unknown: {place} cannot be looked at.")
    last_known = "Last known: " if freshness.is_old else ""
    if link is None:
        text = f"{last_known}{place} hides nothing: its LSO is at the high watermark."
        return Verdict("nothing", "unknown" if freshness.is_old else "ok", text)
    hides = f"{last_known}{place} hides {words.plural(link.hidden, 'record')}."
    if freshness.word == READING:
        return Verdict(READING, "unknown", f"{hides} Who holds them is not judged yet.")
    tone, says = _SAYS[link.relation]
    return Verdict(link.relation, tone, f"{hides} {says}")
