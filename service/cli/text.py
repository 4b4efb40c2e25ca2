"""Formats values for a terminal, and prints pages of the service's answers as tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from service.cli.errors import FINE
from service.store.escaped_text import printable, shown_id

Row = Callable[[dict[str, Any]], Sequence[object]]


def print_page(
    page: dict[str, Any], as_json: bool, heads: Sequence[str], row: Row, never: str = "nothing has been read yet"
) -> int:
    """Prints the page as JSON, or as a table with a row for each item. With a table, prints the number of rows and
    `as_of` to stderr; without an `as_of`, prints `never`, the reason why there is none. Returns FINE."""
    if as_json:
        print(json.dumps(page, indent=2))
        return FINE
    print(table(heads, [row(one) for one in page["items"]]))
    more = "; there are more (--limit)" if page["next_cursor"] else ""
    when = f": {never}" if page["as_of"] is None else f" as of {page['as_of']}"
    print(f"{len(page['items']):,} {'row' if len(page['items']) == 1 else 'rows'}{when}{more}", file=sys.stderr)
    return FINE


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(ms: int) -> str:
    """Returns the time in RFC 3339, UTC, with milliseconds; a number that cannot be a time is returned as it is."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if ms >= 0 else str(ms)


def age(since: str | None, until: str | None) -> str:
    """Returns the time from `since` to `until`, in its two largest units: `3m 20s`. Returns `-` if `since` or `until`
    is None."""
    if since is None or until is None:
        return "-"
    return span(int((datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()))


def duration(ms: int | None) -> str:
    """Returns a duration like `48ms`, `16.0s` or `1m 7s`; `-` for None."""
    if ms is None:
        return "-"
    if ms < 1_000:
        return f"{ms}ms"
    return f"{ms / 1000:.1f}s" if ms < 60_000 else span(ms // 1000)


def span(seconds: int) -> str:
    """Returns a duration in its two largest units: `3m 20s`."""
    for large, small, size, part in (("d", "h", 86_400, 3_600), ("h", "m", 3_600, 60), ("m", "s", 60, 1)):
        if seconds >= size:
            return f"{seconds // size}{large} {seconds % size // part}{small}"
    return f"{max(seconds, 0)}s"


def name_of(one: dict[str, Any]) -> str | None:
    """Returns the transactional.id of an object in an answer, as text for people; None if the object has none."""
    return shown_id(one.get("transactional_id"), one.get("transactional_id_b64"))


def topic_partitions(partitions: Iterable[tuple[str, Iterable[int]]]) -> str:
    """Returns `orders-0,orders-3`; `-` if there are none."""
    return ",".join(f"{printable(topic)}-{number}" for topic, numbers in partitions for number in numbers) or "-"


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Returns the table as text. Columns are as wide as they need to be; columns that have only numbers are
    right-aligned."""
    cells = [[printable("-" if cell is None else str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    right = [bool(rows) and all(isinstance(row[n], int) for row in rows) for n in range(len(heads))]
    lines = [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in (list(heads), *cells)
    ]
    return "\n".join(lines)
