"""A page of the service's answers, printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from service.cli.errors import FINE
from service.cli.text import table

Row = Callable[[dict[str, Any]], Sequence[object]]


def print_page(
    page: dict[str, Any], as_json: bool, heads: Sequence[str], row: Row, never: str = "nothing was read yet"
) -> int:
    """As it came, or as a table of a row for each item; how many there are, and as of when, goes to stderr. FINE."""
    if as_json:
        print(json.dumps(page, indent=2))
        return FINE
    print(table(heads, [row(one) for one in page["items"]]))
    more = ", there are more (--limit)" if page["next_cursor"] else ""
    print(f"{len(page['items'])} rows as of {page['as_of'] or f'never: {never}'}{more}", file=sys.stderr)
    return FINE
