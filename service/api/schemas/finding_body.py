"""One Finding as the API shows it."""

from __future__ import annotations

from typing import Any

from service.api.http.fields import cluster_link, id_fields, text_of_time
from service.domain.findings.finding import Finding


def describe_finding(finding: Finding, cluster: str) -> dict[str, Any]:
    """Returns the Finding of the API. `cluster`: the name of its cluster."""
    subject = finding.subject._asdict() | id_fields(finding.subject.transactional_id)
    return {
        "id": finding.id,
        "cluster": cluster,
        "kind": finding.kind,
        "severity": finding.severity,
        "status": finding.status,
        "confidence": finding.confidence,
        "subject": subject,
        "opened_at": text_of_time(finding.opened_at_ms),
        "confirmed_at": text_of_time(finding.confirmed_at_ms),
        "resolved_at": text_of_time(finding.resolved_at_ms),
        "last_seen_at": text_of_time(finding.last_seen_ms),
        "count": finding.count,
        "reopened": finding.reopened,
        "resolution": finding.resolution,
        "owner": finding.owner,
        "muted_until": text_of_time(finding.muted_until_ms),
        "summary": finding.summary,
        "evidence": [{"at": text_of_time(e.at_ms), "source": e.source, "text": e.text} for e in finding.evidence],
        "blocked_groups": list(finding.blocked_groups),
        "self_heals_at": text_of_time(finding.self_heals_at_ms),
        "decision": finding.decision,
        "possible": list(finding.possible),
        "proofs": [
            {"kind": one.kind, "at": text_of_time(one.at_ms), "source": one.source, "text": one.text}
            for one in finding.proofs
        ],
        "advice": finding.advice,
        "command": finding.command,
        "href": f"{cluster_link(cluster)}/findings/{finding.id}",
    }
