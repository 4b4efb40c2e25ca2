"""The JSON that is made of a body: what is left out, what is spelt out, and what pydantic notices."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import Field

from service.api.schemas.clusters import UnknownThing
from service.api.schemas.findings import FindingEvidence
from service.api.schemas.history import Durations
from service.api.schemas.shape import EXACT_UP_TO, OneOf, RawMs, Shape, Time, Wide, extended, to_json
from service.views.cluster.unknowns import UnknownKind

WIDE = EXACT_UP_TO + 1


@dataclass(slots=True, kw_only=True)
class Deep(Shape):
    from_: Annotated[int, Field(alias="from")]
    from_str: Wide = None
    at: Time | None
    at_raw_ms: RawMs = None
    word: Annotated[str, OneOf("good", "bad")]
    sums: dict[str, int]
    inner: list[Durations]


def deep(from_: int = 1, word: str = "good", **sums: int) -> Deep:
    return Deep(from_=from_, at=None, word=word, sums=sums, inner=[Durations(mean=None, max=from_)])


def test_a_field_with_a_default_is_left_out_and_every_other_one_is_null() -> None:
    assert to_json(deep()) == b'{"from":1,"at":null,"word":"good","sums":{},"inner":[{"mean":null,"max":1}]}'
    raw = deep()
    raw.at_raw_ms = 0
    assert b'"at":null,"at_raw_ms":0,"word"' in to_json(raw)


@pytest.mark.parametrize("sign", [1, -1])
def test_digits_follow_each_number_that_no_double_can_hold_at_any_depth(sign: int) -> None:
    body = to_json(deep(sign * WIDE, exact=sign * EXACT_UP_TO, wide=sign * WIDE))
    number = sign * WIDE
    assert json.loads(body) == {
        "from": number,
        "from_str": str(number),
        "at": None,
        "word": "good",
        "sums": {"exact": sign * EXACT_UP_TO, "wide": number, "wide_str": str(number)},
        "inner": [{"mean": None, "max": number, "max_str": str(number)}],
    }
    assert list(json.loads(body))[:2] == ["from", "from_str"]


@pytest.mark.parametrize("text", [f'":{WIDE},', f'"x":{WIDE},', f"\\\\:{WIDE}}}", f":{WIDE},", f'{{"x":{WIDE}}}'])
def test_no_text_is_mistaken_for_a_number(text: str) -> None:
    body = deep(WIDE, word=text)
    assert json.loads(to_json(body))["word"] == text
    assert to_json(body).count(b"_str") == 2, "of `from`, and of `max`"


def test_texts_are_written_as_the_standard_library_writes_them() -> None:
    text = "".join(map(chr, range(0x300))) + "\u2028\ufffe\N{GRINNING FACE}"
    expected = json.dumps({"at": None, "source": "", "text": text}, ensure_ascii=False, separators=(",", ":"))
    assert to_json(FindingEvidence(at=None, source="", text=text)) == expected.encode()


def test_a_word_that_is_not_in_the_document_is_written_all_the_same() -> None:
    assert b'"word":"ugly"' in to_json(deep(word="ugly"))


def test_a_word_of_an_enum_is_written_as_text() -> None:
    thing = UnknownThing(kind=UnknownKind.LEFT_OUT, what="a", why="b", grant=None)
    assert to_json(thing) == b'{"kind":"left_out","what":"a","why":"b","grant":null}'


def test_a_body_within_a_longer_one_keeps_what_it_has() -> None:
    @dataclass(slots=True, kw_only=True)
    class Longer(FindingEvidence):
        as_of: str | None

    body = extended(Longer, FindingEvidence(at=None, source="s", text="t"), as_of="now")
    assert body == Longer(at=None, source="s", text="t", as_of="now")
