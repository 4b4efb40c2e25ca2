"""The base of all reasons, and reasons that consist of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Reason:
    """Base class of all reasons. Each subclass becomes a frozen dataclass without a decorator, and has its own `code`.
    Its fields are text, numbers, truth values, reasons, None, or tuples of these.

    The text of a reason is one line for people, without a full stop: `sentence`, in which `{0.x}` stands for an
    attribute, or a `__str__` of the subclass.
    """

    code: ClassVar[str]
    sentence: ClassVar[str]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def __str__(self) -> str:
        return self.sentence.format(self)


class Several(Reason):
    """Several reasons that hold at once."""

    reasons: tuple[Reason, ...]
    code = "several"

    def __str__(self) -> str:
        return "; ".join(map(str, self.reasons))


def text_of(reason: Reason | None) -> str | None:
    """Returns the reason as text for people; None if there is no reason."""
    return None if reason is None else str(reason)


def combined(reasons: Iterable[Reason | None]) -> Reason | None:
    """Returns one reason that contains each given reason once; None if no reason is given."""
    distinct = tuple(dict.fromkeys(reason for reason in reasons if reason is not None))
    return Several(distinct) if len(distinct) > 1 else distinct[0] if distinct else None


def parts(reason: Reason | None) -> Iterator[Reason]:
    """Yields the reason itself and all reasons that it contains."""
    if reason is not None:
        yield reason
        for field in fields(reason):
            yield from _within(getattr(reason, field.name))


def _within(value: Any) -> Iterator[Reason]:
    if isinstance(value, Reason):
        yield from parts(value)
    elif isinstance(value, tuple):
        for one in value:
            yield from _within(one)
