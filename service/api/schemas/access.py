"""The bodies of the audit and of mutes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.access.actions import Action, Outcome
from service.api.http.fields import text_of_clock
from service.api.schemas.shape import OneOf, Page, Shape, Time, shaped
from service.store import finding_marks
from service.store.audit_events import AuditRow

ActionWord = Annotated[Action, OneOf(*Action)]
OutcomeWord = Annotated[Outcome, OneOf(*Outcome)]


class AuditEntry(Shape):
    """An action that somebody did, tried, or was refused. `subject`: the name of the key, or the id of the finding or
    mute; null for a refused request."""

    id: int
    at: Time
    action: ActionWord
    outcome: OutcomeWord
    who: Annotated[str | None, Field(description="Name of the person or program; null if not known.")]
    address: Annotated[
        str | None, Field(description="Address of the sender; null for a command that opens the store itself.")
    ]
    cluster: Annotated[str | None, Field(description="Name of the cluster; null if the action concerns no cluster.")]
    subject: str | None
    detail: str | None
    count: Annotated[int, Field(description="Number of refusals that this entry sums up; else 1.")]

    @staticmethod
    def of(row: AuditRow) -> AuditEntry:
        event = row.event
        return shaped(
            AuditEntry,
            event,
            id=row.id,
            at=text_of_clock(event.at_ms),
            who=event.who or None,
            cluster=row.cluster,
            count=event.times,
        )


class AuditEntries(Page[AuditEntry]): ...


class Mute(Shape):
    """A mute that an operator set. The one of `finding`, `prefix` and `topic` that is not null selects the findings."""

    id: int
    finding: str | None
    prefix: str | None
    topic: str | None
    until: Time
    reason: str
    set_at: Time
    set_by: str

    @staticmethod
    def of(mute: finding_marks.Mute) -> Mute:
        wish = mute.wish
        return shaped(
            Mute,
            wish,
            id=mute.id,
            finding=wish.finding_id,
            until=text_of_clock(wish.until_ms),
            set_at=text_of_clock(mute.set_at_ms),
            set_by=mute.set_by,
        )


class Mutes(Page[Mute]): ...
