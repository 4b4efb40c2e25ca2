"""Writes docs/compatibility.md from the records of runs on each version of Kafka: `python -m
tests.helpers.compatibility_document`. `make matrix` renews the records, and after each version also the document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from service.cli.doctor.examination import read_records
from service.domain.doctor.tried_versions import PASSED, Scenario, Told, TriedVersion, scenario_name
from tests.helpers.brokers import EVERY_VERSION, VERSIONS
from tests.helpers.paths import ROOT
from tests.matrix.recorder import CAUSE

DOCUMENT: Final = ROOT / "docs" / "compatibility.md"

_INTRODUCTION: Final = f"""\
# Compatibility

txnscope is tried on the last patch release of each release of Kafka from {EVERY_VERSION[0]} to {EVERY_VERSION[-1]}.
`make matrix` runs every scenario below on each of them, with real brokers, and makes this page from the results;
`make matrix VERSIONS=4.4.0` renews one version. `txnscope doctor` reports what the same records say about the release
of a cluster.

CI runs each scenario on one of two versions, {VERSIONS[0]} and {VERSIONS[1]}, and in the next run on the other one.
"""
_ABILITIES: Final = {
    "refuses_late_writes": "writes after the end of a transaction are refused (KIP-890 part 1)",
    "refuses_unlisted_writes": "writes to a partition outside of the transaction are refused (KIP-890 part 1)",
    "refuses_unlisted_offsets": "offsets committed outside of the transaction are refused (KIP-890 part 1)",
    "new_epoch_per_transaction": "each transaction of a new client has an epoch of its own (KIP-890 part 2)",
    "skips_markers": "the marker of a partition without a leader is skipped (KAFKA-20734)",
    "tool_aborts": "`kafka-transactions.sh` finds a hanging transaction, and aborts it (KIP-664)",
    "tool_terminates": "`kafka-transactions.sh forceTerminateTransaction` exists",
    "filters_by_duration": "ListTransactions filters by duration (KIP-994)",
    "filters_by_pattern": "ListTransactions filters by pattern (KIP-1152)",
    "consumer_groups": "groups of the new consumer protocol (KIP-848): a member gets partitions",
    "share_groups": "share groups (KIP-932): ShareGroupDescribe exists, and the feature is on",
    "streams_groups": "streams groups (KIP-1071): StreamsGroupDescribe exists, and the feature is on",
}
"""The text for each ability, in the order of the table."""
_SKIPS: Final = "skips_markers"
_K2: Final = "integration/test_lab_leaders.py::test_a_committed_transaction_loses_a_participant"
"""The scenario that shows whether markers are skipped."""


def main() -> None:
    DOCUMENT.write_text(document(read_records()), "utf-8")


def document(records: Sequence[TriedVersion]) -> str:
    """Returns the whole document. `records` has the record of each version, the newest version first."""
    oldest_first = records[::-1]
    parts = (_INTRODUCTION, _abilities(oldest_first), _scenarios(oldest_first), _told(records))
    return "\n".join(parts)


def _abilities(records: Sequence[TriedVersion]) -> str:
    features = list(dict.fromkeys(name for record in records for name in record.features))
    apis = list(dict.fromkeys(name for record in records for name in record.apis))
    rows = [
        *([text, *(_can(record, key) for record in records)] for key, text in _ABILITIES.items()),
        *([f"`{name}`", *(_level(record.features.get(name)) for record in records)] for name in features),
        *([name, *(_version(record.apis.get(name)) for record in records)] for name in apis),
    ]
    return f"""\
## What each version can

Tried on a broker with default settings. A feature is shown by the level in force. If the broker supports a higher
level, the highest one follows in parentheses. A request is shown by its newest version.

{_table(["", *(record.version for record in records)], rows)}
"""


def _can(version: TriedVersion, ability: str) -> str:
    if ability == _SKIPS:
        known = version.scenarios[_K2].outcome == PASSED if _K2 in version.scenarios else False
        return _yes(version.skips_markers) if known else "not known"
    return _yes(version.abilities[ability])


def _yes(can: bool) -> str:
    return "yes" if can else "no"


def _level(levels: tuple[int, int] | None) -> str:
    if levels is None:
        return ""
    highest, finalized = levels
    return str(finalized) if finalized == highest else f"{finalized} ({highest})"


def _version(newest: int | None) -> str:
    return "" if newest is None else f"v{newest}"


def _scenarios(records: Sequence[TriedVersion]) -> str:
    names = _names(records)
    rows = [
        ["date (UTC)", *(record.date for record in records)],
        ["minutes, workers", *(f"{record.seconds / 60:.1f}, {record.workers}" for record in records)],
        ["passed", *(_passed(record) for record in records)],
        *([_link(name), *(_outcome(record.scenarios.get(name)) for record in records)] for name in names),
    ]
    return f"""\
## Scenarios

The time (s) of a scenario includes the start of its brokers and of the application. **fails**: the scenario failed. A
scenario that does not run on a version has an empty cell. The machine has two cores, and did other work, too. All
versions together took {sum(record.seconds for record in records) / 60:.0f} minutes.

{_table(["", *(record.version for record in records)], rows)}
"""


def _names(records: Iterable[TriedVersion]) -> list[str]:
    return sorted({name for record in records for name in record.scenarios})


def _link(test: str) -> str:
    return f"[{scenario_name(test)}](../tests/{test.partition('::')[0]})"


def _passed(version: TriedVersion) -> str:
    return f"{len(version.scenarios) - len(version.failed)} of {len(version.scenarios)}"


def _outcome(scenario: Scenario | None) -> str:
    if scenario is None:
        return ""
    return f"{scenario.seconds:.0f}" if scenario.outcome == PASSED else "**fails**"


def _told(records: Sequence[TriedVersion]) -> str:
    return f"""\
## What goes wrong in the scenarios, and what txnscope reports

The findings and the causes that a scenario waits for, in the words of the newest version that has them. If only some
of the versions on which the scenario passed have them, these versions are named.

{_table(["scenario", "report"], [[_link(name), told] for name in _names(records) if (told := _told_of(name, records))])}
"""


def _told_of(name: str, records: Sequence[TriedVersion]) -> str:
    running = [record for record in records if name in record.scenarios and record.scenarios[name].outcome == PASSED]
    words: dict[tuple[str, str], Told] = {}
    versions: dict[tuple[str, str], dict[str, None]] = {}
    for version in running:
        for told in version.scenarios[name].told:
            thing = _without_numbers(told)
            words.setdefault(thing, told)
            versions.setdefault(thing, {})[version.version] = None
    by_versions: dict[tuple[str, ...], list[Told]] = {}
    for thing, some in versions.items():
        by_versions.setdefault(tuple(some) if len(some) < len(running) else (), []).append(words[thing])
    return "<br>".join(_texts(told, some[::-1]) for some, told in by_versions.items())


def _without_numbers(told: Told) -> tuple[str, str]:
    """Returns the kind, and the text without its digits: offsets, times and producer ids differ between runs."""
    return told.kind, "".join(char for char in told.text if not char.isdigit())


def _texts(told: Sequence[Told], versions: Sequence[str]) -> str:
    causes = [f"`{one.text}`" for one in told if one.kind == CAUSE]
    texts = [f"`{one.kind}`: {one.text}" + (f" ({one.why})" if one.why else "") for one in told if one.kind != CAUSE]
    only = f"only {', '.join(versions)}: " if versions else ""
    return only + "<br>".join(([f"causes {', '.join(causes)}"] if causes else []) + texts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    main()
