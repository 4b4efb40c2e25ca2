"""Tests of ids of any length and any bytes. The store distinguishes, finds and sorts them. Pages show them safely, and
text copied from a page finds the id again."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Participants
from service.store import schema
from service.store.escaped_text import (
    KEY_ID_BYTES,
    display_id,
    full_id,
    id_key,
    is_cut,
    part_displays,
    possible_ids,
    possible_ids_of,
    printable,
)
from service.store.queries.transaction_pages import Selection
from service.store.queries.transactions import find, participants, read_page
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, counters, entry, read, rows, transaction


def incompressible(length: int, seed: int = 0) -> bytes:
    """Returns `length` random letters and digits as UTF-8. PostgreSQL cannot compress them."""
    rng = random.Random(seed)
    return "".join(
        rng.choices("abcdefghijklmnopqrstuvwxyzäöüßéèñçABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=length)
    ).encode()


@pytest.mark.parametrize(
    "raw", [b"", b"pay", b"\xff" * KEY_ID_BYTES, b"x" * KEY_ID_BYTES], ids=["empty", "short", "0xff", "longest"]
)
def test_an_id_up_to_the_limit_is_its_own_key(raw: bytes) -> None:
    assert id_key(raw) == raw
    assert not is_cut(id_key(raw))


def test_long_ids_with_the_same_beginning_have_keys_of_their_own() -> None:
    ids = [b"x" * length for length in range(KEY_ID_BYTES, KEY_ID_BYTES + 200)] + [
        b"x" * KEY_ID_BYTES + bytes([n]) for n in range(256)
    ]
    assert len({id_key(transactional_id) for transactional_id in ids}) == len(set(ids))
    assert all(len(id_key(transactional_id)) > KEY_ID_BYTES for transactional_id in ids[1:]), (
        "a short id is its own key, and the key of a long id is longer than any short id, so keys never collide"
    )


def test_the_key_of_a_key_is_that_key() -> None:
    key = id_key(b"y" * 5_000)
    assert id_key(key) == key


@pytest.mark.parametrize(
    "raw",
    [
        b"pay",
        b"x" * 3_000,
        "zürich-\N{SNOWMAN}".encode() * 300,
        b"\x00\t\n\r\x1b\x7f" * 500,
        b"\xff" * 32_767,
        b"\xff" * 1_057,
        b"\xed\xa0\x80" * 1_000,
        "\x85\xa0\xad\u202e\U000e0001".encode() * 300,
        rb"back\\x00\\n\\Uffffffff\\slash" * 300,
        b"\x00\\x00\\u{0}" + "\x85".encode() + b"\x85" + b"x" * 3_000,
    ],
    ids=[
        "short",
        "long",
        "letters",
        "controls",
        "bytes",
        "as long as a key",
        "surrogates",
        "unprintable",
        "no escapes",
        "of every kind",
    ],
)
def test_the_full_id_can_be_restored_from_its_text(raw: bytes) -> None:
    assert full_id(id_key(raw), display_id(raw)) == raw


def test_a_key_with_the_text_of_another_id_stays_the_key() -> None:
    raw = b"\0" + b"x" * 3_000
    found = full_id(id_key(raw), "x" * 3_000)
    assert found == id_key(raw) == id_key(found)


def test_the_text_of_earlier_versions_leads_to_the_id_too() -> None:
    raw = b"tab\t\xff" + b"x" * 3_000
    assert full_id(id_key(raw), r"tab\t\xff" + "x" * 3_000) == raw


LONG = incompressible(29_000)
TWIN = LONG[:-1] + b"!"
WIDE = (Participants("t" * 249, (0,)), Participants(incompressible(20_000).decode(), (1,)))


def test_ids_of_30_kb_are_written_found_and_paged_through(cluster: Cluster) -> None:
    assert len(LONG) > 30_000
    first = [*transaction(0, LONG, start_ms=1), entry(3, states.ONGOING, LONG, pid=8, start_ms=5, topics=WIDE)]
    cluster.writer.apply(batch([*first, entry(4, states.ONGOING, TWIN), entry(5, states.EMPTY, b"pay")], read(0, 6)), 1)
    cluster.writer.apply(batch([entry(6, states.ONGOING, LONG, pid=8, start_ms=5, topics=WIDE)], read(6, 7)), NOW_MS)
    assert counters(cluster.engine, cluster.id) == {"commits": 1, "producer_ids_assigned": 4}
    assert len(rows(cluster.engine, schema.producer_ids, cluster.id)) == 4

    with cluster.engine.connect() as connection:
        row, twin = find(connection, cluster.id, LONG), find(connection, cluster.id, TWIN)
        assert row is not None
        assert twin is not None
        assert (row.transactional_id, row.display, row.commits) == (LONG, LONG.decode(), 1)
        assert (twin.transactional_id, twin.commits) == (TWIN, 0)
        assert find(connection, cluster.id, id_key(LONG)) == row
        assert find(connection, cluster.id, LONG + b"?") is None
        taking_part = participants(connection, cluster.id, [LONG, TWIN])
        assert {partition for _, partition in taking_part[LONG]} == {0, 1}
        assert taking_part[TWIN] == [("orders", 0), ("orders", 3)]

        live = Selection(frozenset(states.NAMES))
        seen, after = [], None
        for _ in range(3):
            page = read_page(connection, cluster.id, live, "transactional_id", after, 1)
            seen += [row.transactional_id for row in page.rows]
            after = page.after
        assert after is None
        assert set(seen) == {LONG, TWIN, b"pay"}
        for prefix, fits in (
            (LONG[:KEY_ID_BYTES], {LONG, TWIN}),
            (LONG[:20_000], {LONG, TWIN}),
            (LONG, {LONG}),
            (TWIN, {TWIN}),
        ):
            page = read_page(connection, cluster.id, live._replace(prefix=prefix), "age", None, 50)
            assert {row.transactional_id for row in page.rows} == fits

    done = batch([entry(7, states.COMPLETE_COMMIT, LONG, pid=8, start_ms=5)], read(7, 8))
    cluster.writer.apply(done, NOW_MS)
    left = rows(cluster.engine, schema.open_participants, cluster.id)
    assert {r["transactional_id"] for r in left} == {id_key(TWIN)}


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
def test_characters_that_would_not_survive_a_copy_are_escaped(raw: bytes, shown: str) -> None:
    assert display_id(raw) == shown


@given(IDS)
def test_a_displayed_id_is_printable_and_finds_its_id(raw: bytes) -> None:
    shown = display_id(raw)
    assert shown.isprintable()
    assert " ".join(shown.split(" ")) == " ".join(filter(None, shown.split(" "))), (
        "a page shows several spaces as one, so a shown id must not contain them"
    )
    assert raw in possible_ids(shown)[:2], (
        "at most one other id comes before the id: the id that is spelled like the text itself"
    )


@given(st.sets(IDS, max_size=30))
def test_no_two_ids_are_displayed_alike(ids: set[bytes]) -> None:
    assert len({display_id(raw) for raw in ids}) == len(ids)


@given(TEXTS)
def test_an_id_comes_first_under_its_own_name(text: str) -> None:
    assert possible_ids(text)[0] == text.encode()
    assert possible_ids_of(text.encode()) == possible_ids(text)


@given(TEXTS)
def test_a_copy_from_raw_json_finds_its_id(text: str) -> None:
    for is_ascii in (True, False):
        assert text.encode() in possible_ids(json.dumps(text, ensure_ascii=is_ascii)[1:-1])


@given(IDS)
def test_a_copy_from_raw_metrics_or_an_ascii_terminal_finds_its_id(raw: bytes) -> None:
    shown = display_id(raw)
    assert raw in possible_ids(shown.replace("\\", "\\\\").replace('"', '\\"'))
    assert raw in possible_ids(shown.encode("ascii", "backslashreplace").decode())


def test_names_in_the_notation_of_logs_find_their_ids() -> None:
    """Log lines and texts of findings show unusual characters and bytes in a notation of their own. A search accepts
    this notation, too."""
    for raw in (b"tab\t", b"nul\0", "\x85\u202e".encode()):
        assert raw in possible_ids(printable(raw.decode()))
    assert b"\xff" in possible_ids(r"\xff")


def test_bytes_that_are_no_utf_8_find_only_themselves() -> None:
    assert possible_ids_of(b"\xff\\t") == [b"\xff\\t"]


@pytest.mark.parametrize("text", [r"\u{110000}", r"\ud800", r"\u{d800}", r"\x{gg}", "\\", r"\U00110000", r"\x{"])
def test_text_that_is_no_displayed_id_is_taken_literally(text: str) -> None:
    assert possible_ids(text)[0] == text.encode()
    assert all(isinstance(possible_id, bytes) for possible_id in possible_ids(text))


@given(IDS, st.data())
def test_a_part_of_an_id_is_found_in_its_displayed_text(raw: bytes, data: st.DataObject) -> None:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return
    if "\\" in text:
        return  # a cut may fall inside text that looks like an escape
    first = data.draw(st.integers(0, len(text)))
    part = text[first : data.draw(st.integers(first, len(text)))]
    assert any(part_display in display_id(raw) for part_display in part_displays(part.encode()))
