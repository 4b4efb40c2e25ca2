"""Tests that the dashboards follow the rules of Grafana's dashboard-linter, and further rules of this project."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

from dashboards.panels import MAY_BE_EMPTY
from tests.dashboards.boards import Json, panels
from tests.dashboards.check_queries import labels_of, targets

UNITS = {"none", "short", "s", "ops", "reqps", "percentunit", "bytes", "Bps", "string"}
WINDOWS_OF_ALERTS = {"Aborted, last hour", "Fenced in 2m", "New producer ids", "Undecodable in 15m"}


def variable(board: Json, name: str) -> Json:
    (found,) = (one for one in board["templating"]["list"] if one["name"] == name)
    return dict(found)


def test_every_dashboard_has_the_common_frame(board: Json) -> None:
    assert re.fullmatch(r"txnscope-[a-z-]+", board["uid"])
    assert board["description"]
    assert board["editable"] is False
    assert board["schemaVersion"] == 42
    assert board["time"] == {"from": "now-1h", "to": "now"}
    assert board["refresh"] == "30s"
    assert board["graphTooltip"] == 1, "all panels must share the crosshair"
    assert "txnscope" in board["tags"]


def test_every_dashboard_has_the_common_variables(board: Json) -> None:
    source = board["templating"]["list"][0]
    assert (source["name"], source["type"], source["query"], source["label"]) == (
        "datasource",
        "datasource",
        "prometheus",
        "Data source",
    )
    cluster = variable(board, "cluster")
    assert cluster["multi"]
    assert cluster["includeAll"]
    queried = [one for one in board["templating"]["list"] if one["type"] == "query"]
    for one in queried:
        every = ".*" if one["name"] == "namespace" else ".+"  # a target need not have a namespace
        assert (one["allValue"], one["refresh"], one["sort"]) == (every, 2, 1), one["name"]
        assert one["datasource"]["uid"] == "${datasource}"
        assert re.fullmatch(r"label_values\(.+, \w+\)", one["query"])
    assert variable(board, "txnscope")["query"] == "http://127.0.0.1:8080"


def test_alerts_are_drawn_without_the_watchdog(board: Json) -> None:
    (alerts,) = board["annotations"]["list"]
    assert alerts["enable"]
    assert alerts["datasource"]["uid"] == "${datasource}"
    assert alerts["expr"].startswith('ALERTS{service="txnscope",alertstate="firing",severity!="none"')


def test_every_dashboard_links_to_the_others(board: Json) -> None:
    (others,) = (link for link in board["links"] if link["type"] == "dashboards")
    assert others["tags"] == ["txnscope"]
    assert others["keepTime"]
    assert others["includeVars"]


def test_every_panel_says_what_it_means_and_what_to_do(board: Json) -> None:
    titles = [(panel["type"], panel["title"]) for panel in panels(board)]
    assert len(titles) == len(set(titles))
    for panel in panels(board):
        assert panel["title"]
        text = panel["description"].removesuffix(MAY_BE_EMPTY)
        assert len(text) > 40, panel["title"]
        assert text.rstrip().endswith((".", "?")), panel["title"]


def test_every_panel_has_queries_a_source_and_a_unit(board: Json) -> None:
    for panel in panels(board):
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"] in UNITS, panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["targets"]
        refs = [target["refId"] for target in panel["targets"]]
        assert refs == [chr(ord("A") + number) for number in range(len(refs))]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert target["instant"] == (panel["type"] in ("stat", "table")) != target["range"]
        if panel["type"] == "stat":
            assert panel["options"]["reduceOptions"]["calcs"] == ["lastNotNull"]


def test_table_columns_have_units_and_the_sorting_column_exists(board: Json) -> None:
    for panel in (panel for panel in panels(board) if panel["type"] == "table"):
        organized = panel["transformations"][-1]["options"]
        fields = sorted(organized["indexByName"], key=organized["indexByName"].__getitem__)
        shown = [organized["renameByName"].get(field, field) for field in fields]
        overridden = {
            override["matcher"]["options"]: override["properties"] for override in panel["fieldConfig"]["overrides"]
        }
        assert list(overridden) == shown
        for name, properties in overridden.items():
            (unit,) = (one["value"] for one in properties if one["id"] == "unit")
            assert unit in UNITS, name
        (sorted_by,) = panel["options"]["sortBy"]
        assert sorted_by["displayName"] in shown


def test_ranges_are_grafanas_except_for_windows_of_alerts(board: Json) -> None:
    for panel, target in targets(board):
        ranges = set(re.findall(r"\[([^]]+)]", target["expr"]))
        if panel["type"] == "stat" and panel["title"] in WINDOWS_OF_ALERTS:
            assert len(ranges) == 1
            assert "$" not in ranges.pop()
        else:
            assert ranges <= {"$__rate_interval"}, panel["title"]


def test_counters_are_never_shown_raw(board: Json) -> None:
    for _, target in targets(board):
        counters = re.findall(r"\w+(?:_total|_bucket)\b", target["expr"])
        grown = re.findall(r"(?:rate|increase)\(\w+(?:_total|_bucket)\b", target["expr"])
        assert len(counters) == len(grown), target["expr"]


def test_metrics_of_clusters_are_selected_by_cluster(board: Json) -> None:
    for _, target in targets(board):
        selectors = re.findall(r"kafka_txn_(?!exporter_|notifications_|otlp_)\w+(\{[^}]*\})?", target["expr"])
        assert all('cluster=~"$cluster"' in found for found in selectors), target["expr"]


def test_every_metric_of_the_service_is_selected_by_job_and_namespace(board: Json) -> None:
    """Without these selectors, a panel would mix two environments that have clusters of the same name."""
    for _, target in targets(board):
        for matchers in re.findall(r"(?:kafka_txn|http)_\w+(\{[^}]*\})?", target["expr"]):
            assert 'job=~"$job",namespace=~"$namespace"' in matchers, target["expr"]


def test_a_legend_shows_only_labels_its_query_keeps(board: Json) -> None:
    for _, target in targets(board):
        kept = {name.strip() for by in re.findall(r"by \(([^)]*)\)", target["expr"]) for name in by.split(",")}
        kept |= {"job", "instance"} if "by (" not in target["expr"] else set()
        assert set(labels_of(target.get("legendFormat", ""))) <= kept, target


def test_ids_are_unique_and_nothing_overlaps(board: Json) -> None:
    assert [panel["id"] for panel in board["panels"]] == list(range(1, len(board["panels"]) + 1))
    boxes: list[Any] = [(panel["title"], panel["gridPos"]) for panel in board["panels"]]
    for title, box in boxes:
        assert 0 <= box["x"] < box["x"] + box["w"] <= 24, title
    for (one, a), (other, b) in combinations(boxes, 2):
        apart = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert apart or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"], f"{one} overlaps {other}"


def test_rows_of_panels_fill_the_width(board: Json) -> None:
    """If there were a gap, Grafana would move panels into it."""
    widths: dict[int, int] = {}
    for panel in board["panels"]:
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"]):
            widths[y] = widths.get(y, 0) + panel["gridPos"]["w"]
    assert {y: width for y, width in widths.items() if width != 24} == {}
