"""Templates to answers: escaped, strict about names, one environment for the process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from fastapi import Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from service.web.shared import addresses, words
from service.web.shared.frame import Frame

PAGE_CSP: Final = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
"""uPlot sets styles of elements; no script is inline."""

_BREAKS: Final = re.compile(r"(?<=[-_./:])(?=\w)")


def render(template: str, frame: Frame, *, page: str, status: int = 200, **values: Any) -> Response:
    """`page`: what the navigation marks as the current one."""
    text = _environment().get_template(template).render(frame=frame, page=page, now=frame.now_ms, **values)
    return html_answer(text, status, {"Content-Security-Policy": PAGE_CSP})


def render_bare(template: str, status: int = 200, **values: Any) -> Response:
    """A page without a cluster, and without script."""
    return html_answer(_environment().get_template(template).render(**values), status, {})


def html_answer(text: str, status: int, headers: Mapping[str, str]) -> Response:
    return Response(text, status, {"Cache-Control": "no-cache", **headers}, media_type="text/html")


def breakable(text: str) -> Markup:
    """A long id that may wrap behind `-`, `_`, `.`, and is never cut."""
    return Markup("<wbr>").join(escape(part) for part in _BREAKS.split(text))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        name: getattr(words, name)
        for name in ("duration", "fine", "count", "about", "size", "share", "rate", "plural", "clock", "exact", "iso")
    }
    environment.filters["breakable"] = breakable
    environment.globals |= {
        name: getattr(addresses, name)
        for name in ("cluster_page", "page_of", "finding_page", "transaction_page", "partition_page")
    }
    return environment
