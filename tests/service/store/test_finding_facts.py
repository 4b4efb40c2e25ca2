"""Tests that facts of findings survive the store unchanged, and that damaged facts hide no other finding."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from service.domain.findings.catalogue import CATALOGUE
from service.domain.findings.finding import Facts, UnreadableFacts
from service.domain.findings.kinds import Kind
from service.store.queries import findings as read_findings
from service.store.queries.findings import FindingSelection
from service.store.rows.findings import decode_facts, encode_facts
from service.store.schema import findings
from service.store.writers.findings import FindingWriter, load
from tests.helpers.findings import WithFindings, finding_facts, observe
from tests.helpers.stores import NOW_MS


@pytest.fixture
def seen(url: str) -> Iterator[WithFindings]:
    cluster = WithFindings(url)
    yield cluster
    cluster.close()


TYPES = [pytest.param(kind, cls, id=cls.__name__) for kind, entry in CATALOGUE.items() for cls in entry.facts]


@pytest.mark.parametrize(("kind", "cls"), TYPES)
@given(data=st.data())
def test_facts_of_a_finding_come_back_unchanged(kind: Kind, cls: type[Facts], data: st.DataObject) -> None:
    facts = data.draw(st.from_type(cls))
    back = decode_facts(kind, encode_facts(kind, facts))
    assert (type(back), back) == (cls, facts)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("stored", ["", "{", "[]", "[1]", '[{"colour": "red"}]', '[{"name": 5}]'])
def test_damaged_facts_are_named_and_kept(kind: Kind, stored: str) -> None:
    facts = decode_facts(kind, stored)
    assert facts == UnreadableFacts(stored)
    assert encode_facts(kind, facts) == stored
    title, advice, _ = observe(kind, facts=facts)[3].words(observe(kind))
    assert title == f"{kind}: the facts of this finding cannot be read from the store, so they cannot be described"
    assert advice.endswith("The evidence is as it was observed.")


def test_text_where_a_number_belongs_is_damage() -> None:
    stored = encode_facts(Kind.LOG_EXPANDED, finding_facts(Kind.LOG_EXPANDED))
    assert isinstance(decode_facts(Kind.LOG_EXPANDED, stored.replace(":8", ':"8"')), UnreadableFacts)
    assert isinstance(decode_facts(Kind.LOG_EXPANDED, stored.replace("}", ',"more":1}')), UnreadableFacts)


def test_a_damaged_finding_hides_no_other_and_the_next_round_repairs_it(seen: WithFindings) -> None:
    late, other = observe(Kind.OVERDUE), observe(Kind.EXPIRING)
    seen.see(late, other)
    with seen.engine.begin() as connection:
        connection.execute(update(findings).where(findings.c.kind == Kind.OVERDUE).values(facts='[{"later": 1}]'))
    with seen.engine.connect() as connection:
        page, _ = read_findings.read_page(connection, seen.id, FindingSelection(), None, 10)
    assert {finding.kind: finding.observation.title for finding in page} == {
        Kind.OVERDUE: "overdue_transaction: the facts of this finding cannot be read from the store, so they cannot be"
        " described",
        Kind.EXPIRING: other.title,
    }
    seen.see(late, other, now_ms=NOW_MS + 1)
    with seen.engine.connect() as connection:
        assert load(connection, seen.id, NOW_MS)[Kind.OVERDUE, late.subject].summary == late.summary


def test_the_same_facts_are_not_written_again(seen: WithFindings, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [observe(kind, evidence=()) for kind in Kind]
    seen.see(*every)
    written: list[int] = []
    monkeypatch.setattr(FindingWriter, "save", lambda _self, changes, _now_ms: written.append(len(changes)))
    seen.see(*every, now_ms=NOW_MS + 1)
    assert written == [0]
