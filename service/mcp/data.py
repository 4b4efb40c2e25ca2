"""Puts the data of a cluster into answers. Names, and texts that txnscope did not write, are strings of bounded length
in fields of their own. The answer is JSON in ASCII.

In ASCII, invisible characters, marks that change the direction of writing, and letters that look like others become
visible escapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

NAME_BYTES: Final = 249
"""Maximum length (bytes of JSON) of a name that is shown whole: the maximum length of a topic's name in Kafka."""
TEXT_BYTES: Final = 300
NAMES: Final = 5
"""Maximum number of names that a list shows."""

Fields = dict[str, Any]


def to_json(answer: Mapping[str, Any]) -> str:
    """Returns the answer as JSON in ASCII on one line."""
    return json.dumps(answer, separators=(",", ":"))


def shortened(text: str, most_bytes: int = NAME_BYTES) -> str:
    """Returns the text, or its beginning and `...` if its JSON is longer than `most_bytes`."""
    if len(json.dumps(text)) - 2 <= most_bytes:
        return text
    kept, left = 0, most_bytes - len("...")
    for character in text:
        left -= len(json.dumps(character)) - 2
        if left < 0:
            break
        kept += 1
    return f"{text[:kept]}..."


def name(field: str, text: str | None) -> Fields:
    """Returns a mapping in which `field` has the name `text`; an empty mapping if `text` is None. If the name is cut, a
    second field contains the length of the whole name."""
    if text is None:
        return {}
    shown = shortened(text)
    return {field: shown} if shown == text else {field: shown, f"{field}_length": len(text)}


def names(field: str, texts: Sequence[str]) -> Fields:
    """Returns a mapping in which `field` has the first NAMES names. If names are left out, a second field contains
    their number. Returns an empty mapping if there are no names."""
    if not texts:
        return {}
    return {field: [shortened(text) for text in texts[:NAMES]]} | more(field, len(texts) - NAMES)


def more(field: str, number: int) -> Fields:
    """Returns a field with the number of values of `field` that are left out; an empty mapping if no value is left
    out."""
    return {f"more_{field}": number} if number > 0 else {}


def known(source: Mapping[str, Any], fields: Iterable[str]) -> Fields:
    """Returns the given fields of a REST body, without those that are null, false or empty."""
    found = {field_: source.get(field_) for field_ in fields}
    return {one: value for one, value in found.items() if value is not False and value not in (None, [], "")}


def quoted(**texts: str | None) -> Fields:
    """Returns the field `quoted` with texts that may contain names, or come from brokers; an empty mapping if there are
    no such texts."""
    shown = {field: shortened(text, TEXT_BYTES) for field, text in texts.items() if text}
    return {"quoted": shown} if shown else {}
