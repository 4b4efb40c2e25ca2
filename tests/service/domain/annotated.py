"""Parses logs of one id, with comments that give the expected cause of a record: `# cause, confidence`. If another
cause is expected at first, `(at first cause, confidence)` follows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.facts import LogRecord
from tests.service.domain.records import judged, log, pairs, reported

_SAID = re.compile(r"([a-z_]+), ([a-z]+)(?: \(at first ([a-z_]+), ([a-z]+)\))?")

Pair = tuple[CauseCode, Confidence]


class Said(NamedTuple):
    """The expected cause of a record: `first` right after the record was read, `last` after the whole log was read."""

    first: Pair
    last: Pair


class Annotated(NamedTuple):
    """The records of a log, and their expected causes, keyed by offset. A record without an entry in `said` has no
    cause."""

    records: list[LogRecord]
    said: dict[int, Said]


def annotated(text: str) -> Annotated:
    """Parses the records of one id, in the notation of the function `log` (tests.service.domain.records), and the
    expected causes in the comments. Other comments are ignored."""
    lines = [line for line in text.splitlines() if line.partition("#")[0].strip()]
    said = {}
    for offset, line in enumerate(lines):
        if found := _SAID.match(line.partition("#")[2].strip()):
            word, confidence, first_word, first_confidence = found.groups()
            last = CauseCode(word), Confidence(confidence)
            said[offset] = Said((CauseCode(first_word), Confidence(first_confidence)) if first_word else last, last)
    return Annotated(log(text), said)


def judgement(records: Sequence[LogRecord]) -> dict[int, Said]:
    """Returns the causes that the journal gives to each record, keyed by offset (counted from 0): the first one right
    after the record, the last one after the whole log. A record without a cause is left out."""
    last = _causes(records)
    return {offset: Said(_causes(records[: offset + 1])[offset], pair) for offset, pair in last.items()}


def _causes(records: Sequence[LogRecord]) -> dict[int, Pair]:
    rows = reported(list(records)).rows
    return {row.offset: (row.cause, row.confidence) for row in rows if row.cause and row.confidence}


def while_open(records: Sequence[LogRecord]) -> set[Pair]:
    """Judges the log again after each of its records, without settling the newest cause. Returns every (cause,
    confidence) that the journal gives."""
    found = set()
    for number in range(len(records)):
        steps = pairs(records[: number + 1])
        found |= {
            (row.cause, row.confidence) for row in judged(steps, settles=False).rows if row.cause and row.confidence
        }
    return found
