"""Tests that the queries use metrics that the service exports. Also tests the check that runs the queries in a real
Prometheus."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from dashboards.frame import PREFIX
from tests.dashboards.boards import FILES, Json, load
from tests.dashboards.check_queries import BUILT_IN, QueryRefusedError, failures_of, says_so, substituted, targets
from tests.dashboards.conftest import NOT_OURS, Series
from tests.dashboards.demo_panels import EMPTY_IN_DEMO, boards

PROMQL = {
    *("max", "min", "sum", "count", "topk", "by", "on", "and", "or", "rate", "increase", "ceil", "time"),
    "histogram_quantile",
}


def test_the_service_exports_every_used_metric_and_label(series: Series) -> None:
    exported = {name: set().union(*found) for name, found in series.items() if name not in NOT_OURS}
    used = set()
    for expr in (target["expr"] for file in FILES for _, target in targets(load(file))):
        bare = re.sub(r'"[^"]*"|\[[^]]*]', "", expr)
        names = set(re.findall(r"[a-z_]\w*", re.sub(r"{[^}]*}|(?:by|on) \([^)]*\)", "", bare))) - PROMQL
        assert names <= exported.keys(), expr
        labels = set(re.findall(r"\w+(?=[=!]~?)", bare))
        for by in re.findall(r"(?:by|on) \(([^)]*)\)", bare):
            labels |= {label.strip() for label in by.split(",")}
        assert labels <= set().union(*(exported[name] for name in names), {"job", "instance", "namespace"}), expr
        used |= names
    ours = {name for name in exported if name.startswith("kafka_txn_") and not name.endswith(("_sum", "_count"))}
    assert ours <= used, "each of our metrics must be in a panel"


def test_the_service_knows_every_used_value_of_a_label(series: Series) -> None:
    """A query with a misspelt value would find nothing, without an error."""
    known: dict[tuple[str, str], set[str]] = {}
    for name, found in series.items():
        for label, value in (pair for labels in found for pair in labels.items()):
            known.setdefault((name, label), set()).add(value)
    asked = 0
    for expr in (target["expr"] for file in FILES for _, target in targets(load(file))):
        for name, matchers in re.findall(r"(kafka_txn_\w+){([^}]*)}", expr):
            for label, values in re.findall(r'(\w+)=~?"([^"$]+)"', matchers):
                asked += 1
                assert set(values.split("|")) <= known[name, label], f"{name}{{{matchers}}}"
    assert asked > 10


BOARD: Json = {
    "title": "B",
    "templating": {
        "list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
            {"name": "cluster", "type": "query", "query": "label_values(ids, cluster)", "allValue": ".+"},
            {"name": "transactional_id", "type": "textbox", "query": ""},
        ]
    },
    "annotations": {"list": [{"name": "Alerts", "expr": "ALERTS"}]},
    "panels": [
        {
            "title": "P",
            "description": "It means this.",
            "targets": [
                {
                    "refId": "A",
                    "expr": 'rate(x{cluster=~"$cluster",id="$transactional_id"}[$__rate_interval])',
                    "legendFormat": "{{cluster}}",
                }
            ],
        }
    ],
}


class FakePrometheus:
    def __init__(self, result: Any) -> None:
        self.result, self.asked = result, list[str]()

    def __call__(self, path: str, parameters: Mapping[str, str]) -> Any:
        if path.startswith("label/"):
            return {"label/cluster/values": ["a.b", "c"], "label/transactional_id/values": ["pay", "ship"]}[path]
        self.asked.append(parameters["query"])
        if parameters["query"] == "ALERTS":
            return {"result": []}
        if isinstance(self.result, Exception):
            raise self.result
        return {"result": self.result}


def check(result: Any, given: Mapping[str, str] | None = None, **panel: str) -> tuple[list[str], list[str]]:
    prometheus = FakePrometheus(result)
    board = BOARD | {"panels": [BOARD["panels"][0] | panel]}
    return failures_of([board], prometheus, given or {}), prometheus.asked


def test_variables_are_substituted_as_grafana_does() -> None:
    failures, asked = check([{"metric": {"cluster": "c"}}])
    assert failures == []
    assert asked == ["ALERTS", r'rate(x{cluster=~"(a\\.b|c)",id="pay"}[1m])']
    assert check([], {"transactional_id": "mine"})[1][1].endswith(',id="mine"}[1m])')


def test_a_query_that_does_not_work_is_named() -> None:
    (refused,) = check(QueryRefusedError("parse error"))[0]
    (nothing,) = check([])[0]
    (unnamed,) = check([{"metric": {}}])[0]
    assert refused.startswith("B: P: A: rate(x{")
    assert refused.endswith("parse error")
    assert nothing.endswith("nothing found")
    assert unnamed.endswith("no label cluster, which the legend shows")
    assert check([], description="It means this. (may be empty)")[0] == []


def test_what_is_empty_in_the_demo_says_that_it_may_be() -> None:
    """A panel that is empty in the demo needs a note that the panel may be empty. Without the note, an operator would
    take the empty panel for a fault."""
    may_be_empty = {
        f"{board['title'].removeprefix(PREFIX)}: {panel['title']}: {target['refId']}"
        for board in boards().values()
        for panel, target in targets(board)
        if says_so(panel, "")
    }
    assert EMPTY_IN_DEMO.keys() - may_be_empty == set()


@pytest.mark.parametrize("file", FILES)
def test_no_variable_of_a_query_is_unknown(file: str) -> None:
    board = load(file)
    values = BUILT_IN | {one["name"]: "x" for one in board["templating"]["list"]}
    for _, target in targets(board):
        assert "$" not in substituted(target["expr"], values)
