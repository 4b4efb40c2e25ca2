"""Converts the facts of findings to the JSON that the store keeps, and back."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Union

from pydantic import ConfigDict, TypeAdapter, ValidationError

from service.domain.findings.catalogue import CATALOGUE
from service.domain.findings.finding import Facts, UnreadableFacts
from service.domain.findings.kinds import Kind

_EXACT: Final = ConfigDict(strict=True, extra="forbid")


def encode_facts(kind: Kind, facts: Facts) -> str:
    """Returns the facts as JSON; those that could not be read as they were."""
    if isinstance(facts, UnreadableFacts):
        return facts.stored
    return _adapter(kind).dump_json((facts,)).decode()


def decode_facts(kind: Kind, stored: str) -> Facts:
    """Returns the facts that `encode_facts` made into this text. Text that is none of the kind's facts becomes
    UnreadableFacts: one damaged finding must not hide the others."""
    try:
        (facts,) = _adapter(kind).validate_json(stored)
    except ValidationError:
        return UnreadableFacts(stored)
    return facts


@cache
def _adapter(kind: Kind) -> TypeAdapter[tuple[Facts]]:
    """Returns the converter of the kind's facts, in a list of one: pydantic takes no settings for a dataclass alone."""
    types: Any = Union[CATALOGUE[kind].facts]  # noqa: UP007 - made of a tuple
    return TypeAdapter(tuple[types], config=_EXACT)
