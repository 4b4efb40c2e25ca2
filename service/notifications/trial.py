"""A notification that tries a receiver, and says that nothing is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from service.domain.findings.finding import Facts, Finding, Life, Observation, Subject, Words
from service.domain.findings.kinds import Kind, Severity, Status

CLUSTER: Final = "test"


@dataclass(frozen=True, slots=True)
class TrialFacts(Facts):
    """Facts that no kind has."""

    def words(self, _: Observation, /) -> Words:
        return Words("this is a test of notifications by txnscope: nothing is wrong", "Nothing is to be done.")


def trial_finding(now_ms: int) -> Finding:
    """Returns a finding that exists in no store."""
    seen = Observation(Kind.COVERAGE_GAP, Severity.INFO, Subject(), TrialFacts(), ())
    life = Life(Status.CONFIRMED, now_ms, now_ms, now_ms, 1)
    return Finding("test", seen, life)
