"""The filters of the list of transactional ids, as in the address of a page: those of REST, but a form also sends empty
ones."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import quote

from fastapi import Request

from service.api.http.parameters import bytes_of, unusable
from service.api.schemas.transactions import State
from service.domain.duration_text import span_ms
from service.domain.transaction_log import states
from service.domain.transaction_log.states import CODES, EXPIRED, NAMES
from service.store.escaped_text import display_id, printable
from service.store.queries.transaction_pages import Selection

SORTS: Final = {
    "age": "oldest open first",
    "last_updated": "last updated first",
    "transactional_id": "by transactional.id",
}
AGES: Final = ("10s", "1m", "5m", "15m", "1h")

_WITHOUT: Final = frozenset(CODES.values()) - {EXPIRED}
_MOST_TEXT: Final = 1_000
_MOST_TOPIC: Final = 249


class Chip(NamedTuple):
    """A choice of states. `ids`: number of ids in these states; None if they are not counted."""

    text: str
    states: frozenset[int]
    ids: int | None


class Filters(NamedTuple):
    """The filters of a request. `states`: empty for all but Expired. `prefix`, `text`: bytes of the address; `min_age`:
    as in `90s`."""

    states: frozenset[int] = frozenset()
    prefix: bytes = b""
    min_age: str = ""
    producer_id: int | None = None
    topic: str = ""
    text: bytes = b""
    sort: str = "age"

    @property
    def is_plain(self) -> bool:
        return not (
            self.states or self.prefix or self.min_age or self.topic or self.text or self.producer_id is not None
        )

    @property
    def key(self) -> tuple[Any, ...]:
        """Returns the filters as a key for cursors, the same in every process."""
        return sorted(self.states), *self[1:]

    @property
    def shown_prefix(self) -> str:
        return display_id(self.prefix)

    @property
    def shown_text(self) -> str:
        return display_id(self.text)

    @property
    def query(self) -> str:
        """Returns the query for the address, without `?`; "" if nothing is filtered."""
        pairs: list[tuple[str, str | bytes]] = [("state", NAMES[state]) for state in sorted(self.states)]
        pairs += [("prefix", self.prefix), ("min_age", self.min_age)]
        pairs += [("producer_id", "" if self.producer_id is None else str(self.producer_id))]
        pairs += [("topic", self.topic), ("q", self.text), ("sort", "" if self.sort == "age" else self.sort)]
        return "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs if value)

    def selection(self, as_of_ms: int | None) -> Selection:
        """Returns the selection that REST would make. If `as_of_ms` is None, no id has an age."""
        return Selection(
            states=self.states or _WITHOUT,
            prefix=self.prefix,
            started_until_ms=(as_of_ms or 0) - span_ms(self.min_age) if self.min_age else None,
            producer_id=self.producer_id,
            topic=printable(self.topic) if self.topic else None,
            text=self.text,
        )


def filters_of(
    request: Request,
    state: list[State] | None,
    min_age: str,
    producer_id: str,
    topic: str,
    sort: str,
) -> Filters:
    """Returns the filters; an empty one counts as not given. Raises ProblemError (422) for values that REST would
    refuse, too."""
    if min_age:
        try:
            span_ms(min_age)
        except ValueError as error:
            raise unusable("min_age", str(error)) from None
    if sort and sort not in SORTS:
        raise unusable("sort", f"{sort!r} is none of {', '.join(SORTS)}")
    text = bytes_of(request, "q") or b""
    for name, given, most in (("topic", topic, _MOST_TOPIC), ("q", text, _MOST_TEXT)):
        if len(given) > most:
            raise unusable(name, f"longer than {most:,} characters")
    return Filters(
        states=frozenset(CODES[name] for name in state or ()),
        prefix=bytes_of(request, "prefix") or b"",
        min_age=min_age,
        producer_id=_number(producer_id),
        topic=topic,
        text=text,
        sort=sort or "age",
    )


def _number(text: str) -> int | None:
    digits = text.strip().replace(",", "")  # pages show numbers with commas
    if not digits:
        return None
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and int(digits) < 2**63):
        raise unusable("producer_id", f"{text!r} is no producer id: a number from 0 to 2^63 - 1")
    return int(digits)


def chips(counts: dict[str, int]) -> list[Chip]:
    """Returns the choices of states. `counts`: number of ids by the name of their state."""
    choices: list[tuple[str, frozenset[int]]] = [
        ("All", frozenset()),
        ("Open", states.OPEN),
        ("Ongoing", frozenset({states.ONGOING})),
        ("Prepare", states.PREPARED),
        ("CompleteCommit", frozenset({states.COMPLETE_COMMIT})),
        ("CompleteAbort", frozenset({states.COMPLETE_ABORT})),
        ("Empty", frozenset({states.EMPTY})),
        ("unknown", frozenset({states.UNKNOWN})),
    ]
    told = [Chip(text, chosen, _count(counts, chosen or _WITHOUT)) for text, chosen in choices]
    return [*told, Chip("Expired", frozenset({EXPIRED}), None)]


def _count(counts: dict[str, Any], chosen: frozenset[int]) -> int:
    return sum(counts.get(NAMES[state], 0) for state in chosen)
