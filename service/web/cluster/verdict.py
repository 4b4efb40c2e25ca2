"""The verdict on a cluster, its page's first line: unknown, hangs (and will not heal by itself), data were lost,
blocked, nothing hangs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from service.domain.partitions.open_entries import RelationKind
from service.views import words
from service.views.partitions.blocking_chain import Link
from service.views.partitions.judged import Coverage
from service.web.shared.frame import NEVER, READING, UNKNOWN, Freshness, Verdict

HANGS: Final = "hangs"
LOST: Final = "lost"
BLOCKED: Final = "blocked"
MUTED: Final = "muted"
QUIET: Final = "quiet"
PARTLY: Final = "partly"
EMPTY: Final = "empty"


class Seen(NamedTuple):
    """The facts behind a verdict. `hanging`: number of confirmed findings that may head the page; `muted`: of those
    that may not. `lost`: number of those that stay until somebody acknowledges them. `ids`: number of known
    transactional.ids. `is_cut`: hanging transactions may be missing, because there are too many. `is_silent`: no broker
    answers. `left_ms`: approximate time left of the first read. `stalled`: names of the sources that stall while others
    do not, else empty. `is_log_unread`: the transaction log cannot be read, so nothing that hangs is certain to."""

    cluster: str
    freshness: Freshness
    hanging: int
    muted: int
    links: Sequence[Link]
    coverage: Coverage
    ids: int
    is_cut: bool = False
    is_silent: bool = False
    lost: int = 0
    left_ms: int | None = None
    stalled: str = ""
    is_log_unread: bool = False


def verdict_of(seen: Seen) -> Verdict:
    """Returns the verdict. Partitions that cannot be judged never hide what hangs, and never give a green verdict:
    "nothing hangs" without reservation needs fresh data and all partitions judged."""
    freshness = seen.freshness
    if freshness.word in (READING, NEVER, UNKNOWN):
        return Verdict(freshness.word, "unknown", _not_judged(seen))
    if seen.hanging:
        last_known = "Last known: " if freshness.is_old else ""
        ends = "hangs. It will not heal by itself." if seen.hanging == 1 else "hang. They will not heal by themselves."
        if seen.is_log_unread:
            ends = "is likely to hang." if seen.hanging == 1 else "are likely to hang."
        return Verdict(HANGS, "critical", f"{last_known}{words.plural(seen.hanging, 'transaction')} {ends}")
    if freshness.is_old:
        return Verdict(UNKNOWN, "unknown", f"Last known: {_nothing(seen, 'hung', 'could')}. Nothing new is judged.")
    return _nothing_hangs(seen)


def _not_judged(seen: Seen) -> str:
    freshness = seen.freshness
    if freshness.word == READING:
        left = "" if seen.left_ms is None else f", about {words.duration(seen.left_ms)} left"
        return f"Reading the transaction log: {100 * (freshness.read or 0):.0f} %{left}."
    if freshness.word == NEVER:
        return f"Unknown: nothing of {seen.cluster} has been read yet."
    what = f"nothing of {seen.cluster} has been read"
    if seen.is_silent:
        what = f"no broker of {seen.cluster} has answered"
    elif seen.stalled:
        what = f"nothing new of {seen.stalled}"
    return f"Unknown: {what} for {words.duration(freshness.age_ms)}."


def _nothing_hangs(seen: Seen) -> Verdict:
    coverage, links = seen.coverage, seen.links
    is_empty = not coverage.unknown and not links and not seen.ids and not seen.is_log_unread
    if is_empty and coverage.observed_at_ms is not None:
        return Verdict(EMPTY, "info", "No transactions seen yet.")
    if coverage.observed_at_ms is None:
        return Verdict(UNKNOWN, "unknown", "Unknown: no partition has been sampled yet.")
    if coverage.hides_all:
        return Verdict(UNKNOWN, "unknown", "Unknown: no topic that its transactions write to is visible.")
    if coverage.watched and not coverage.judged:
        return Verdict(UNKNOWN, "unknown", "Unknown: none of the partitions can be judged.")
    return _judged(seen)


def _judged(seen: Seen) -> Verdict:
    """Returns the verdict where some partition can be judged, and nothing hangs."""
    coverage, links = seen.coverage, seen.links
    nothing = f"{_nothing(seen, 'hangs', 'can')}."
    if links:
        nothing += f" {words.plural(len(links), 'partition is', 'partitions are')} blocked."
    if seen.lost:
        waiting = words.plural(seen.lost, "finding awaits", "findings await")
        return Verdict(LOST, "critical", f"Data were lost or torn: {waiting} acknowledgement. {nothing}")
    if links:
        is_grave = any(link.tone for link in links if link.relation != RelationKind.HANGING)
        return Verdict(BLOCKED, "warning" if is_grave else "info", nothing)
    if coverage.unknown or seen.is_cut:
        return Verdict(PARTLY, "info", nothing)
    if seen.muted:
        return Verdict(MUTED, "info", nothing)
    if seen.is_log_unread:  # all LSOs are at the high watermark; of the transactions themselves nothing is known
        return Verdict(PARTLY, "info", "Nothing hangs. Nothing is blocked.")
    return Verdict(QUIET, "ok", "Nothing hangs. Nothing is blocked.")


def _nothing(seen: Seen, hangs: str, can: str) -> str:
    """Returns "nothing hangs" with the restrictions that apply; capitalised if it is about now, since it then begins a
    sentence."""
    known = seen.coverage
    where = f" in the {known.judged:,} of {known.watched:,} partitions that {can} be judged" if known.unknown else ""
    where += " as far as was read" if seen.is_cut else ""
    if seen.muted:
        muted = words.plural(seen.muted, "hanging transaction is", "hanging transactions are")
        return f"{muted} muted. Nothing else {hangs}{where}"
    return f"{'Nothing' if can == 'can' else 'nothing'} {hangs}{where}"
