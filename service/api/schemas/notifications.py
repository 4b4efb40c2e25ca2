"""The body of the receivers of notifications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from service.api.http.fields import text_of_time
from service.api.schemas.shape import Page, Shape, Time, shaped
from service.store.receivers import ReceiverState


@dataclass(slots=True, kw_only=True)
class NotifiedReceiver(Shape):
    """A receiver of `[[notify]]`."""

    receiver: str
    kind: str
    delivered: Annotated[int, Field(description="Notifications that the receiver took.")]
    failed: Annotated[int, Field(description="Failed attempts to deliver; each is followed by another attempt.")]
    dropped: Annotated[
        int,
        Field(
            description="Notifications that the receiver refused, and events that were skipped because it was away for"
            " too long. The number of skipped events is an upper limit: the receiver may not have wanted all of them."
        ),
    ]
    pending: Annotated[
        int,
        Field(
            description="Number of events after the last one that the receiver took. The receiver may not"
            " want all of them."
        ),
    ]
    delivered_at: Time | None
    failing_since: Annotated[Time | None, Field(description="Null if the last attempt succeeded.")]
    error: str | None

    @staticmethod
    def of(state: ReceiverState) -> NotifiedReceiver:
        return shaped(
            NotifiedReceiver,
            state,
            receiver=state.name,
            delivered_at=text_of_time(state.delivered_at_ms),
            failing_since=text_of_time(state.failing_since_ms),
        )


class NotifiedReceivers(Page[NotifiedReceiver]): ...
