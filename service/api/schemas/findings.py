"""The bodies of findings, and of the marker that resolves one."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.api.http.fields import cluster_link, id_fields, text_of_clock, text_of_time
from service.api.schemas.offsets import MarkerWord
from service.api.schemas.shape import IdBytes, OneOf, Page, Shape, Time, Wide, shaped
from service.domain.findings import finding as domain
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.transaction_log.causes import Confidence
from service.domain.worlds.verdict import Decided, Proof, ProofKind, World
from service.views.findings.unnamed import unnamed_words

KindWord = Annotated[Kind, OneOf(*Kind)]
SeverityWord = Annotated[Severity, OneOf(*Severity)]
StatusWord = Annotated[Status, OneOf(*Status)]
DecisionWord = Annotated[Decided, OneOf(*Decided)]
WorldWord = Annotated[World, OneOf(*World)]


class FindingSubject(Shape):
    """The subject of a finding. If all fields are null, the subject is the whole cluster."""

    topic: str | None
    partition: int | None
    transactional_id: str | None
    producer_id: int | None
    producer_epoch: int | None
    start_offset: int | None
    group: str | None
    prefix: Annotated[str | None, Field(description="The common prefix of the ids, in display form.")]
    transactional_id_b64: IdBytes

    @staticmethod
    def of(subject: domain.Subject) -> FindingSubject:
        transactional_id, id_b64 = id_fields(subject.transactional_id)
        shown = {"transactional_id": transactional_id, "transactional_id_b64": id_b64}
        return FindingSubject(**subject._asdict() | shown)


class FindingEvidence(Shape):
    at: Time | None
    source: str
    text: str

    @staticmethod
    def of(evidence: domain.Evidence) -> FindingEvidence:
        return FindingEvidence(at=text_of_time(evidence.at_ms), source=str(evidence.source), text=evidence.text)


class FindingProof(Shape):
    kind: Annotated[ProofKind, OneOf(*ProofKind)]
    at: Time | None
    source: str
    text: str

    @staticmethod
    def of(proof: Proof) -> FindingProof:
        return FindingProof(kind=proof.kind, at=text_of_time(proof.at_ms), source=str(proof.source), text=proof.text)


class FindingAcknowledgement(Shape):
    """An operator's statement that the finding was seen and needs no further action."""

    at: Time
    by: str
    reason: str

    @staticmethod
    def of(given: domain.Acknowledgement) -> FindingAcknowledgement:
        return FindingAcknowledgement(at=text_of_clock(given.at_ms), by=given.by, reason=given.reason)


class FindingWordsApart(Shape):
    """The sentences of a finding, with a reference such as `[transactional_id]` in place of each name."""

    summary: str
    advice: str
    outlook: Annotated[str, Field(description="Whether the problem heals by itself, and how.")]
    cause: Annotated[str | None, Field(description="The reason why a hanging transaction hangs; null for other kinds.")]
    decided_by: Annotated[
        str | None,
        Field(description="Why the decision about a hanging transaction is known or unknown; null for other kinds."),
    ]
    names: Annotated[
        dict[str, str],
        Field(description="The name, in display form, for each reference that is no field of `subject`."),
    ]


class Finding(Shape):
    id: str
    cluster: str
    kind: KindWord
    severity: SeverityWord
    status: StatusWord
    confidence: Annotated[Confidence, OneOf(Confidence.CERTAIN, Confidence.LIKELY)]
    subject: FindingSubject
    opened_at: Time
    confirmed_at: Time | None
    resolved_at: Time | None
    last_seen_at: Time
    count: Annotated[
        int,
        Field(
            description="For a finding about events: number of occurrences. For a finding about"
            " a condition: number of ids in the finding."
        ),
    ]
    reopened: bool
    resolution: str | None
    acknowledgement: Annotated[
        FindingAcknowledgement | None,
        Field(
            description="Only for `lost_records` and `torn_transaction`, which stay open until acknowledged. The"
            " finding resolves about a second after its acknowledgement."
        ),
    ]
    owner: str | None
    application: Annotated[
        str | None, Field(description="The application of the ids that the finding is about; null if not known.")
    ]
    muted_until: Time | None
    summary: str
    evidence: list[FindingEvidence]
    blocked_groups: list[str]
    self_heals_at: Time | None
    decision: DecisionWord | None
    possible: Annotated[
        list[WorldWord],
        Field(
            description="The ways in which the records of a hanging transaction may have been written; empty for other"
            " kinds. If the list is not empty and lacks commit, an ABORT discards no committed record."
        ),
    ]
    proofs: Annotated[list[FindingProof], Field(description="The facts that exclude the other values of `possible`.")]
    advice: str
    command: str | None
    href: Annotated[str, Field(description="Path of this finding.")]
    words_apart: Annotated[
        FindingWordsApart | None, Field(description="The sentences without names; only with `names=apart`.")
    ] = None

    @staticmethod
    def of(finding: domain.Finding, cluster: str, *, names_apart: bool = False) -> Finding:
        """Returns the body of a finding. `cluster`: the cluster's name. `names_apart`: whether the body has
        `words_apart`."""
        seen, life = finding.observation, finding.life
        given = finding.acknowledgement
        return shaped(
            Finding,
            seen,
            id=finding.id,
            cluster=cluster,
            status=life.status,
            count=life.count,
            reopened=life.reopened,
            resolution=life.resolution,
            subject=FindingSubject.of(seen.subject),
            opened_at=text_of_clock(life.opened_at_ms),
            confirmed_at=text_of_time(life.confirmed_at_ms),
            resolved_at=text_of_time(life.resolved_at_ms),
            last_seen_at=text_of_clock(life.last_seen_ms),
            acknowledgement=None if given is None else FindingAcknowledgement.of(given),
            application=finding.application,
            muted_until=text_of_time(seen.muted_until_ms),
            evidence=[FindingEvidence.of(one) for one in seen.evidence],
            blocked_groups=list(seen.blocked_groups),
            self_heals_at=text_of_time(seen.self_heals_at_ms),
            possible=list(seen.possible),
            proofs=[FindingProof.of(proof) for proof in seen.proofs],
            command=finding.command,
            href=f"{cluster_link(cluster)}/findings/{finding.id}",
            words_apart=shaped(FindingWordsApart, unnamed_words(finding)) if names_apart else None,
        )


class OneFinding(Finding):
    as_of: Time | None


class Findings(Page[Finding]):
    truncated: Annotated[
        int,
        Field(
            description="Number of problems of the requested kinds without a finding, because a bound was reached:"
            " those that were not examined, and those beside too many others. 0 if only resolved findings are"
            " requested. `truncated` of the cluster counts them by kind."
        ),
    ]


class Resolution(Shape):
    """The marker for a hanging transaction. `executed`: true if the marker was written. `command`: the command of
    Kafka's tool that writes the same marker; null if there is none.
    """

    finding_id: str
    dry_run: bool
    executed: bool
    marker: MarkerWord
    topic: str
    partition: int
    producer_id: Wide
    producer_epoch: int
    coordinator_epoch: int
    reason: str
    steps: list[str]
    command: str | None
    checked_at: Time
