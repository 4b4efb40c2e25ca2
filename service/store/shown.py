"""A store's URL as people, logs and answers over HTTP may see it: without passwords."""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import URL

_CREDENTIALS: Final = re.compile(r"(?s)(^[^:/@]*:/*)?.*@")
"""Of a text that no parser takes for a URL: all behind the scheme, up to the last @."""
_IN_QUERY: Final = re.compile(r"(?i)(password=)[^&]*")  # libpq's password, sslpassword


def shown(url: URL) -> str:
    """The URL with *** for passwords."""
    return _IN_QUERY.sub(r"\1***", url.render_as_string(hide_password=True))


def shown_unparsed(url: str) -> str:
    """As `shown`, of something that is no URL; user names go too, for nobody knows where they end."""
    return _IN_QUERY.sub(r"\1***", _CREDENTIALS.sub(r"\1***@", url, count=1))
