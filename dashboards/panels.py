"""Panels: big numbers, lines, tables, heatmaps, each with its meaning, its unit and its thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from dashboards.links import Link
from dashboards.sdk import common, dashboard, heatmap, prometheus, stat, table, timeseries

DATASOURCE: Final = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
MAY_BE_EMPTY: Final = "(may be empty)"
"""The end of the description of a panel that is empty when all is well."""

TEXT: Final = "string"

Steps = tuple[tuple[float | None, str], ...]
"""(lowest value, colour) of each step; the first step has no lowest value."""

Panel = dashboard.Panel


class Query(NamedTuple):
    expr: str
    legend: str = "{{cluster}}"


class Column(NamedTuple):
    """A column of a table. `field`: a label, or `Value`; with several queries, `Value #A` is that of the first. Labels
    keep their names, because links use them."""

    field: str
    name: str = ""
    unit: str = TEXT
    steps: Steps = ()
    links: tuple[Link, ...] = ()

    @property
    def title(self) -> str:
        return self.name or self.field


def means(text: str, *alerts: str, empty: bool = False) -> str:
    """Returns a panel's description. `alerts`: those that fire at its thresholds; `empty`: see MAY_BE_EMPTY."""
    return " ".join((text, *([f"Alert: {', '.join(alerts)}."] if alerts else []), *([MAY_BE_EMPTY] if empty else [])))


def steps(orange: float | None = None, red: float | None = None, *, blue: float | None = None) -> Steps:
    """Returns steps that begin with green. From `blue` on the value is worth knowing, from `orange` on a warning, from
    `red` on critical."""
    return ((None, "green"), *((n, colour) for n, colour in ((blue, "blue"), (orange, "orange"), (red, "red")) if n))


def at_least(green: float) -> Steps:
    """Returns steps that are green from this value on, a warning below it, and critical at 0."""
    return ((None, "red"), (green / 1e6, "orange"), (green, "green"))


def big(
    title: str, meaning: str, unit: str, expr: str, *links: Link, steps: Steps = (), width: int = 4, legend: str = ""
) -> Panel:
    """Returns a panel with one big number for each cluster, with the cluster's name if there are several."""
    return Panel(
        type_val="stat",
        options=stat.Options(
            graph_mode=common.BigValueGraphMode.NONE,
            color_mode=common.BigValueColorMode.BACKGROUND if steps else common.BigValueColorMode.NONE,
            justify_mode=common.BigValueJustifyMode.AUTO,
            text_mode=common.BigValueTextMode.AUTO,
            reduce_options=common.ReduceDataOptions(values=False, calcs=["lastNotNull"], fields=""),
            orientation=common.VizOrientation.AUTO,
        ),
        targets=[_target(0, Query(expr, legend or "{{cluster}}"), instant=True)],
        **_common(title, meaning, _defaults(unit, steps, links, "thresholds", no_value="none"), width, 4),
    )


def lines(
    title: str,
    meaning: str,
    unit: str,
    queries: Sequence[Query],
    *links: Link,
    steps: Steps = (),
    width: int = 12,
    stacked: bool = False,
) -> Panel:
    """Returns a panel of lines over time; thresholds are dashed lines."""
    style = common.GraphThresholdsStyleMode.DASHED if steps else common.GraphThresholdsStyleMode.OFF
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
    return Panel(
        type_val="timeseries",
        options=timeseries.Options(
            legend=common.VizLegendOptions(
                display_mode=common.LegendDisplayMode.LIST,
                placement=common.LegendPlacement.BOTTOM,
                show_legend=True,
                calcs=[],
            ),
            tooltip=common.VizTooltipOptions(mode=common.TooltipDisplayMode.MULTI, sort=common.SortOrder.DESCENDING),
        ),
        targets=[_target(number, query) for number, query in enumerate(queries)],
        **_common(title, meaning, _defaults(unit, steps, links, "palette-classic", min_val=0, custom=custom), width, 8),
    )


def rows(
    title: str, meaning: str, exprs: Sequence[str], columns: Sequence[Column], *, worst: str, width: int = 24
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
    return Panel(
        type_val="table",
        options=table.Options(
            sort_by=[common.TableSortByFieldState(display_name=worst, desc=True)],
            cell_height=common.TableCellHeight.SM,
        ),
        targets=[_target(number, Query(expr, ""), in_table=True) for number, expr in enumerate(exprs)],
        transformations=[
            dashboard.DataTransformerConfig(id_val="merge", options={}),
            dashboard.DataTransformerConfig(id_val="organize", options=organized),
        ],
        **_common(
            title,
            meaning,
            _defaults(TEXT, (), (), "thresholds", custom=common.TableFieldOptions()),
            width,
            8,
            [_override(column) for column in columns],
        ),
    )


def density(title: str, meaning: str, unit: str, expr: str, width: int = 12) -> Panel:
    """Returns a heatmap of a histogram over time: the darker, the more."""
    return Panel(
        type_val="heatmap",
        options=heatmap.Options(
            calculate=False,
            color=heatmap.HeatmapColorOptions(
                mode=heatmap.HeatmapColorMode.SCHEME, scheme="Oranges", fill="dark-orange", exponent=0.5, steps=64
            ),
            y_axis=heatmap.YAxisConfig(unit=unit),
            cell_values=heatmap.CellValues(unit="short"),
            filter_values=heatmap.FilterValueRange(le=1e-9),
            show_value=common.VisibilityMode.NEVER,
            legend=heatmap.HeatmapLegend(show=True),
            tooltip=heatmap.HeatmapTooltip(mode=common.TooltipDisplayMode.SINGLE, y_histogram=True),
        ),
        targets=[_target(0, Query(expr, "{{le}}"), format_val=prometheus.PromQueryFormat.HEATMAP)],
        **_common(title, meaning, _defaults(unit, (), (), "thresholds", custom=heatmap.FieldConfig()), width, 8),
    )


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _target(
    number: int,
    query: Query,
    *,
    instant: bool = False,
    in_table: bool = False,
    format_val: prometheus.PromQueryFormat = prometheus.PromQueryFormat.TIME_SERIES,
) -> prometheus.Dataquery:
    return prometheus.Dataquery(
        datasource=DATASOURCE,
        editor_mode=prometheus.QueryEditorMode.CODE,
        expr=query.expr,
        format_val=prometheus.PromQueryFormat.TABLE if in_table else format_val,
        instant=instant or in_table,
        range_val=not (instant or in_table),
        legend_format=query.legend or None,
        ref_id=_ref(number),
    )


def _defaults(unit: str, steps: Steps, links: Sequence[Link], colours: str, **more: Any) -> dashboard.FieldConfig:
    return dashboard.FieldConfig(
        unit=unit,
        thresholds=dashboard.ThresholdsConfig(
            mode=dashboard.ThresholdsMode.ABSOLUTE,
            steps=[dashboard.Threshold(value, colour) for value, colour in steps or ((None, "text"),)],
        ),
        color=dashboard.FieldColor(mode=dashboard.FieldColorModeId(colours)),
        links=[link.model() for link in links] or None,
        **more,
    )


def _common(
    title: str,
    meaning: str,
    defaults: dashboard.FieldConfig,
    width: int,
    height: int,
    overrides: list[dashboard.DashboardFieldConfigSourceOverrides] | None = None,
) -> dict[str, Any]:
    return {
        "title": title,
        "description": meaning,
        "datasource": DATASOURCE,
        "field_config": dashboard.FieldConfigSource(defaults=defaults, overrides=overrides or []),
        "grid_pos": dashboard.GridPos(h=height, w=width),
    }


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
