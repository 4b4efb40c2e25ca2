"""Leaves the canary out of findings. Its transactions fail by design while a coordinator fails, and the canary itself
reports that failure. Lists and counts still show these transactions."""

from __future__ import annotations

from service.domain.canary.names import ID_PREFIX, is_canary_id, is_canary_topic
from service.domain.findings.finding import RoundResult, Subject


def without_canary(result: RoundResult) -> RoundResult:
    """Returns the result of the round without observations of the canary's ids and of its topic."""
    kept = tuple(one for one in result.observations if not _is_canary(one.subject))
    return result if len(kept) == len(result.observations) else result._replace(observations=kept)


def _is_canary(subject: Subject) -> bool:
    is_prefix = subject.prefix is not None and subject.prefix.startswith(ID_PREFIX)
    return is_prefix or is_canary_id(subject.transactional_id) or is_canary_topic(subject.topic)
