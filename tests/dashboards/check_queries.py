"""Runs every query of every dashboard in a Prometheus that scrapes the service, and reports the queries that fail.

`python -m tests.dashboards.check_queries http://127.0.0.1:9090` prints the failures.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

from dashboards.build import FOLDER
from dashboards.panels import MAY_BE_EMPTY
from tests.helpers.waiting import ANSWER_S

Json = dict[str, Any]
Ask = Callable[[str, Mapping[str, str]], Any]
"""A function that sends a GET to Prometheus. It gets the path below /api/v1/ and the parameters, and returns `data` of
the answer. It raises QueryRefusedError if Prometheus refuses the request."""

BUILT_IN: Final = {"__rate_interval": "1m", "__interval": "15s", "__range": "1h", "__range_s": "3600"}
_VARIABLE: Final = re.compile(r"\$\{?(\w+)(?::\w+)?\}?")
_LABEL_VALUES: Final = re.compile(r"label_values\((?:(.+),\s*)?(\w+)\)")


class QueryRefusedError(Exception):
    """Raised if Prometheus refused a query. The text is the answer of Prometheus."""


def failures(url: str, given: Mapping[str, str] | None = None) -> list[str]:
    """Returns a line for each query that Prometheus refuses, for each query that has no result but should have one, and
    for each label of a legend that the query's result lacks. `given`: values of variables, keyed by name. A query
    variable that is not in `given` takes all its values. A text variable that is not in `given` takes its default, or,
    without a default, the first value of the label that has the variable's name."""
    boards = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.json"))]
    return failures_of(boards, asking(url), given or {})


def says_so(panel: Json, where: str) -> bool:
    """Returns True if the description of the panel says that the panel may be empty."""
    return str(panel["description"]).endswith(MAY_BE_EMPTY)


def failures_of(
    boards: Sequence[Json], ask: Ask, given: Mapping[str, str], may_be_empty: Callable[[Json, str], bool] = says_so
) -> list[str]:
    """Returns the lines of `failures` for these dashboards only. `may_be_empty` returns True if a query may have no
    result. It gets the panel and the place of the query, such as "Kafka transactions / Overview: Age of the data:
    A"."""
    found: list[str] = []
    for board in boards:
        values = values_of(board, ask, given)
        for annotation in board["annotations"]["list"]:
            found += _failures(f"{board['title']}: {annotation['name']}", annotation["expr"], "", True, values, ask)
        for panel, target in targets(board):
            where = f"{board['title']}: {panel['title']}: {target['refId']}"
            may = may_be_empty(panel, where)
            found += _failures(where, target["expr"], target.get("legendFormat", ""), may, values, ask)
    return found


def values_of(board: Json, ask: Ask, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the value of each variable of the board, as `failures` describes it."""
    values = dict(BUILT_IN)
    for variable in board["templating"]["list"]:
        if variable["type"] in ("query", "textbox"):
            values[variable["name"]] = given.get(variable["name"]) or _value(variable, values, ask)
    return values


def targets(board: Json) -> Iterator[tuple[Json, Json]]:
    """Yields (panel, query) for each query of each panel, including the panels of folded rows."""
    panels = [inner for panel in board["panels"] for inner in (panel, *panel.get("panels", []))]
    for panel in panels:
        for target in panel.get("targets", []):
            yield panel, target


def labels_of(legend: str) -> list[str]:
    return re.findall(r"{{\s*(\w+)\s*}}", legend)


def substituted(expr: str, values: Mapping[str, str]) -> str:
    """Returns the query as Grafana sends it. Unknown variables are not replaced, and Prometheus refuses them."""
    return _VARIABLE.sub(lambda match: values.get(match[1], match[0]), expr)


def asking(url: str) -> Ask:
    def ask(path: str, parameters: Mapping[str, str]) -> Any:
        try:
            with urlopen(f"{url.rstrip('/')}/api/v1/{path}?{urlencode(parameters)}", timeout=ANSWER_S) as answer:
                reported = json.load(answer)
        except HTTPError as error:
            raise QueryRefusedError(error.read().decode(errors="replace")[:300]) from error
        if reported["status"] != "success":
            raise QueryRefusedError(str(reported)[:300])
        return reported["data"]

    return ask


def _value(variable: Json, values: Mapping[str, str], ask: Ask) -> str:
    if variable["type"] == "textbox":
        return variable["query"] or next(iter(ask(f"label/{variable['name']}/values", {})), "")
    match = _LABEL_VALUES.fullmatch(variable["query"])
    assert match, variable["query"]
    reported = ask(f"label/{match[2]}/values", {"match[]": substituted(match[1], values)} if match[1] else {})
    escaped = [re.escape(value).replace("\\", "\\\\") for value in reported]
    return f"({'|'.join(escaped)})" if escaped else str(variable["allValue"])


def _failures(
    where: str, expr: str, legend: str, may_be_empty: bool, values: Mapping[str, str], ask: Ask
) -> Iterator[str]:
    query = substituted(expr, values)
    try:
        result = ask("query", {"query": query})["result"]
    except QueryRefusedError as refused:
        yield f"{where}: {query}: {refused}"
        return
    if not result and not may_be_empty:
        yield f"{where}: {query}: nothing found"
    for label in labels_of(legend):
        if any(label not in series["metric"] for series in result):
            yield f"{where}: {query}: no label {label}, which the legend shows"


if __name__ == "__main__":
    failed = failures(sys.argv[1])
    sys.stdout.write("".join(f"{line}\n" for line in failed))
    sys.exit(bool(failed))
