"""Answers what is wrong in a cluster, or in all clusters: the verdict, the gravest findings, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from service.domain.findings.kinds import Status
from service.mcp.asking import Ask
from service.mcp.data import Fields, known, more, name, quoted
from service.mcp.findings import gravest_findings

CLUSTERS: Final = 5
"""Maximum number of clusters that an answer describes."""
FINDINGS: Final = 8
FINDINGS_OF_MANY: Final = 2
"""Maximum number of findings of each cluster in an answer about several clusters."""
_UNKNOWNS: Final = 5
_READ: Final = 200
_COUNTS: Final = ("hanging", "open")


async def what_is_wrong(ask: Ask, cluster: str | None) -> Fields:
    """Returns the answer about the cluster. If `cluster` is None, the answer describes the CLUSTERS clusters with the
    most hanging transactions, names up to CLUSTERS more, and contains the number of the clusters left out. Reads at
    most _READ clusters; if there are more, that number counts all unread clusters as one."""
    if cluster is not None:
        return {"clusters": [await _cluster(ask, await ask("clusters", cluster), FINDINGS)]}
    page = await ask("clusters", limit=str(_READ))
    found = sorted(page["items"], key=lambda one: (-one["hanging"], -_open_findings(one), one["cluster"]))
    most = FINDINGS if len(found) == 1 else FINDINGS_OF_MANY
    answer: Fields = {"clusters": [await _cluster(ask, one, most) for one in found[:CLUSTERS]]}
    others = [name("cluster", one["cluster"]) | known(one, _COUNTS) for one in found[CLUSTERS : 2 * CLUSTERS]]
    if others:
        answer["other_clusters"] = others
    return answer | more("clusters", len(found) - 2 * CLUSTERS + (page["next_cursor"] is not None))


async def _cluster(ask: Ask, one: Mapping[str, Any], most: int) -> Fields:
    counts, findings = one["partitions"], await gravest_findings(ask, one["cluster"], most)
    stalled = [_source(source) for source in one["sources"] if source["stalled_since"] or not source["as_of"]]
    unknown = [_unknown(each) for each in one["unknown"][:_UNKNOWNS]]
    found: Fields = name("cluster", one["cluster"]) | {
        "verdict": _verdict(one, is_stalled=bool(stalled)),
        "as_of": min((source["as_of"] for source in one["sources"] if source["as_of"]), default=None),
        "hanging_transactions": one["hanging"],
        "open_transactions": one["open"],
        "partitions": {key: counts[key] for key in ("watched", "judged", "unknown", "blocked")},
        "findings": findings,
    }
    found |= more("findings", _open_findings(one) - len(findings))
    if one["truncated"]:
        found["too_many_for_findings"] = {each["kind"]: each["count"] for each in one["truncated"]}
    if stalled:
        found["stalled_sources"] = stalled
    if unknown:
        found |= {"not_known": unknown} | more("not_known", len(one["unknown"]) - len(unknown))
    return found


def _open_findings(one: Mapping[str, Any]) -> int:
    return sum(each["count"] for each in one["findings"] if each["status"] != Status.RESOLVED)


def _verdict(one: Mapping[str, Any], *, is_stalled: bool) -> str:
    """Returns the verdict as one word. Returns "nothing_hangs" only if the data are fresh and all watched partitions
    can be judged."""
    counts = one["partitions"]
    if one["hanging"]:
        return "hangs"
    if is_stalled or counts["unknown"] or not counts["watched"] or one["truncated"]:
        return "not_certain"
    return "blocked" if counts["blocked"] else "nothing_hangs"


def _source(source: Mapping[str, Any]) -> Fields:
    return known(source, ("source", "as_of", "stalled_since")) | quoted(why=source["stalled_why"] or source["error"])


def _unknown(one: Mapping[str, Any]) -> Fields:
    return {"kind": one["kind"]} | quoted(what=one["what"], why=one["why"], grant=one["grant"])
