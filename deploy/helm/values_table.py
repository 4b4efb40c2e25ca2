"""Makes the table of values in the chart's README from the comments in `values.yaml`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import yaml

CHART: Final = Path(__file__).parent / "txnscope"
README: Final = CHART / "README.md"
VALUES: Final = CHART / "values.yaml"

_MARK: Final = "# -- "
_BEGIN: Final = "<!-- values: made by `python -m deploy.helm` from values.yaml -->\n"
_END: Final = "<!-- end of the values -->\n"


class Value(NamedTuple):
    """A value of the chart. `path`: its keys, joined by dots; `default`: as JSON; `text`: its comment."""

    path: str
    default: str
    text: str


class Undocumented(ValueError):
    """A value has no comment, or the README has no place for the table. The message is one line."""


def values(text: str) -> list[Value]:
    """Returns all values in `text`, the content of `values.yaml`, in the order of the file. A mapping with a comment
    counts as one value.

    Raises Undocumented for a value without a comment.
    """
    lines = text.splitlines()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return list(_values(root, yaml.safe_load(text), lines, ""))


def with_table(readme: str, found: list[Value]) -> str:
    """Returns the README with the table of the values. Raises Undocumented if the README has no place for a table."""
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise Undocumented(f"the README lacks the line {(_END if begin else _BEGIN).strip()}")
    rows = [f"| `{one.path}` | {_code(one.default)} | {one.text} |\n" for one in found]
    return "".join([before, begin, "| value | default | |\n|---|---|---|\n", *rows, end, after])


def _values(node: yaml.MappingNode, loaded: dict[str, object], lines: list[str], prefix: str) -> Iterator[Value]:
    for key, below in node.value:
        path, default = f"{prefix}{key.value}", loaded[key.value]
        above = lines[key.start_mark.line - 1].strip() if key.start_mark.line else ""
        if above.startswith(_MARK):
            yield Value(path, json.dumps(default, ensure_ascii=False), above.removeprefix(_MARK))
        elif isinstance(below, yaml.MappingNode) and isinstance(default, dict) and default:
            yield from _values(below, default, lines, f"{path}.")
        else:
            raise Undocumented(f"values.yaml: {path} has no comment that begins with {_MARK.strip()!r}")


def _code(default: str) -> str:
    return "" if default == '""' else f"`{default}`"
