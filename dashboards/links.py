"""Links in the dashboards: to the service's pages, which have stable addresses, and from one dashboard to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from dashboards.sdk import dashboard

SITE: Final = "${txnscope:raw}"
ONE_ID: Final = "txnscope-transactional-id"
PARTITIONS: Final = "txnscope-partitions"
PIPELINE: Final = "txnscope-pipeline"

At = Callable[[str], str]


def of_row(label: str) -> str:
    """Returns Grafana's variable for the value of `label` in a row of a table."""
    return f"${{__data.fields.{label}:percentencode}}"


def of_series(label: str) -> str:
    """Returns Grafana's variable for the value of `label` of a line or a big number."""
    return f"${{__field.labels.{label}:percentencode}}"


class Link(NamedTuple):
    title: str
    url: str

    @property
    def leaves(self) -> bool:
        """True if the link leaves Grafana, and so opens in a new tab."""
        return self.url.startswith(SITE)

    def model(self) -> dashboard.DashboardLink:
        return dashboard.DashboardLink(
            title=self.title, type_val=dashboard.DashboardLinkType.LINK, url=self.url, target_blank=self.leaves
        )

    def override(self) -> dict[str, object]:
        """Returns the link in the form that an override of a table's column needs."""
        return {"title": self.title, "url": self.url, "targetBlank": self.leaves}


def page(at: At, path: str = "") -> Link:
    """Returns the link to a page of the cluster. `path` begins with a slash; if it is empty, the link goes to the
    cluster's first page."""
    return Link("Open in txnscope", f"{SITE}/clusters/{at('cluster')}{path}")


NOTIFICATIONS_PAGE: Final = Link("Open in txnscope", f"{SITE}/notifications")


def partition_page(at: At) -> Link:
    return page(at, f"/partitions/{at('topic')}/{at('partition')}")


def finding_page(at: At) -> Link:
    return page(at, f"/findings/{at('finding')}")


def transaction_page(at: At) -> Link:
    return page(at, f"/transaction?id={at('transactional_id')}")


def application_page(at: At) -> Link:
    return page(at, f"/applications/{at('application')}")


def board(uid: str, title: str, at: At) -> Link:
    """Returns the link to another dashboard, for this cluster and time, and with the same values of all variables in
    _KEPT."""
    return Link(title, f"/d/{uid}?var-cluster={at('cluster')}&{_KEPT}")


def one_id(at: At) -> Link:
    """Returns the link to the dashboard of one transactional.id."""
    known = board(ONE_ID, "Dashboard of this transactional.id", at)
    return known._replace(url=f"{known.url}&var-transactional_id={at('transactional_id')}")


_KEPT: Final = (
    "${datasource:queryparam}&${job:queryparam}&${namespace:queryparam}&${txnscope:queryparam}&${__url_time_range}"
)
