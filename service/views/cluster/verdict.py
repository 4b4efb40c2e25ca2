"""The verdict on a cluster, the first line of the cluster's page: unknown, a transaction hangs, data were lost, a
partition is blocked, or nothing hangs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Finding
from service.domain.findings.formatting import join_names
from service.domain.findings.kinds import Kind, Status
from service.domain.findings.lifecycle import MOST_OPEN, MOST_OPEN_IN_ALL
from service.domain.partitions.open_entries import RelationKind
from service.domain.reasons.reason import parts
from service.domain.reasons.unread import NoBroker
from service.store.queries import findings as read_findings
from service.store.queries.findings import FindingSelection
from service.store.queries.partitions import read_affected_groups
from service.views import words
from service.views.cluster.frame import NEVER, READING, UNKNOWN, Frame, Freshness
from service.views.findings.subject import is_muted
from service.views.partitions.blocking_chain import Link, links
from service.views.partitions.judged import Coverage

HANGS: Final = "hangs"
LOST: Final = "lost"
BLOCKED: Final = "blocked"
MUTED: Final = "muted"
QUIET: Final = "quiet"
PARTLY: Final = "partly"
EMPTY: Final = "empty"

_SAYS_SOMETHING: Final = 0.02


class Verdict(NamedTuple):
    """The verdict of a page. `word`: selects the lines below the verdict; `tone`: the tone of the drawing; `title`: one
    sentence."""

    word: str
    tone: str
    title: str


class Seen(NamedTuple):
    """The facts behind a verdict.

    - `hanging`: number of confirmed findings about hanging transactions that are not muted.
    - `muted`: number of confirmed findings about hanging transactions that are muted.
    - `lost`: number of findings, not muted, that stay open until somebody acknowledges them.
    - `ids`: number of known transactional.ids.
    - `is_cut`: True if hanging transactions may be missing because there are too many.
    - `is_silent`: True if no broker answers.
    - `left_ms`: approximate time (ms) that the first read still takes.
    - `stalled`: names of the sources that stall; empty if no source stalls, or if all do.
    - `muted_links`: number of blocked partitions that are left out of `links` because their findings are muted.
    - `is_undecided`: True if a partition that can be judged has an open entry that is still being confirmed.
    - `is_log_unread`: True if the transaction log cannot be read. Then it is not certain that a transaction hangs.
    """

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
    muted_links: int = 0
    is_undecided: bool = False


def verdict_of(seen: Seen) -> Verdict:
    """Returns the verdict. If the data are neither missing nor too old, a hanging transaction decides the verdict, even
    if partitions cannot be judged. The verdict is "Nothing hangs" without a restriction only if the data are not old,
    all watched partitions are judged, and no hanging transaction is muted or left out."""
    freshness = seen.freshness
    if freshness.word in (READING, NEVER, UNKNOWN):
        return Verdict(freshness.word, "unknown", _not_judged(seen))
    if seen.hanging:
        last_known = "Last known: " if freshness.is_old else ""
        ends = (
            "hangs. No coordinator is set to end it."
            if seen.hanging == 1
            else "hang. No coordinator is set to end them."
        )
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
        return Verdict(EMPTY, "info", "No transactional.id is in use.")
    if coverage.observed_at_ms is None:
        return Verdict(UNKNOWN, "unknown", "Unknown: no partition has been sampled yet.")
    if not coverage.watched:
        why = "no topic that transactions write to is visible"
        if coverage.not_covered:
            why = "--topics and --mirrored exclude all topics that transactions write to"
        return Verdict(UNKNOWN, "unknown", f"Unknown: {why}.")
    if coverage.watched and not coverage.judged:
        return Verdict(UNKNOWN, "unknown", "Unknown: none of the partitions can be judged.")
    return _judged(seen)


def _judged(seen: Seen) -> Verdict:
    """Returns the verdict for a cluster in which some partition can be judged, and no transaction hangs, except muted
    ones."""
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
    if seen.muted_links:
        blocked = words.plural(seen.muted_links, "partition is", "partitions are")
        muted = "its finding is" if seen.muted_links == 1 else "their findings are"
        return Verdict(MUTED, "info", f"{nothing} {blocked} blocked, but {muted} muted.")
    if seen.muted:
        return Verdict(MUTED, "info", nothing)
    if seen.is_log_unread:  # no LSO is stalled; of the transactions themselves nothing is known
        return Verdict(PARTLY, "info", "Nothing hangs. Nothing is blocked.")
    return Verdict(QUIET, "ok", "Nothing hangs. Nothing is blocked.")


def _nothing(seen: Seen, hangs: str, can: str) -> str:
    """Returns "nothing hangs" with the restrictions that apply. Begins with a capital if `can` is "can", because the
    text then begins the verdict."""
    known = seen.coverage
    if seen.is_undecided:
        hangs = "is known to hang" if can == "can" else "was known to hang"
    where = f" in the {known.judged:,} of {known.watched:,} partitions that {can} be judged" if known.unknown else ""
    where += " in the part that was read" if seen.is_cut else ""
    if seen.muted:
        muted = words.plural(seen.muted, "hanging transaction is", "hanging transactions are")
        return f"{muted} muted. Nothing else {hangs}{where}"
    return f"{'Nothing' if can == 'can' else 'nothing'} {hangs}{where}"


def read_confirmed(connection: Connection, frame: Frame) -> tuple[Sequence[Finding], Sequence[Finding]]:
    """Returns the confirmed findings about hanging transactions, the longest open first, and the other confirmed
    findings, the last opened first."""
    hanging = read_findings.longest_open(connection, frame.cluster.id, Kind.HANGING, MOST_OPEN)
    open_ = FindingSelection(statuses=frozenset({Status.CONFIRMED}))
    found, _ = read_findings.read_page(connection, frame.cluster.id, open_, None, MOST_OPEN_IN_ALL)
    return hanging, [finding for finding in found if finding.kind != Kind.HANGING]


def read_chain(connection: Connection, frame: Frame, findings: Sequence[Finding]) -> list[Link]:
    """Returns the blocking chain: an entry (`Link`) for each partition in `frame.standing`, the worst first."""
    affected = read_affected_groups(connection, frame.cluster.id)
    return links(frame.standing, affected, findings, frame.limits, frame.now_ms)


def unacknowledged(confirmed: Iterable[Finding], now_ms: int) -> list[Finding]:
    """Returns the findings that stay open until somebody acknowledges them. Leaves out muted findings, because the
    verdict does not count them."""
    return [finding for finding in confirmed if finding.kind in UNTIL_ACKNOWLEDGED and not is_muted(finding, now_ms)]


def judged(frame: Frame, hanging: Sequence[Finding], chain: Sequence[Link], lost: Sequence[Finding]) -> Verdict:
    """Returns the verdict on the cluster. A muted finding does not make the verdict worse. `lost`: the findings that
    stay open until somebody acknowledges them."""
    muted = sum(is_muted(finding, frame.now_ms) for finding in hanging)
    return verdict_of(
        Seen(
            cluster=frame.name,
            freshness=frame.freshness,
            hanging=len(hanging) - muted,
            muted=muted,
            links=[link for link in chain if not link.is_muted],
            coverage=frame.seen.coverage,
            ids=sum(frame.seen.states.values()),
            is_cut=Kind.HANGING in frame.seen.truncated,
            left_ms=left_ms(frame),
            is_silent=is_silent(frame),
            lost=len(lost),
            stalled=stalled_alone(frame),
            is_log_unread=frame.log_unread is not None,
            muted_links=sum(link.is_muted for link in chain),
            is_undecided=any(_is_undecided(link) for link in chain),
        )
    )


def _is_undecided(link: Link) -> bool:
    relations = {link.relation, *(entry.relation.kind for entry in link.judged.entries)}
    return link.judged.why is None and RelationKind.UNKNOWN in relations


def is_blind(frame: Frame, verdict: Verdict) -> bool:
    """Returns True if nothing is known of hanging transactions and blocked partitions: no partition can be judged, and
    none is known from before."""
    known = frame.seen.coverage
    return verdict.tone == "unknown" and not (known.judged or known.blocked or frame.seen.hanging)


def hanging_note(frame: Frame, muted: int) -> str:
    """Returns the text below the number of hanging transactions. `muted`: how many of them are muted."""
    hanging = frame.seen.hanging
    if not hanging:
        return "where partitions can be judged" if frame.seen.coverage.unknown else "confirmed only after 3 steps"
    note = f"no coordinator is set to end {'it' if hanging == 1 else 'them'}"
    if frame.log_unread:
        note = "likely: the transaction log cannot be read"
    return f"{note}; {muted} muted" if muted else note


def is_silent(frame: Frame) -> bool:
    """Returns True if no broker answers. Errors of sources that no application reads any more do not count."""
    gone = {source for source, stall in frame.stalls.items() if stall.unread_since_ms is not None}
    errors = (status.error for source, status in frame.seen.statuses.items() if source not in gone)
    return any(isinstance(part, NoBroker) for error in errors for part in parts(error))


def stalled_alone(frame: Frame) -> str:
    """Returns the names of the stalled sources, joined for a sentence. Returns an empty text if no source stalls, or if
    all sources stall."""
    lines = frame.stall_lines
    is_all = frame.seen.statuses.keys() <= {source for line in lines for source in line.sources}
    return "" if is_all else join_names([line.names for line in lines])


def left_ms(frame: Frame) -> int | None:
    """Returns the approximate time (ms) that the first read still takes, at its speed so far; None if this time is not
    known."""
    read, since_ms, as_of_ms = frame.first_read, frame.cluster.counted_since_ms, frame.freshness.as_of_ms
    if read is None or since_ms is None or as_of_ms is None or read.share < _SAYS_SOMETHING:
        return None
    return int(max(as_of_ms - since_ms, 0) * (1 - read.share) / read.share)
