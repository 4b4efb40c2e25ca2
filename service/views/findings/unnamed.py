"""The words of a finding without the names in them: a reference such as `[transactional_id]` stands for each name.

The users of a cluster choose its transactional.ids, groups and topics. A language model that reads such a name inside a
sentence may take it for an instruction. For this reason, a program can give a model the words without the names, and
the names separately as data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, NamedTuple

from service.domain.findings.finding import Finding, Observation, Sentence, Subject
from service.domain.findings.formatting import Names
from service.domain.findings.mismatch import NOT_FOUND
from service.domain.partitions.group_offsets import OFFSETS_TOPIC
from service.domain.reasons.unread import DESCRIBE, READ
from service.domain.transaction_log.states import NAMES, TOPIC
from service.store.escaped_text import display_id
from service.views.findings.headline import cause_of
from service.views.findings.subject import outlook_of_finding

_OUR_WORDS: Final = frozenset({"", TOPIC, OFFSETS_TOPIC, NOT_FOUND, DESCRIBE, READ, *NAMES.values()})
"""Texts that occur in facts and reasons, but are not names."""
_CODES: Final = frozenset({"decision", "operations", "request"})
"""Fields of reasons. The texts in these fields are codes of txnscope or Kafka, not names."""


class UnnamedWords(NamedTuple):
    """The words of a finding. `outlook`: whether and how the condition heals. `cause`, `decided_by`: for a hanging
    transaction, why it hangs and how the decision about it was reached; else None. `names`: a mapping from reference
    (`[name 1]`) to the name in display form. References to fields of the finding's subject are not in `names`."""

    summary: Sentence
    advice: Sentence
    outlook: str
    cause: str | None
    decided_by: str | None
    names: dict[str, str]


def unnamed_words(finding: Finding) -> UnnamedWords:
    references = _References(finding.subject)
    seen = references.in_observation(finding.observation)
    cause, decided_by = cause_of(replace(finding, observation=seen))
    outlook = outlook_of_finding(finding)
    return UnnamedWords(
        summary=seen.summary,
        advice=seen.advice,
        outlook=f"{outlook.text}: {outlook.more}" if outlook.more else outlook.text,
        cause=cause or None,
        decided_by=decided_by or None,
        names=references.names,
    )


class _References:
    """The references that replace names in one finding. `names`: as in UnnamedWords."""

    def __init__(self, subject: Subject) -> None:
        self.names: dict[str, str] = {}
        own = {"topic": subject.topic, "group": subject.group, "prefix": subject.prefix}
        if subject.transactional_id is not None:
            own["transactional_id"] = display_id(subject.transactional_id)
        self._of = {name: f"[{field}]" for field, name in own.items() if name is not None}

    def in_observation(self, seen: Observation) -> Observation:
        """Returns the observation with references in place of the names that its words contain."""
        subject = seen.subject._replace(
            topic=self._text(seen.subject.topic),
            group=self._text(seen.subject.group),
            prefix=self._text(seen.subject.prefix),
        )
        return seen._replace(subject=subject, facts=self._in(seen.facts), reason=self._in(seen.reason))

    def _text(self, text: str | None) -> str | None:
        if text is None or text in _OUR_WORDS:
            return text
        if text not in self._of:
            reference = self._of[text] = f"[name {len(self.names) + 1}]"
            self.names[reference] = text
        return self._of[text]

    def _in(self, value: Any) -> Any:
        """Returns a value of facts or reasons with references in place of the names in it. Enums are not replaced."""
        if type(value) is str:
            return self._text(value)
        if isinstance(value, Names):
            return Names(self._all(value.shown), value.count)
        if is_dataclass(value) and not isinstance(value, type):
            held = {field_.name: getattr(value, field_.name) for field_ in fields(value) if field_.name not in _CODES}
            return replace(value, **{name: self._in(part) for name, part in held.items()})
        if isinstance(value, tuple):
            parts = self._all(value)
            return value._make(parts) if hasattr(value, "_make") else parts
        return value

    def _all(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(map(self._in, values))
