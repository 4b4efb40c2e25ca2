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
    delivered: Annotated[int, Field(description="Notifications that it took.")]
    failed: Annotated[int, Field(description="Attempts that failed; each is repeated.")]
    dropped: Annotated[
        int, Field(description="Events that it will never get: refused, or deleted before it took them.")
    ]
    pending: Annotated[int, Field(description="Events that wait for it, also those that it may not want.")]
    delivered_at: Time | None
    failing_since: Annotated[Time | None, Field(description="Null: the last attempt succeeded.")]
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
