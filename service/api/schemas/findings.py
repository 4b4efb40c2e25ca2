"""The shapes of findings, as OpenAPI shows them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.schemas.models import Shape, Time, Wide

Kind = Literal[
    "hanging_transaction",
    "adopted_records",
    "unreplicated_marker",
    "overdue_transaction",
    "stuck_completion",
    "long_running_transaction",
    "blocked_group",
    "timed_out_transaction",
    "correlated_timeouts",
    "fencing_conflict",
    "transactional_id_churn",
    "expiring_transactional_id",
    "expired_transactional_id",
    "epoch_exhaustion",
    "coordinator_mismatch",
    "undecodable_records",
    "data_gap",
    "coverage_gap",
]
Severity = Literal["critical", "warning", "info"]
Status = Literal["candidate", "confirmed", "resolved"]


class FindingSubject(Shape):
    """The subject of a finding. If all fields are null, it is the whole cluster."""

    topic: str | None
    partition: int | None
    transactional_id: str | None
    producer_id: int | None
    producer_epoch: int | None
    start_offset: int | None
    group: str | None
    prefix: str | None = Field(description="Begins all the ids that it stands for, as people see them.")
    transactional_id_b64: str | None = Field(
        description="The id's bytes as base64url where `transactional_id` is not exactly them, else null."
    )


class FindingEvidence(Shape):
    at: Time | None
    source: str
    text: str


class FindingProof(FindingEvidence):
    kind: Literal["epoch", "listing", "marker", "order", "completeness"]


class Finding(Shape):
    id: str
    cluster: str
    kind: Kind
    severity: Severity
    status: Status
    confidence: Literal["certain", "likely"]
    subject: FindingSubject
    opened_at: Time
    confirmed_at: Time | None
    resolved_at: Time | None
    last_seen_at: Time
    count: int = Field(description="Of an event, how often it happened; of a condition, how many ids it speaks of.")
    reopened: bool
    resolution: str | None
    owner: str | None
    muted_until: Time | None
    summary: str
    evidence: list[FindingEvidence]
    blocked_groups: list[str]
    self_heals_at: Time | None
    decision: Literal["commit", "abort", "none", "unknown"] | None
    possible: list[Literal["commit", "abort", "none"]] = Field(
        description="Within what it may have been written, as far as known. Without commit an ABORT loses nothing."
    )
    proofs: list[FindingProof] = Field(description="What removed the other worlds.")
    advice: str
    command: str | None
    href: str = Field(description="Where this finding is shown alone.")


class OneFinding(Finding):
    as_of: Time | None


class Findings(Shape):
    items: list[Finding]
    next_cursor: str | None
    as_of: Time | None
    truncated: int = Field(
        description="How many more of the kinds asked for have no finding, because there are too many at once; 0 where"
        " only resolved ones are asked for. Which kinds: `truncated` of the cluster."
    )


class Resolution(Shape):
    """The marker for a hanging transaction. `executed`: it is in the log. `command`: the command of Kafka's own tool
    that does the same, null if there is none.
    """

    finding_id: str
    dry_run: bool
    executed: bool
    marker: Literal["COMMIT", "ABORT"]
    topic: str
    partition: int
    producer_id: int
    producer_id_str: Wide = None
    producer_epoch: int
    coordinator_epoch: int
    reason: str
    steps: list[str]
    command: str | None
    checked_at: Time
