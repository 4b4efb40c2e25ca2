"""The bodies of applications: their ids, what ended, and what their open transactions hold up."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.api.http.fields import application_link, text_of_time
from service.api.schemas.clusters import States
from service.api.schemas.shape import OneOf, Page, RawTime, Shape, Time, moment, shaped
from service.api.schemas.transactions import Aborts, Counts, TopicPartition
from service.domain.applications import Framework
from service.domain.transaction_log.states import EXPIRED, NAMES
from service.views.applications import SeenApplication

KindOfApplication = Annotated[Framework, OneOf(*(one for one in Framework if one != Framework.UNKNOWN))]


class ApplicationCounts(Counts):
    """Numbers of transactions that ended since `since`, while their id belonged to the application."""


class Application(Shape):
    name: str
    kinds: Annotated[
        list[KindOfApplication], Field(description="The frameworks that made the application's ids, where known.")
    ]
    ids: Annotated[int, Field(description="Number of the application's transactional.ids that have not expired.")]
    states: Annotated[States, Field(description="Numbers of these ids, by state.")]
    open: Annotated[int, Field(description="Number of the application's open transactions.")]
    oldest_open_at: Annotated[RawTime, Field(description="Start of the application's oldest open transaction.")]
    counts: ApplicationCounts
    failed_share: Annotated[
        float | None,
        Field(
            description="Share of the transactions in `counts` that were aborted for a cause other than client; null"
            " if no transaction ended."
        ),
    ]
    blocked_partitions: Annotated[
        list[TopicPartition],
        Field(description="The partitions whose LSO is held by the application's open transactions."),
    ]
    blocked_groups: Annotated[
        list[str], Field(description="The consumer groups that wait for the application's transactions.")
    ]
    href: Annotated[str, Field(description="Path of this application.")]

    @staticmethod
    def of(application: SeenApplication, cluster: str) -> Application:
        """Returns the body of an application. `cluster`: the cluster's name."""
        row = application.row
        return shaped(
            Application,
            row,
            kinds=list(row.kinds),
            states=States(**{name: row.states.get(state, 0) for state, name in NAMES.items() if state != EXPIRED}),
            oldest_open_at=moment(row.oldest_open_ms),
            counts=ApplicationCounts(
                since=text_of_time(row.since_ms), commits=row.commits, aborts=shaped(Aborts, row.aborts)
            ),
            blocked_partitions=[TopicPartition(topic=topic, partition=n) for topic, n in application.partitions],
            blocked_groups=list(application.groups),
            href=application_link(cluster, row.name),
        )


class OneApplication(Application):
    as_of: Time | None


class Applications(Page[Application]): ...
