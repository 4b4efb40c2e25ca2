"""Runs the queries of a dashboard in Prometheus, and returns what each panel shows, as JSON that board.js draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tests.dashboards.check_queries import Ask, labels_of, substituted, values_of

Json = dict[str, Any]

STEP_S: Final = 15


class Span(NamedTuple):
    """The time that a picture shows, in Unix seconds."""

    start: float
    end: float


def drawing(board: Json, ask: Ask, given: Mapping[str, str], span: Span) -> Json:
    """Returns the title of the board, its panels with what they show, and the Unix times, later than the start of
    `span`, at which alerts began to fire."""
    values = values_of(board, ask, given)
    (marks,) = board["annotations"]["list"]
    fired = _range(ask, substituted(marks["expr"], values), span)
    return {
        "title": board["title"],
        "panels": [_panel(panel, ask, values, span) for panel in board["panels"]],
        "alerts": sorted({series["values"][0][0] for series in fired} - {span.start}),
        "span": span,
    }


def _panel(panel: Json, ask: Ask, values: Mapping[str, str], span: Span) -> Json:
    found = {"title": panel["title"], "type": panel["type"], "at": panel["gridPos"]}
    if panel["type"] == "row":
        return found
    defaults = panel["fieldConfig"]["defaults"]
    found |= {"unit": defaults["unit"], "steps": defaults["thresholds"]["steps"]}
    asked = [(target, substituted(target["expr"], values)) for target in panel["targets"]]
    if panel["type"] == "table":
        answers = [ask("query", {"query": query, "time": str(span.end)})["result"] for _, query in asked]
        return found | {"columns": _columns(panel), "shown": _rows(panel, answers)}
    if panel["type"] == "stat":
        series = [
            {"name": _legend(target, one), "last": one["value"][1]}
            for target, query in asked
            for one in ask("query", {"query": query, "time": str(span.end)})["result"]
        ]
        return found | {"shown": series}
    series = [
        {"name": _legend(target, one), "points": one["values"]}
        for target, query in asked
        for one in _range(ask, query, span)
    ]
    if panel["type"] == "heatmap":
        return found | {"shown": _buckets(series)}
    custom = defaults["custom"]
    return found | {"shown": series, "stacked": custom["stacking"]["mode"] == "normal", "max": defaults.get("max")}


def _range(ask: Ask, query: str, span: Span) -> list[Json]:
    parameters = {"query": query, "start": str(span.start), "end": str(span.end), "step": str(STEP_S)}
    result: list[Json] = ask("query_range", parameters)["result"]
    return result


def _legend(target: Json, series: Json) -> str:
    text: str = target.get("legendFormat", "")
    for label in labels_of(text):
        text = text.replace(f"{{{{{label}}}}}", series["metric"].get(label, ""))
    return text


def _columns(panel: Json) -> list[Json]:
    found = []
    for override in panel["fieldConfig"]["overrides"]:
        of = {one["id"]: one["value"] for one in override["properties"]}
        steps = of["thresholds"]["steps"] if "thresholds" in of else []
        found.append({"title": override["matcher"]["options"], "unit": of["unit"], "steps": steps})
    return found


def _rows(panel: Json, answers: list[list[Json]]) -> list[list[str]]:
    """Returns the rows of a table, one for each set of labels, with the values of all queries merged as in Grafana.
    Rows are in descending order of the column by which the panel sorts."""
    names = ["Value"] if len(answers) == 1 else [f"Value #{target['refId']}" for target in panel["targets"]]
    merged: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for name, result in zip(names, answers, strict=True):
        for series in result:
            labels = series["metric"]
            merged.setdefault(tuple(sorted(labels.items())), dict(labels))[name] = series["value"][1]
    organized = panel["transformations"][-1]["options"]
    fields = sorted(organized["indexByName"], key=organized["indexByName"].__getitem__)
    titles = [organized["renameByName"].get(field, field) for field in fields]
    rows = [[row.get(field, "") for field in fields] for row in merged.values()]
    at = titles.index(panel["options"]["sortBy"][0]["displayName"])
    return sorted(rows, key=lambda row: _sortable(row[at]), reverse=True)


def _sortable(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return 0.0, text


def _buckets(series: list[Json]) -> list[Json]:
    """Returns the series of cumulative buckets as counts of single buckets. Buckets that are always empty are left
    out."""
    ordered = sorted(series, key=lambda one: float(one["name"]))
    below: dict[float, float] = {}
    found = []
    for one in ordered:
        at = {time: float(value) for time, value in one["points"]}
        counts = [[time, max(0.0, value - below.get(time, 0.0))] for time, value in at.items()]
        found.append({"name": one["name"], "points": counts})
        below = at
    return [one for one in found if any(count for _, count in one["points"])]
