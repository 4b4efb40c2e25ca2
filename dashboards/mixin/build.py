"""Builds the files that the mixin imports: the dashboards and rules, with a placeholder wherever `_config` decides.

An expression is written as a list of its parts. So jsonnet, which has no regular expressions, can add matchers and
labels. A placeholder is a name between two @; jsonnet replaces it by a text of `_config`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from dashboards import frame
from dashboards.build import BOARDS
from dashboards.expressions import Grouping, Part, Selector, parts
from dashboards.rules.build import GROUPS
from dashboards.rules.rule import CLUSTER, JOB, Links
from dashboards.rules.scope import of_job
from dashboards.sdk import JSONEncoder

FOLDER: Final = Path(__file__).parent / "made"

THE_CLUSTER: Final = "@clusterLabel@"
_LINKS: Final = Links("@pageUrl@", "@grafanaUrl@")

_EXPRESSIONS: Final = ("expr", "query", "definition")
_NAMES_OF_FIELDS: Final = ("options", "displayName")
_LABEL: Final = re.compile(r"(\$labels\.|__field\.labels\.|__data\.fields\.)cluster\b|({{)cluster(?=}})")
_OF_LABEL_VALUES: Final = re.compile(r"(?<=, )cluster(?=\)$)")


def documents() -> dict[str, Any]:
    """Returns the content of each file as Python data, keyed by file name."""
    look = {"prefix": frame.PREFIX, "tags": frame.TAGS, "refresh": frame.REFRESH, "timezone": frame.TIMEZONE}
    shipped = Links()
    return {
        "defaults.json": {
            "selector": of_job(JOB),
            "cluster": CLUSTER,
            "page": shipped.page,
            "grafana": shipped.grafana,
            "boards": look,
        },
        "boards.json": {board.file: _board(board) for board in BOARDS},
        "groups.json": [_opened(group.render(_LINKS, lambda expr: expr, {})) for group in GROUPS],
    }


def files() -> dict[str, str]:
    """Returns the JSON text of each file, keyed by file name."""
    return {
        name: json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        for name, document in documents().items()
    }


def _board(board: frame.Board) -> dict[str, Any]:
    """Returns the board as Grafana reads it, with placeholders. Leaves out the settings that `_config` sets for all
    boards: tags, time zone, refresh, and the prefix of the title."""
    model = json.loads(JSONEncoder().encode(frame.model(board, _LINKS.page)))
    opened: dict[str, Any] = _opened(model)
    for name in ("tags", "timezone", "refresh"):
        del opened[name]
    return opened | {"title": board.title}


def _opened(value: Any, name: str = "") -> Any:
    """Returns a copy of `value`, in which each expression is a list of its parts, and each occurrence of the label
    `cluster` is a placeholder. A `query` or `definition` that has no selector and no grouping stays as it is. `name`:
    the key of `value` in its object."""
    if isinstance(value, dict):
        keys = {CLUSTER: THE_CLUSTER} if name == "indexByName" else {}
        return {keys.get(key, key): _opened(of, key) for key, of in value.items()}
    if isinstance(value, list):
        return [_opened(one, name) for one in value]
    if not isinstance(value, str):
        return value
    if name in _EXPRESSIONS:
        opened = [_part(part) for part in parts(value)]
        return opened if any(not isinstance(part, str) for part in opened) or name == "expr" else value
    if name in _NAMES_OF_FIELDS and value == CLUSTER:
        return THE_CLUSTER
    return _LABEL.sub(lambda found: (found[1] or found[2]) + THE_CLUSTER, value)


def _part(part: Part) -> Any:
    if isinstance(part, Selector):
        matchers = [re.sub(rf"^{CLUSTER}\b", THE_CLUSTER, matcher) for matcher in part.matchers]
        return {"metric": part.metric, "matchers": matchers, "hasCluster": part.has_cluster}
    if isinstance(part, Grouping):
        labels = [THE_CLUSTER if label == CLUSTER else label for label in part.labels]
        return {"how": part.how, "labels": labels}
    return _OF_LABEL_VALUES.sub(THE_CLUSTER, part)
