"""Ids as people see them: no two alike, safe to show, and found again from a copy."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.store.escaped_text import display_id, part_displays, possible_ids, possible_ids_of, printable

ODD = st.sampled_from(list("a9 \\{}xu\t\n\0\x7f\x85\xa0é\u202e\ufeff\U0001f600\"'/%"))
TEXTS = st.text(ODD, max_size=12)
IDS = st.one_of(
    TEXTS.map(str.encode), st.binary(max_size=8), st.sampled_from([b"\\x{ff}", b"\\u{5c}u{9}", b"\xed\xa0\x80"])
)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("zürich-☃ 'a' \"b\" 50% c/d CORP\\name".encode(), "zürich-☃ 'a' \"b\" 50% c/d CORP\\name"),
        (b"nul\0", "nul\\u{0}"),
        ("tab\tline\nright\u202eleft".encode(), "tab\\u{9}line\\u{a}right\\u{202e}left"),
        (b"\xff\xed\xa0\x80", "\\x{ff}\\x{ed}\\x{a0}\\x{80}"),
        (b" ends ", "\\u{20}ends\\u{20}"),
        (b"two  spaces", "two \\u{20}spaces"),
        (rb"a\tb\x00\u0009", r"a\tb\x00\u0009"),
        (rb"a\u{9}b", r"a\u{5c}u{9}b"),
    ],
    ids=["as it is", "nul", "controls", "bytes", "ends", "spaces", "backslashes", "its own notation"],
)
def test_what_would_not_survive_a_copy_is_escaped(raw: bytes, shown: str) -> None:
    assert display_id(raw) == shown


@given(IDS)
def test_what_is_shown_is_safe_and_names_its_id(raw: bytes) -> None:
    shown = display_id(raw)
    assert shown.isprintable()
    assert " ".join(shown.split(" ")) == " ".join(filter(None, shown.split(" "))), "a page would join spaces"
    assert raw in possible_ids(shown)[:3], "only what is spelt so comes first"


@given(st.sets(IDS, max_size=30))
def test_no_two_ids_look_alike(ids: set[bytes]) -> None:
    assert len({display_id(raw) for raw in ids}) == len(ids)


@given(TEXTS)
def test_an_id_comes_first_under_its_own_name(text: str) -> None:
    assert possible_ids(text)[0] == text.encode()
    assert possible_ids_of(text.encode()) == possible_ids(text)


@given(TEXTS)
def test_a_copy_out_of_raw_json_names_its_id(text: str) -> None:
    for is_ascii in (True, False):
        assert text.encode() in possible_ids(json.dumps(text, ensure_ascii=is_ascii)[1:-1])


@given(IDS)
def test_a_copy_from_raw_metrics_or_an_ascii_terminal_names_its_id(raw: bytes) -> None:
    shown = display_id(raw)
    assert raw in possible_ids(shown.replace("\\", "\\\\").replace('"', '\\"'))
    assert raw in possible_ids(shown.encode("ascii", "backslashreplace").decode())


def test_what_was_shown_before_names_its_id() -> None:
    """In texts of findings, in logs: as `printable` still shows other names."""
    for raw in (b"tab\t", b"nul\0", "\x85\u202e".encode()):
        assert raw in possible_ids(printable(raw.decode()))
    assert b"\xff" in possible_ids(r"\xff")


def test_what_is_no_utf_8_names_only_itself() -> None:
    assert possible_ids_of(b"\xff\\t") == [b"\xff\\t"]


@pytest.mark.parametrize("text", [r"\u{110000}", r"\ud800", r"\u{d800}", r"\x{gg}", "\\", r"\U00110000", r"\x{"])
def test_what_no_id_is_shown_as_is_read_as_it_is(text: str) -> None:
    assert possible_ids(text)[0] == text.encode()
    assert all(isinstance(one, bytes) for one in possible_ids(text))


@given(IDS, st.data())
def test_a_part_of_an_id_is_found_in_what_is_shown_of_it(raw: bytes, data: st.DataObject) -> None:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return
    if "\\" in text:
        return  # a part may begin in the middle of what looks like an escape
    first = data.draw(st.integers(0, len(text)))
    part = text[first : data.draw(st.integers(first, len(text)))]
    assert any(one in display_id(raw) for one in part_displays(part.encode()))
