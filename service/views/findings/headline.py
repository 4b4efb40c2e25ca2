"""The headline of a finding, on its own page and in the list: a title, an explanation and, for a resolved finding, how
it ended."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.findings.catalogue import EVENTS
from service.domain.findings.finding import Finding
from service.domain.findings.formatting import as_sentence
from service.domain.findings.kinds import QUIET_MS, Kind, Resolution, Severity, Status
from service.domain.reasons.hanging import HangReason
from service.domain.worlds.verdict import Decided
from service.store.escaped_text import display_id
from service.views import words

_TONES: Final = {Severity.CRITICAL: "critical", Severity.WARNING: "warning", Severity.INFO: "info"}

_ENDINGS: Final = {
    Resolution.COORDINATOR_MARKER: "its coordinator wrote the marker",
    Resolution.OUR_MARKER: "txnscope resolve wrote the marker",
    Resolution.FOREIGN_COMMIT: "somebody wrote a COMMIT marker by hand, without a coordinator's decision",
    Resolution.FOREIGN_ABORT: "somebody wrote an ABORT marker by hand, without a coordinator's decision",
    Resolution.ADOPTION: "a later transaction of the same producer id includes the partition, and the marker of that"
    " transaction also decides about the records of this one",
    Resolution.RETENTION: "the transaction's records were deleted",
    Resolution.TRUNCATED: "the partition's log now ends before the transaction's records: these records are lost",
    Resolution.TOPIC_DELETED: "the topic was deleted",
    Resolution.HEALED: "the condition no longer holds",
    Resolution.NOT_HANGING: "a second check did not confirm it",
    Resolution.ACKNOWLEDGED: "somebody acknowledged it",
}


_DISCARDED: Final = (
    Resolution.FOREIGN_ABORT,
    Resolution.RETENTION,
    Resolution.TRUNCATED,
    Resolution.TOPIC_DELETED,
)
"""The resolutions after which read_committed consumers do not get the transaction's records. After other resolutions,
these consumers may get the records."""

_WITHDRAWN: Final = (
    (
        "It was only a candidate:",
        "a later check showed that the coordinator will end the transaction, or that the transaction had ended.",
    ),
    (
        "This finding was withdrawn:",
        "the topic is declared mirrored, so its producer ids belong to another cluster; or the same records are"
        " reported under another id now.",
    ),
)
"""The (lead, text) of a withdrawn finding: the first pair if the finding was never confirmed, the second pair if it
was."""


class Story(NamedTuple):
    """The headline of a finding. `title`: one sentence, followed by `lead` and `text`. `tone`: the tone of the drawing
    and of the icon."""

    title: str
    lead: str
    text: str
    tone: str


def story_of(finding: Finding) -> Story:
    if finding.kind == Kind.HANGING:
        return _hanging(finding)
    text = as_sentence(finding.observation.detail)
    if finding.status == Status.RESOLVED:
        return Story(finding.observation.title, f"This is over: {how_it_ended(finding)}.", text, "info")
    lead = "Seen once; a second check has to confirm it." if finding.status == Status.CANDIDATE else ""
    return Story(finding.observation.title, lead, text, _TONES[finding.severity])


def who_of(finding: Finding) -> str:
    subject = finding.subject
    if subject.transactional_id is not None:
        return display_id(subject.transactional_id)
    return "an unknown producer" if subject.producer_id is None else f"producer id {subject.producer_id}"


def how_it_ended(finding: Finding) -> str:
    resolution = finding.life.resolution
    if (given := finding.acknowledgement) is not None:
        return f"{given.by} acknowledged it: {given.reason}"
    if resolution == Resolution.HEALED and finding.kind == Kind.HANGING:
        return "the transaction ended, but it is not known how"
    if resolution == Resolution.HEALED and finding.kind in EVENTS:
        return f"it has not happened again for {words.duration(QUIET_MS)}"
    if resolution == Resolution.COORDINATOR_MARKER and finding.kind == Kind.STUCK_COMPLETION:
        return "the transaction log no longer shows the transaction in PrepareCommit or PrepareAbort"
    if resolution == Resolution.COORDINATOR_MARKER and finding.kind == Kind.ADOPTED:
        return "the left-over records are no longer seen open"
    return "" if resolution is None else _ENDINGS[resolution]


def what_is_left(finding: Finding) -> str:
    """Returns what remains to be done after a hanging transaction has ended; empty for findings of other kinds. Call
    this function only if the finding is resolved."""
    if finding.kind != Kind.HANGING:
        return ""
    decision, resolution = finding.observation.decision, finding.life.resolution
    if _has_lost_records(finding):
        return "Find out from the application which records are missing."
    if (decision in (Decided.ABORT, Decided.NONE) and resolution in _DISCARDED) or resolution in (
        Resolution.OUR_MARKER,
        Resolution.NOT_HANGING,
    ):
        return "Nothing has to be done any more."
    return "Ask the application whether its records are as it expects."


def _has_lost_records(finding: Finding) -> bool:
    return finding.observation.decision == Decided.COMMIT and finding.life.resolution == Resolution.FOREIGN_ABORT


def cause_of(finding: Finding) -> tuple[str, str]:
    """Returns two texts: why the transaction hangs, and how the decision about it was reached. Both texts are empty if
    the reason is not known."""
    why = finding.observation.reason
    return (str(why), str(why.decided_by)) if isinstance(why, HangReason) else ("", "")


def _hanging(finding: Finding) -> Story:
    place = f"{finding.subject.topic}-{finding.subject.partition}"
    who = who_of(finding)
    is_behind = isinstance(finding.observation.reason, HangReason) and finding.observation.reason.is_behind
    if finding.status == Status.RESOLVED:
        title = f"{place} was blocked by a hanging transaction of {who}"
        if is_behind:
            title = f"A transaction of {who} hung on {place}"
        if finding.life.resolution == Resolution.NOT_HANGING:
            return Story(
                f"A transaction of {who} on {place} did not hang",
                *_WITHDRAWN[finding.life.confirmed_at_ms is not None],
                "info",
            )
        if _has_lost_records(finding):
            return Story(
                title,
                "Committed records were lost:",
                "the transaction was committed, but somebody wrote an ABORT marker by hand. read_committed consumers"
                " will never get its records on this partition.",
                "critical",
            )
        if finding.life.resolution == Resolution.ADOPTION:
            return Story(title, "It no longer hangs:", f"{how_it_ended(finding)}.{_of_adoption(finding)}", "info")
        return Story(title, "This is over:", f"{how_it_ended(finding)}.", "info")
    if finding.status == Status.CANDIDATE:
        return Story(
            f"A transaction of {who} may hang on {place}",
            "A candidate: nothing has to be done yet.",
            "No transaction that will end it was found. The next check decides: within seconds, or within 35 s after a"
            " broker failure.",
            "warning",
        )
    if is_behind:
        title = f"A transaction of {who} hangs on {place}, behind another transaction"
    else:
        title = f"{place} is blocked by a hanging transaction of {who}"
    return Story(title, *_of_decision(finding), "critical")


def _of_adoption(finding: Finding) -> str:
    if finding.observation.decision in (Decided.ABORT, Decided.NONE):
        return ""
    if finding.observation.decision == Decided.COMMIT:
        return " These records were committed: an abort of the later transaction destroys them."
    return " If these records were committed, an abort of the later transaction destroys them."


def _of_decision(finding: Finding) -> tuple[str, str]:
    cause, _ = cause_of(finding)
    because = f" {cause[0].upper()}{cause[1:]}." if cause else ""
    if finding.observation.decision == Decided.COMMIT:
        return (
            "Do not abort this transaction: it was committed, and an ABORT marker discards a part of it.",
            f"No coordinator is set to end it. Write the missing COMMIT marker with txnscope resolve.{because}",
        )
    if finding.observation.decision == Decided.ABORT:
        return (
            "No coordinator is set to end it.",
            f"No committed transaction can have written these records.{because}",
        )
    if finding.observation.decision == Decided.UNKNOWN or finding.observation.decision is None:
        return (
            "No coordinator is set to end it, and it is not known yet which marker is right:",
            f"the transaction may have been committed, and the wrong marker loses data.{because}",
        )
    return (
        "No coordinator is set to end it.",
        f"Its records belong to no transaction that this cluster committed.{because}",
    )
