"""Panels: big numbers, lines, tables, heatmaps, each with its meaning, its unit and its thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypedDict, Unpack

from dashboards.links import Link
from dashboards.sdk import common, dashboard, heatmap, prometheus, stat, table, timeseries

DATASOURCE: Final = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
MAY_BE_EMPTY: Final = "(may be empty)"
"""The last words of the description of a panel that may be empty although nothing is wrong."""

TEXT: Final = "string"

Steps = tuple[tuple[float | None, str], ...]
"""The colour steps of a panel: (lowest value, colour) of each. The first step has no lowest value."""

Panel = dashboard.Panel


class Query(NamedTuple):
    expr: str
    legend: str = "{{cluster}}"


class Column(NamedTuple):
    """A column of a table. `field`: a label, or `Value`; with several queries, `Value #A` is the value of the first
    query. The columns of labels are not renamed, because links use their names."""

    field: str
    name: str = ""
    unit: str = TEXT
    steps: Steps = ()
    links: tuple[Link, ...] = ()

    @property
    def title(self) -> str:
        return self.name or self.field


class Shown(TypedDict, total=False):
    """Parts that any panel may have. `alert`: name of the alert that fires at the panel's thresholds; `empty`: True if
    the panel may be empty although nothing is wrong; `width`: in columns of the grid."""

    unit: str
    steps: Steps
    alert: str
    empty: bool
    width: int


def steps(orange: float | None = None, red: float | None = None, *, blue: float | None = None) -> Steps:
    """Returns the colour steps of a panel: green below the first value given, then blue (worth knowing), orange (a
    warning) and red (critical), each from its value on. A value of 0 counts as not given."""
    return ((None, "green"), *((n, colour) for n, colour in ((blue, "blue"), (orange, "orange"), (red, "red")) if n))


def at_least(green: float) -> Steps:
    """Returns colour steps for a value that should not be low: green from `green` on, orange below, red below
    a millionth of `green` (in practice: at 0)."""
    return ((None, "red"), (green / 1e6, "orange"), (green, "green"))


def big(
    title: str, meaning: str, expr: str, *links: Link, legend: str = "{{cluster}}", **shown: Unpack[Shown]
) -> Panel:
    """Returns a panel with one big number for each series of `expr`. If there are several series, each number has its
    `legend`."""
    options = stat.Options(
        graph_mode=common.BigValueGraphMode.NONE,
        color_mode=common.BigValueColorMode.BACKGROUND if shown.get("steps") else common.BigValueColorMode.NONE,
        justify_mode=common.BigValueJustifyMode.AUTO,
        text_mode=common.BigValueTextMode.AUTO,
        reduce_options=common.ReduceDataOptions(values=False, calcs=["lastNotNull"], fields=""),
        orientation=common.VizOrientation.AUTO,
    )
    panel = _panel("stat", title, meaning, options, dashboard.FieldConfig(no_value="none"), links, (4, 4), shown)
    panel.targets = [_target(0, Query(expr, legend), instant=True)]
    return panel


def lines(
    title: str, meaning: str, queries: Sequence[Query], *links: Link, stacked: bool = False, **shown: Unpack[Shown]
) -> Panel:
    """Returns a panel of lines over time; thresholds are dashed lines."""
    style = common.GraphThresholdsStyleMode.DASHED if shown.get("steps") else common.GraphThresholdsStyleMode.OFF
    stacking = common.StackingMode.NORMAL if stacked else common.StackingMode.NONE
    custom = timeseries.FieldConfig(
        draw_style=common.GraphDrawStyle.LINE,
        line_width=1,
        fill_opacity=25 if stacked else 5,
        show_points=common.VisibilityMode.NEVER,
        span_nulls=False,
        stacking=common.StackingConfig(mode=stacking, group="A"),
        thresholds_style=common.GraphThresholdsStyleConfig(mode=style),
    )
    options = timeseries.Options(
        legend=common.VizLegendOptions(
            display_mode=common.LegendDisplayMode.LIST,
            placement=common.LegendPlacement.BOTTOM,
            show_legend=True,
            calcs=[],
        ),
        tooltip=common.VizTooltipOptions(mode=common.TooltipDisplayMode.MULTI, sort=common.SortOrder.DESCENDING),
    )
    color = dashboard.FieldColor(mode=dashboard.FieldColorModeId.PALETTE_CLASSIC)
    config = dashboard.FieldConfig(color=color, min_val=0, custom=custom)
    panel = _panel("timeseries", title, meaning, options, config, links, (12, 8), shown)
    panel.targets = [_target(number, query) for number, query in enumerate(queries)]
    return panel


def rows(
    title: str, meaning: str, exprs: Sequence[str], columns: Sequence[Column], *, worst: str, **shown: Unpack[Shown]
) -> Panel:
    """Returns a table of present values: a row for each set of labels, sorted by the column `worst`, the highest
    first."""
    values = {"Value"} if len(exprs) == 1 else {f"Value #{_ref(number)}" for number in range(len(exprs))}
    fields = [column.field for column in columns]
    organized = {
        "excludeByName": dict.fromkeys(sorted({"Time", *values}.difference(fields)), True),
        "indexByName": {field: index for index, field in enumerate(fields)},
        "renameByName": {column.field: column.title for column in columns if column.field != column.title},
    }
    options = table.Options(
        sort_by=[common.TableSortByFieldState(display_name=worst, desc=True)], cell_height=common.TableCellHeight.SM
    )
    config = dashboard.FieldConfig(custom=common.TableFieldOptions())
    panel = _panel("table", title, meaning, options, config, (), (24, 8), {"unit": TEXT, **shown})
    as_table = prometheus.PromQueryFormat.TABLE
    panel.targets = [_target(number, Query(expr, ""), as_table, instant=True) for number, expr in enumerate(exprs)]
    panel.transformations = [
        dashboard.DataTransformerConfig(id_val="merge", options={}),
        dashboard.DataTransformerConfig(id_val="organize", options=organized),
    ]
    assert panel.field_config is not None
    panel.field_config.overrides = [_override(column) for column in columns]
    return panel


def density(title: str, meaning: str, expr: str, **shown: Unpack[Shown]) -> Panel:
    """Returns a heatmap over time for a histogram of durations (s): the darker a cell, the more observations it has."""
    options = heatmap.Options(
        calculate=False,
        color=heatmap.HeatmapColorOptions(
            mode=heatmap.HeatmapColorMode.SCHEME, scheme="Oranges", fill="dark-orange", exponent=0.5, steps=64
        ),
        y_axis=heatmap.YAxisConfig(unit="s"),
        cell_values=heatmap.CellValues(unit="short"),
        filter_values=heatmap.FilterValueRange(le=1e-9),
        show_value=common.VisibilityMode.NEVER,
        legend=heatmap.HeatmapLegend(show=True),
        tooltip=heatmap.HeatmapTooltip(mode=common.TooltipDisplayMode.SINGLE, y_histogram=True),
    )
    config = dashboard.FieldConfig(custom=heatmap.FieldConfig())
    panel = _panel("heatmap", title, meaning, options, config, (), (12, 8), {"unit": "s", **shown})
    panel.targets = [_target(0, Query(expr, "{{le}}"), prometheus.PromQueryFormat.HEATMAP)]
    return panel


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _target(
    number: int,
    query: Query,
    format_val: prometheus.PromQueryFormat = prometheus.PromQueryFormat.TIME_SERIES,
    *,
    instant: bool = False,
) -> prometheus.Dataquery:
    return prometheus.Dataquery(
        datasource=DATASOURCE,
        editor_mode=prometheus.QueryEditorMode.CODE,
        expr=query.expr,
        format_val=format_val,
        instant=instant,
        range_val=not instant,
        legend_format=query.legend or None,
        ref_id=_ref(number),
    )


def _panel(
    kind: str,
    title: str,
    meaning: str,
    options: object,
    config: dashboard.FieldConfig,
    links: Sequence[Link],
    size: tuple[int, int],
    shown: Shown,
) -> Panel:
    """Returns a panel without queries. `config`: field settings of this kind of panel, to which this function adds the
    settings in `shown`; `size`: width and height, unless `shown` has another width."""
    config.unit = shown.get("unit", "none")
    steps = [dashboard.Threshold(value, colour) for value, colour in shown.get("steps") or ((None, "text"),)]
    config.thresholds = dashboard.ThresholdsConfig(mode=dashboard.ThresholdsMode.ABSOLUTE, steps=steps)
    config.color = config.color or dashboard.FieldColor(mode=dashboard.FieldColorModeId.THRESHOLDS)
    config.links = [link.model() for link in links] or None
    alert = f" Alert: {shown['alert']}." if "alert" in shown else ""
    return Panel(
        type_val=kind,
        title=title,
        description=meaning + alert + (f" {MAY_BE_EMPTY}" if shown.get("empty") else ""),
        datasource=DATASOURCE,
        options=options,
        field_config=dashboard.FieldConfigSource(defaults=config, overrides=[]),
        grid_pos=dashboard.GridPos(h=size[1], w=shown.get("width", size[0])),
    )


def _override(column: Column) -> dashboard.DashboardFieldConfigSourceOverrides:
    properties = [dashboard.DynamicConfigValue("unit", column.unit)]
    if column.steps:
        colours = [{"color": colour, "value": value} for value, colour in column.steps]
        properties += [
            dashboard.DynamicConfigValue("thresholds", {"mode": "absolute", "steps": colours}),
            dashboard.DynamicConfigValue("custom.cellOptions", {"type": "color-background", "mode": "basic"}),
        ]
    if column.links:
        properties.append(dashboard.DynamicConfigValue("links", [link.override() for link in column.links]))
    return dashboard.DashboardFieldConfigSourceOverrides(
        matcher=dashboard.MatcherConfig("byName", column.title), properties=properties
    )
