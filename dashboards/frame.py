"""The common parts of all dashboards: variables, links, alerts as annotations, the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dashboards.links import SITE
from dashboards.panels import DATASOURCE, Panel
from dashboards.queries import of_service
from dashboards.sdk import dashboard
from dashboards.shared import SERVICE
from service.metrics.catalogue import TRANSACTIONAL_IDS, UP

TAG: Final = "txnscope"
TAGS: Final = ("kafka", TAG)
PREFIX: Final = "Kafka transactions / "
"""The first words of the title of every dashboard."""
REFRESH: Final = "30s"
TIMEZONE: Final = "browser"
SITE_URL: Final = "http://127.0.0.1:8080"
"""Default address of the service."""

COLUMNS: Final = 24

Row = tuple[str, Sequence[Panel]]
Variable = dashboard.VariableModel


class Board(NamedTuple):
    """A dashboard before it is laid out."""

    name: str
    title: str
    about: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = ()

    @property
    def file(self) -> str:
        return f"{self.name}.json"


def model(board: Board, site_url: str) -> dashboard.Dashboard:
    """Returns the dashboard in the form that Grafana imports."""
    return dashboard.Dashboard(
        uid=f"{TAG}-{board.name}",
        title=PREFIX + board.title,
        description=board.about,
        tags=[*TAGS],
        timezone=TIMEZONE,
        editable=False,
        graph_tooltip=dashboard.DashboardCursorSync.CROSSHAIR,
        time=dashboard.DashboardDashboardTime(from_val="now-1h", to="now"),
        refresh=REFRESH,
        links=[
            dashboard.DashboardLink(
                title="Kafka transactions",
                type_val=dashboard.DashboardLinkType.DASHBOARDS,
                icon="external link",
                tooltip="The other dashboards, for the same time and clusters",
                tags=[TAG],
                as_dropdown=True,
                include_vars=True,
                keep_time=True,
            ),
            dashboard.DashboardLink(
                title="txnscope",
                type_val=dashboard.DashboardLinkType.LINK,
                icon="external link",
                tooltip="The service's own pages: what blocks whom, evidence, commands",
                url=f"{SITE}/",
                target_blank=True,
            ),
        ],
        templating=dashboard.DashboardDashboardTemplating([*_variables(site_url), *board.variables]),
        annotations=dashboard.AnnotationContainer([_alerts()]),
        panels=_placed(board.rows),
    )


def of_label(name: str, query: str, about: str, all_value: str = ".+") -> Variable:
    """Returns a variable for choosing one, several or all values of a label. `all_value`: the pattern that stands for
    all; `.*` also matches series without the label."""
    return Variable(
        type_val=dashboard.VariableType.QUERY,
        name=name,
        description=about,
        query=query,
        definition=query,
        datasource=DATASOURCE,
        refresh=dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED,
        sort=dashboard.VariableSort.ALPHABETICAL_ASC,
        multi=True,
        include_all=True,
        all_value=all_value,
        current=dashboard.VariableOption(text="All", value="$__all"),
    )


def typed(name: str, value: str, about: str) -> Variable:
    """Returns a variable for a text that the user types."""
    return Variable(
        type_val=dashboard.VariableType.TEXTBOX,
        name=name,
        description=about,
        query=value,
        current=dashboard.VariableOption(text=value, value=value),
    )


def _variables(site_url: str) -> list[Variable]:
    return [
        Variable(
            type_val=dashboard.VariableType.DATASOURCE, name="datasource", label="Data source", query="prometheus"
        ),
        of_label("job", f"label_values({UP.name}, job)", "Scrape jobs of txnscope"),
        of_label(
            "namespace",
            f'label_values({UP.name}{{job=~"$job"}}, namespace)',
            "Namespaces of txnscope's targets, if the targets have the label `namespace`. Namespaces distinguish"
            " clusters of the"
            " same name",
            all_value=".*",
        ),
        of_label(
            "cluster",
            f"label_values({of_service(TRANSACTIONAL_IDS)}, cluster)",
            "Kafka clusters, as txnscope names them",
        ),
        typed("txnscope", site_url, "Address of txnscope in your browser, for links"),
    ]


def _alerts() -> dashboard.AnnotationQuery:
    """Returns the annotations for firing alerts, except the heartbeat. Alerts without a cluster label (the service is
    down) are included."""
    where = f'service="{SERVICE}",alertstate="firing",severity!="none",cluster=~"$cluster|"'
    return dashboard.AnnotationQuery(
        name="Alerts",
        datasource=DATASOURCE,
        enable=True,
        icon_color="red",
        expr=f"ALERTS{{{where}}}",
        step="30s",
        title_format="{{alertname}}",
        text_format="{{severity}} {{cluster}} {{topic}} {{partition}}",
        tag_keys="severity",
    )


def _placed(rows: Sequence[Row]) -> list[Panel | dashboard.RowPanel]:
    """Places the panels of each row from left to right. Each row begins on a new line, and so does a panel that does
    not fit."""
    placed: list[Panel | dashboard.RowPanel] = []
    y = 0
    for title, panels in rows:
        placed.append(
            dashboard.RowPanel(
                title=title, grid_pos=dashboard.GridPos(h=1, w=COLUMNS, x=0, y=y), id_val=len(placed) + 1
            )
        )
        x, y, below = 0, y + 1, y + 1
        for panel in panels:
            assert panel.grid_pos is not None
            size = panel.grid_pos
            if x + size.w > COLUMNS:
                x, y = 0, below
            size.x, size.y = x, y
            x, below = x + size.w, max(below, y + size.h)
            panel.id_val = len(placed) + 1
            placed.append(panel)
        y = below
    return placed
