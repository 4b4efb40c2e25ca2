"""Reads the output of Kafka's DumpLogSegments, which is stored beside each golden segment."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers.paths import GOLDEN

VERSIONS = ("3.9.2", "4.3.1")

_RECORD = re.compile(r"\| offset: (\d+) (?:CreateTime|LogAppendTime): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) (.*)")
_MARKER = re.compile(r"endTxnMarker: (\w+) coordinatorEpoch: (-?\d+)")
_PAIR = re.compile(r"(\w+): (\S+)")


class DumpedRecord(NamedTuple):
    """A record of a dump: a line that begins with `| offset`. `text` is the rest of the line after the sizes."""

    offset: int
    timestamp_ms: int
    key_size: int
    value_size: int
    text: str

    @property
    def marker(self) -> tuple[str, int] | None:
        """Returns (ABORT or COMMIT, coordinator epoch) of a marker, or None for any other record."""
        found = _MARKER.search(self.text)
        return (found[1], int(found[2])) if found else None

    @property
    def key(self) -> str:
        return self.text.partition(" key: ")[2].partition(" payload: ")[0]

    @property
    def payload(self) -> str:
        return self.text.partition(" payload: ")[2]

    @property
    def fields(self) -> Any:
        """Returns the value as the tool of Kafka 4.x prints it: the parsed JSON ({"version", "data"} or null). If it is
        no JSON, returns the text."""
        try:
            return json.loads(self.payload)
        except ValueError:
            return self.payload


class DumpedBatch(NamedTuple):
    """A batch of a dump: the fields of the line that begins with `baseOffset`, and its records."""

    words: dict[str, str]
    records: list[DumpedRecord]


class Dump(NamedTuple):
    """A dump of a segment. `complete` is False if the tool stopped at a value of a version that it does not know."""

    batches: list[DumpedBatch]
    complete: bool


def segments(pattern: str = "*/*") -> list[Path]:
    """Returns the golden `.log` files of both versions of Kafka whose directory (group/partition) matches `pattern`.
    Asserts that there is at least one."""
    found = sorted(log for version in VERSIONS for log in GOLDEN.glob(f"{version}/{pattern}/*.log"))
    assert found, f"no golden segment fits {pattern}"
    return found


def name_of(log: Path) -> str:
    """Returns a test id: version, group and partition of the segment."""
    return "/".join(log.relative_to(GOLDEN).parts[:-1])


def read_dump(log: Path, suffix: str = ".dump.txt") -> Dump:
    batches: list[DumpedBatch] = []
    complete = True
    for line in log.with_suffix(suffix).read_text(errors="replace").splitlines():
        if line.startswith("baseOffset: "):
            batches.append(DumpedBatch(dict(_PAIR.findall(line)), []))
        elif found := _RECORD.match(line):
            offset, timestamp_ms, key_size, value_size = map(int, found.groups()[:4])
            batches[-1].records.append(DumpedRecord(offset, timestamp_ms, key_size, value_size, " " + found[5]))
        elif line.startswith("rc "):
            complete = False
    return Dump(batches, complete)
