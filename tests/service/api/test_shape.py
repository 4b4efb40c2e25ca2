"""Tests of the JSON of a body: omitted fields, nulls, numbers that a double cannot hold, and the schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter

from service.api.schemas.clusters import UnknownThing
from service.api.schemas.findings import FindingEvidence
from service.api.schemas.history import Durations
from service.api.schemas.shape import (
    EXACT_UP_TO,
    Moment,
    OneOf,
    RawTime,
    Shape,
    Wide,
    moment,
    past_moment,
    shaped,
    to_json,
)
from service.views.cluster.unknowns import UnknownKind
from tests.helpers.stores import NOW, NOW_MS

WIDE = EXACT_UP_TO + 1


class Deep(Shape):
    from_: Annotated[Wide, Field(alias="from")]
    at: RawTime
    word: Annotated[str, OneOf("good", "bad")]
    exact: int | None = None
    inner: list[Durations]


def deep(from_: int = 1, word: str = "good", **more: Any) -> Deep:
    fields: dict[str, Any] = {"at": Moment(), "word": word, "inner": [Durations(mean=None, max=from_)]}
    return Deep(from_=from_, **fields | more)


def test_a_field_with_a_default_is_left_out_and_every_other_one_is_null() -> None:
    assert to_json(deep()) == b'{"from":1,"at":null,"word":"good","inner":[{"mean":null,"max":1}]}'


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (moment(None), b'"at":null,"word"'),
        (moment(-1), b'"at":null,"word"'),
        (moment(0), b'"at":null,"at_raw_ms":0,"word"'),
        (moment(WIDE), b'"at":null,"at_raw_ms":%d,"at_raw_ms_str":"%d","word"' % (WIDE, WIDE)),
        (moment(NOW_MS), b'"at":"%s","word"' % NOW.encode()),
        (past_moment(NOW_MS, NOW_MS), b'"at":"%s","word"' % NOW.encode()),
        (past_moment(NOW_MS, NOW_MS - 90_000_000), b'"at":null,"at_raw_ms":%d,"word"' % NOW_MS),
        (past_moment(None, NOW_MS), b'"at":null,"word"'),
    ],
)
def test_a_number_that_is_no_time_is_written_beside_a_null(at: Moment, expected: bytes) -> None:
    assert expected in to_json(deep(at=at))


def test_the_schema_lists_exactly_the_declared_fields() -> None:
    listed = TypeAdapter(Deep).json_schema(mode="serialization")["properties"]
    assert list(listed) == ["from", "from_str", "at", "at_raw_ms", "word", "exact", "inner"]


@pytest.mark.parametrize("sign", [1, -1])
def test_digits_follow_each_number_that_no_double_can_hold_at_any_depth(sign: int) -> None:
    body = to_json(deep(sign * WIDE, exact=sign * EXACT_UP_TO))
    number = sign * WIDE
    assert json.loads(body) == {
        "from": number,
        "from_str": str(number),
        "at": None,
        "word": "good",
        "exact": sign * EXACT_UP_TO,
        "inner": [{"mean": None, "max": number, "max_str": str(number)}],
    }
    assert list(json.loads(body))[:2] == ["from", "from_str"]


@pytest.mark.parametrize("text", [f'":{WIDE},', f'"x":{WIDE},', f"\\\\:{WIDE}}}", f":{WIDE},", f'{{"x":{WIDE}}}'])
def test_no_text_is_mistaken_for_a_number(text: str) -> None:
    body = deep(WIDE, word=text)
    assert json.loads(to_json(body))["word"] == text
    assert to_json(body).count(b"_str") == 2, "only `from` and `max` get a `_str` field with their digits"


def test_texts_are_written_as_the_standard_library_writes_them() -> None:
    text = "".join(map(chr, range(0x300))) + "\u2028\ufffe\N{GRINNING FACE}"
    expected = json.dumps({"at": None, "source": "", "text": text}, ensure_ascii=False, separators=(",", ":"))
    assert to_json(FindingEvidence(at=None, source="", text=text)) == expected.encode()


def test_a_value_outside_its_enum_is_written_all_the_same() -> None:
    assert b'"word":"ugly"' in to_json(deep(word="ugly"))


def test_an_enum_value_is_written_as_text() -> None:
    thing = UnknownThing(kind=UnknownKind.LEFT_OUT, what="a", why="b", grant=None)
    assert to_json(thing) == b'{"kind":"left_out","what":"a","why":"b","grant":null}'


def test_a_body_within_a_longer_body_keeps_its_fields() -> None:
    @dataclass(slots=True, kw_only=True)
    class Longer(FindingEvidence):
        as_of: str | None

    body = shaped(Longer, FindingEvidence(at=None, source="s", text="t"), as_of="now")
    assert body == Longer(at=None, source="s", text="t", as_of="now")
