"""Can this be believed? The first line of the pipeline page."""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.findings.words import listed
from service.web.cluster.sources import SourceRow
from service.web.cluster.verdict import Verdict
from service.web.freshness import LATE, NEVER, OLD, READING, UNKNOWN, Freshness
from service.web.shared import words

TRUSTED = "trusted"
PARTLY = "partly"


def pipeline_verdict(
    freshness: Freshness,
    watched: int,
    unknown_partitions: int,
    unknown_ids: int,
    others: int,
    sources: Sequence[SourceRow],
) -> Verdict:
    """`watched`: partitions. `others`: what else is unknown. Only what is fresh and whole is trusted without a but."""
    if freshness.word == NEVER:
        return Verdict(NEVER, "unknown", "Nothing can be judged yet: not every source has been read.")
    if freshness.word == READING:
        return Verdict(READING, "unknown", "Nothing can be judged yet: the transaction log is being read.")
    if freshness.word == UNKNOWN:
        text = f"No verdict can be trusted: nothing new for {words.duration(freshness.age_ms)}."
        return Verdict(UNKNOWN, "unknown", text)
    if freshness.word == OLD:
        text = f"Verdicts are the last known ones: data is {words.duration(freshness.age_ms)} old."
        return Verdict(OLD, "unknown", text)
    if not watched:
        return Verdict(UNKNOWN, "unknown", "Nothing can be said of partitions: none was looked at.")
    but = [words.plural(unknown_partitions, "partition")] if unknown_partitions else []
    but += [words.plural(unknown_ids, "id")] if unknown_ids else []
    if but:
        return Verdict(PARTLY, "info", f"Verdicts can be trusted, except for {listed(but)}.")
    if others or freshness.word == LATE or not all(source.is_well for source in sources):
        return Verdict(PARTLY, "info", "Verdicts can be trusted, with what is said below.")
    return Verdict(TRUSTED, "ok", "Verdicts can be trusted.")
