"""Converts reasons to text and back: JSON with a code, for the store and between processes."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

from service.domain.reasons import hanging, reason, unjudged, unread
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import ErrorText

_CODE: Final = "code"
_KNOWN: Final = {
    cls.code: cls
    for module in (reason, unread, unjudged, hanging)
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, Reason) and cls is not Reason
}


@lru_cache(maxsize=4096)
def encode(reason: Reason) -> str:
    """Returns the reason as ASCII text. The same reason always gives the same text."""
    return json.dumps(_plain(reason))


@lru_cache(maxsize=4096)
def decode(text: str) -> Reason:
    """Returns the reason that `encode` turned into this text. A reason that only a later version of txnscope knows
    becomes an ErrorText that names its code.

    Raises ValueError if the text is no reason.
    """
    try:
        found = _value(json.loads(text))
    except ValueError:
        found = None
    if not isinstance(found, Reason):
        raise ValueError(f"no reason: {text[:80]!r}")
    return found


def encode_if(reason: Reason | None) -> str | None:
    return None if reason is None else encode(reason)


def decode_if(text: str | None) -> Reason | None:
    return None if text is None else decode(text)


def _plain(value: Any) -> Any:
    if isinstance(value, Reason):
        return {_CODE: value.code} | {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_value(one) for one in plain)
    if not isinstance(plain, dict):
        return plain
    code = plain.pop(_CODE, "")
    try:
        return _KNOWN[code](**{name: _value(value) for name, value in plain.items()})
    except (KeyError, TypeError, ValueError):
        return ErrorText(f"{code}: a reason that only a later version of txnscope can explain")
