"""Records of the versions of Kafka that txnscope was tried on, and the conclusions for a cluster of the same release.
`make matrix` makes the records, on real brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from service.domain.doctor.cluster_report import ClusterReport
from service.domain.findings.formatting import join_names
from service.domain.releases import release_of

PASSED: Final = "passed"
SKIPPED_MARKER: Final = "skipped marker"
"""Seen in a scenario: the coordinator completed a committed transaction without the marker of a partition that had no
leader (KAFKA-20734)."""

NO_GROUPS: Final = {
    "consumer_groups": "KIP-848",
    "share_groups": "KIP-932",
    "streams_groups": "KIP-1071",
}
"""A mapping from a kind of group to its KIP."""
LACKING: Final = {
    "refuses_late_writes": "a write after the end of its transaction is accepted, and hangs (no KIP-890 part 1)",
    "refuses_unlisted_offsets": "offsets committed outside of a transaction are accepted, and hang",
    "tool_terminates": "kafka-transactions.sh has no forceTerminateTransaction (starting the application"
    " fences its id instead)",
}
"""A mapping from an ability of Kafka to the consequence for an operator if a version lacks the ability."""


class Told(NamedTuple):
    """A result that txnscope reported in a scenario: a finding, or the cause of a transaction's end (`kind` is then
    "cause"). `why`: for a hanging transaction, the reason and the decision."""

    kind: str
    text: str
    why: str


class Scenario(NamedTuple):
    """A test on one version. `outcome`: pytest's word for the result. `seen`: behaviour that only some versions
    showed."""

    outcome: str
    seconds: float
    seen: tuple[str, ...]
    told: tuple[Told, ...]


class TriedVersion(NamedTuple):
    """The record of a test run on one version. `date`: the date of the run, UTC. `seconds`: the duration of the whole
    run. `features`: the highest supported and the finalized level of each feature. `apis`: a mapping from a request to
    its highest version."""

    version: str
    date: str
    seconds: int
    workers: int
    abilities: Mapping[str, bool]
    features: Mapping[str, tuple[int, int]]
    apis: Mapping[str, int]
    scenarios: Mapping[str, Scenario]

    @property
    def release(self) -> str:
        return self.version.rpartition(".")[0]

    @property
    def failed(self) -> list[str]:
        return [name for name, scenario in self.scenarios.items() if scenario.outcome != PASSED]

    @property
    def skips_markers(self) -> bool:
        return any(SKIPPED_MARKER in scenario.seen for scenario in self.scenarios.values())


class FromRelease(NamedTuple):
    """The test records about the releases of the brokers, as sentences.

    - `tried`: the versions that were tested, and the results.
    - `differs`: the peculiarities of these versions, such as missing abilities.
    - `not_tried`: releases without a record.
    """

    tried: str
    differs: str
    not_tried: str


def from_release(report: ClusterReport, records: Iterable[TriedVersion]) -> FromRelease:
    """Returns, as sentences, what the records show about the releases of the brokers in the report."""
    by_release = {record.release: record for record in records}
    levels = [broker.newest_metadata_version for broker in report.brokers if broker.why is None]
    releases = [release_of(level) for level in levels]
    known = dict.fromkeys(release for release in releases if release in by_release)
    others = dict.fromkeys(
        "brokers of a release that is not known" if release is None else f"Kafka {release}"
        for release in releases
        if release not in by_release
    )
    here = [by_release[release] for release in known if release is not None]
    return FromRelease(
        "; ".join(_result(version) for version in here),
        "; ".join(filter(None, (_differences(version, len(here) > 1) for version in here))),
        join_names(list(others)),
    )


def _result(version: TriedVersion) -> str:
    total, failed = len(version.scenarios), version.failed
    if not failed:
        return f"Kafka {version.version} on {version.date}: all {total} scenarios passed"
    names = join_names([scenario_name(name) for name in failed])
    return (
        f"Kafka {version.version} on {version.date}: {total - len(failed)} of {total} scenarios passed; failed: {names}"
    )


def _differences(version: TriedVersion, is_named: bool) -> str:
    found = [text for ability, text in LACKING.items() if not version.abilities.get(ability)]
    if version.skips_markers:
        found.append("the marker of a partition without a leader is skipped (KAFKA-20734)")
    groups = [kip for ability, kip in NO_GROUPS.items() if not version.abilities.get(ability)]
    if groups:
        found.append(f"by default no groups of {join_names(groups)}")
    text = "; ".join(found)
    return f"Kafka {version.version}: {text}" if is_named and text else text


def scenario_name(test: str) -> str:
    """Returns the name of a test in words: "integration/test_truth.py::test_the_store_says" → "the store says"."""
    name, _, case = test.rpartition("::")[2].removeprefix("test_").rstrip("]").partition("[")
    return name.replace("_", " ") + (f" ({case})" if case else "")


def newest_first(records: Iterable[TriedVersion]) -> Sequence[TriedVersion]:
    """Returns the records, sorted by version, the newest first."""
    return sorted(records, key=lambda version: [int(part) for part in version.version.split(".")], reverse=True)
