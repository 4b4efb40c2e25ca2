"""Decides how findings open, change, end and reopen, and counts the observations that get no finding because MOST_OPEN
findings of their kind are open. Pure: takes the stored findings and the result of a judge round, returns changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Final, NamedTuple

from service.domain.canary.targets import ID_PREFIX, is_canary_id, is_canary_topic
from service.domain.findings.catalogue import CATALOGUE, EVENTS, UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Finding, Key, Life, Observation, Occurrence, RoundResult, Subject
from service.domain.findings.kinds import QUIET_MS, Kind, Resolution, Status

REOPENS_WITHIN_MS: Final = 24 * 3_600_000
"""A finding that was resolved at most this long (ms) ago is reopened if its subject is observed again. After a longer
time, the subject gets a new finding."""

SEEN_AGAIN_MS: Final = 60_000
"""Interval at which a finding with an unchanged condition is stored again as still open."""

MOST_OPEN: Final = 200
"""Maximum number of open findings of one kind. While this number is open, a new finding is opened only when another
finding ends. Normally there are fewer, because the rules group and limit observations."""

MOST_OPEN_IN_ALL: Final = MOST_OPEN * len(tuple(Kind))

OPENED, CONFIRMED, REOPENED, RESOLVED, UPDATED = "opened", "confirmed", "reopened", "resolved", "updated"


class _Omitted(NamedTuple):
    """An observation that has no finding because of MOST_OPEN. `seen_ms`: the time at which a condition was last seen,
    or at which an event last happened."""

    seen_ms: int
    log_partition: int | None


class Change(NamedTuple):
    """A changed finding, and the event to notify of (None if the change is not worth a notification)."""

    finding: Finding
    event: str | None


def reconcile(stored: Mapping[Key, Finding], result: RoundResult, now_ms: int, cluster: str) -> list[Change]:
    """Returns the changes that the round makes. `stored`: a mapping from (kind, subject) to the newest finding (one
    that was resolved more than 24 h ago may be missing). `cluster`: the cluster's id in Kafka. The result does not
    depend on the order of observations, or on whether an observation comes twice."""
    open_of = Counter(finding.kind for finding in stored.values() if finding.is_open)
    changes = []
    observed = _uncounted(stored, result.observations)
    for key in _in_order(observed):
        observation, fresh = observed[key]
        found = stored.get(key)
        if found is not None and found.is_open:
            if (change := _seen_again(found, observation, fresh, now_ms)) is not None:
                changes.append(change)
        elif open_of[key[0]] < MOST_OPEN:
            open_of[key[0]] += 1
            is_recent = found is not None and now_ms - (found.life.resolved_at_ms or 0) <= REOPENS_WITHIN_MS
            changes.append(_opened(found if is_recent else None, observation, fresh, now_ms, cluster))
    for key in _in_order(stored.keys() - observed.keys()):
        finding = stored[key]
        if finding.is_open and result.judges(finding) and _is_over(finding, result, now_ms):
            how = (result.resolutions or {}).get(finding.subject)
            changes.append(Change(_resolved(finding, how, now_ms), RESOLVED))
    return changes


class Truncation:
    """Counts, round by round, the observations that have no finding because of MOST_OPEN, and the cases that were not
    read (`RoundResult.unread`). A condition counts until a round judges its subject and does not observe the condition.
    An event counts until QUIET_MS after it last happened. Neither counts once it has an open finding."""

    def __init__(self) -> None:
        self._omitted: dict[Key, _Omitted] = {}
        self._unread: dict[Kind, int] = {}

    def apply_round(self, known: Mapping[Key, Finding], result: RoundResult, now_ms: int) -> None:
        """Updates the counts by one round. `known`: the findings, with the changes of this round already made."""
        self._omitted = {
            key: omitted
            for key, omitted in self._omitted.items()
            if not (key in known and known[key].is_open) and not _omitted_is_over(key, omitted, result, now_ms)
        }
        self._omitted |= _omitted(known, result, now_ms)
        self._unread |= result.unread

    def counts(self) -> dict[Kind, int]:
        """Returns a mapping from kind to the number of observations that have no finding because of MOST_OPEN, plus
        the number of cases that were not read. Kinds with neither are absent."""
        found = Counter(self._unread)
        found.update(kind for kind, _ in self._omitted)
        return {kind: number for kind, number in sorted(found.items()) if number}


def _omitted_is_over(key: Key, omitted: _Omitted, result: RoundResult, now_ms: int) -> bool:
    """Returns whether to forget an observation that has no finding. An event is forgotten once QUIET_MS have passed
    since it last happened, a condition once a round has judged its subject. If the round observed the condition again,
    `_omitted` adds the condition again."""
    kind, subject = key
    if kind in EVENTS:
        return now_ms - omitted.seen_ms >= QUIET_MS
    if kind not in result.kinds:
        return False
    return result.resolutions is not None or result.covers(subject, omitted.log_partition)


def _omitted(known: Mapping[Key, Finding], result: RoundResult, now_ms: int) -> dict[Key, _Omitted]:
    """Returns the observations of the round that have no open finding, because MOST_OPEN of their kind are open.
    `known`: the findings after the changes of the round."""
    return {
        key: _Omitted(_last_seen(fresh, now_ms), observation.log_partition)
        for key, (observation, fresh) in _uncounted(known, result.observations).items()
        if not (key in known and known[key].is_open)
    }


def _uncounted(
    stored: Mapping[Key, Finding], observations: Iterable[Observation]
) -> dict[Key, tuple[Observation, tuple[Occurrence, ...]]]:
    """Returns a mapping from (kind, subject) to the observation and its occurrences that were not counted yet. Leaves
    out observations of events without new occurrences."""
    by_key: dict[Key, list[Observation]] = {}
    for observation in observations:
        by_key.setdefault((observation.kind, observation.subject), []).append(observation)
    seen: dict[Key, tuple[Observation, tuple[Occurrence, ...]]] = {}
    for key, of_key in by_key.items():
        observation = of_key[0] if len(of_key) == 1 else max(of_key, key=repr)
        if observation.kind not in EVENTS:
            seen[key] = observation, ()
            continue
        found = stored.get(key)
        known = -1 if found is None else found.life.counted_to
        passed_over = frozenset(() if found is None else found.life.passed_over)
        occurrences = {o for observation in of_key for o in observation.occurrences}
        fresh = tuple(sorted(o for o in occurrences if o.sequence > known or o.sequence in passed_over))
        if fresh:
            seen[key] = observation, fresh
    return seen


def _in_order(keys: Iterable[Key]) -> list[Key]:
    """Returns the keys sorted, so that the result never depends on the order of the input."""
    return sorted(keys, key=lambda key: repr((key[0], tuple(key[1]))))


def finding_id(cluster: str, kind: Kind, subject: object, opened_at_ms: int) -> str:
    """Returns the id of a finding. Findings about the same subject have different ids, because the id depends on the
    time at which the finding was opened."""
    return blake2b(repr((cluster, str(kind), subject, opened_at_ms)).encode(), digest_size=8).hexdigest()


def _opened(
    old: Finding | None, observation: Observation, fresh: tuple[Occurrence, ...], now_ms: int, cluster: str
) -> Change:
    """Opens a new finding, or reopens `old` under its id, so that its earlier occurrences still count."""
    if old is None:
        id_ = finding_id(cluster, observation.kind, tuple(observation.subject), now_ms)
        life = Life(Status.CANDIDATE, opened_at_ms=now_ms, confirmed_at_ms=None, last_seen_ms=now_ms, count=0)
    else:
        id_, life = old.id, replace(old.life, resolved_at_ms=None, resolution=None, reopened=True)
    life = replace(
        _counted(life, observation, fresh),
        status=Status.CONFIRMED if observation.confirmed else Status.CANDIDATE,
        confirmed_at_ms=now_ms if observation.confirmed else None,
        last_seen_ms=_last_seen(fresh, now_ms),
    )
    return Change(Finding(id_, observation.kept, life), OPENED if old is None else REOPENED)


def _seen_again(old: Finding, observation: Observation, fresh: tuple[Occurrence, ...], now_ms: int) -> Change | None:
    life = _counted(old.life, observation, fresh)
    is_confirmed_now = observation.confirmed and life.status == Status.CANDIDATE
    if is_confirmed_now:
        life = replace(life, status=Status.CONFIRMED, confirmed_at_ms=now_ms)
    if observation.kept == old.observation and life == old.life and now_ms - life.last_seen_ms < SEEN_AGAIN_MS:
        return None
    event = CONFIRMED if is_confirmed_now else UPDATED if observation.severity != old.severity else None
    life = replace(life, last_seen_ms=max(life.last_seen_ms, _last_seen(fresh, now_ms)))
    return Change(Finding(old.id, observation.kept, life), event)


def _counted(life: Life, observation: Observation, fresh: tuple[Occurrence, ...]) -> Life:
    """Returns `life` with a new count. For an event, the fresh occurrences are added to the count. For a condition, the
    count is the present number of ids."""
    counted_to = max([life.counted_to, *(o.sequence for o in fresh)])
    return replace(
        life,
        count=life.count + len(fresh) if observation.kind in EVENTS else observation.ids,
        counted_to=counted_to,
        passed_over=tuple(sequence for sequence in observation.waiting if sequence < counted_to),
    )


def _last_seen(fresh: tuple[Occurrence, ...], now_ms: int) -> int:
    """Returns the time of the last occurrence; `now_ms` if there is none, or if its time is later: a clock ahead of
    ours must not keep a finding open."""
    return min(max((o.at_ms for o in fresh), default=now_ms), now_ms)


def _is_over(finding: Finding, result: RoundResult, now_ms: int) -> bool:
    if finding.kind not in EVENTS or result.resolutions is not None:
        return True
    return finding.kind not in UNTIL_ACKNOWLEDGED and now_ms - finding.life.last_seen_ms >= QUIET_MS


def _resolved(finding: Finding, how: Resolution | None, now_ms: int) -> Finding:
    is_withdrawn = finding.status == Status.CANDIDATE
    resolution = Resolution.NOT_HANGING if is_withdrawn else how or CATALOGUE[finding.kind].ended_by
    life = replace(finding.life, status=Status.RESOLVED, resolved_at_ms=now_ms, resolution=resolution)
    # a finding that is over needs no remediation
    return replace(finding.with_observed(self_heals_at_ms=None, bootstrap=None), life=life)


def without_canary(result: RoundResult) -> RoundResult:
    """Returns the result of the round without observations of the canary's ids and of its topic. While a coordinator
    fails, the canary's transactions fail by design, and the canary itself reports these failures."""
    kept = tuple(observation for observation in result.observations if not _is_canary(observation.subject))
    return result if len(kept) == len(result.observations) else result._replace(observations=kept)


def _is_canary(subject: Subject) -> bool:
    is_prefix = subject.prefix is not None and subject.prefix.startswith(ID_PREFIX)
    return is_prefix or is_canary_id(subject.transactional_id) or is_canary_topic(subject.topic)
