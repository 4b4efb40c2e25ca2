"""Tests that a reason is unchanged after it was stored or sent through Spark, and that it is shown as one line."""

from __future__ import annotations

from dataclasses import fields

import pytest

from service.domain.doctor.acls import Acl, grant_for
from service.domain.reasons import hanging, unjudged, unread
from service.domain.reasons.coding import decode, encode
from service.domain.reasons.hanging import Contradiction, HangCause, HangReason, Proven, RecordsGone, SeveralLeft
from service.domain.reasons.reason import Reason, Several, combined, parts
from service.domain.reasons.unjudged import BeingConfirmed, LogUnread, NotAllRead, NotReadYet, OwnerUndecodable
from service.domain.reasons.unread import (
    DESCRIBE,
    READ,
    ErrorAnswer,
    ErrorText,
    LeadersUnresponsive,
    NoBroker,
    NoLeader,
    NoPermission,
    NoTransactionLog,
    PartitionsUnresponsive,
    TransactionsSeen,
    is_denied,
    missing_permissions,
)
from tests.helpers.reasons import denied

EVERY_KIND = [
    cls
    for module in (unread, unjudged, hanging)
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, Reason) and cls.__module__ == module.__name__
]
NESTED = PartitionsUnresponsive(3, 9, ((denied("vault", DESCRIBE, READ), 2), (NoLeader(), 1)))
SAID = [
    (
        NESTED,
        "3 of 9 partitions do not answer: no permission on topic vault: grant DESCRIBE and READ on it (2), no leader"
        " (1)",
    ),
    (ErrorAnswer(2, "", 74), "broker 2 answers with error 74 FENCED_LEADER_EPOCH"),
    (ErrorAnswer(2, "a fetch", 3), "broker 2 answers a fetch with error 3 UNKNOWN_TOPIC_OR_PARTITION"),
    (LeadersUnresponsive("t", 7, 9, (0, 1)), "7 of 9 partitions have no leader that answers: t-0, t-1 …"),
    (
        LogUnread(NoTransactionLog(TransactionsSeen.LISTED)),
        "the brokers list no topic __transaction_state, although they list transactional ids: they do not have it, or"
        " hide it",
    ),
    (NoBroker("a:1,b:2"), "no broker of a:1,b:2 answers"),
    (NotAllRead(None), "not all of its open transactions could be read"),
    (
        LogUnread(denied("log")),
        "the transaction log is not read to its end: no permission on topic log: grant READ on it",
    ),
    (
        BeingConfirmed("CompleteCommit"),
        "its transactional.id is in state CompleteCommit, and the log has no transaction that will end the open"
        " records; it is being checked again",
    ),
    (ErrorText("two\nlines \0"), "two lines \\x00"),
    (
        Contradiction(Proven("none"), SeveralLeft(True, True)),
        "two readings contradict each other: first no transaction that this cluster committed can have written"
        " it; now it may belong to a committed or to an aborted transaction, and no proof shows which",
    ),
    (
        RecordsGone(3, 10, 20),
        "not all records of __transaction_state-3 in [10, 20) could be read: a committed transaction of the producer id"
        " may be among the others",
    ),
    (
        HangReason(HangCause.NO_MARKER, 0, None, Proven("commit"), is_behind=False),
        "its marker was never written here; coordinators of Kafka 4.3.0, 4.3.1 and 4.4.0 skip the marker of a"
        " partition without a leader (KAFKA-20734); it is not known whether these brokers do",
    ),
]


@pytest.mark.parametrize(("reason", "said"), SAID)
def test_an_encoded_reason_is_decoded_unchanged_and_is_one_line(reason: Reason, said: str) -> None:
    assert decode(encode(reason)) == reason
    assert encode(reason).isascii()
    assert str(reason) == said


def test_every_kind_has_a_code_of_its_own() -> None:
    assert len({cls.code for cls in EVERY_KIND}) == len(EVERY_KIND) > 20


@pytest.mark.parametrize("cause", HangCause)
def test_every_cause_has_words(cause: HangCause) -> None:
    hangs = HangReason(cause, 7, False, SeveralLeft(True, False), is_behind=True)
    assert decode(encode(hangs)) == hangs
    assert str(hangs)


@pytest.mark.parametrize("text", ["", "no leader", "[]", "7", '"no_leader"'])
def test_a_text_that_is_no_reason_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no reason"):
        decode(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"code": "new_one", "why": "x"}',
        '{"code": "no_leader", "since": 1}',
        encode(HangReason(HangCause.LATE, 7, False, Proven("none"), is_behind=True)).replace(
            '"late"', '"of a later version"'
        ),
    ],
)
def test_a_reason_of_a_later_version_is_shown_by_its_code(text: str) -> None:
    """The application may be upgraded before the service. The service then shows a reason of the later version by its
    code."""
    code = text.split('"')[3]
    assert str(decode(text)) == f"{code}: a reason that only a later version of txnscope can explain"


def test_kinds_without_fields_differ() -> None:
    assert len({NoLeader(), NotReadYet(), OwnerUndecodable()}) == 3
    assert all(fields(cls) == () for cls in (NoLeader, NotReadYet))


def test_combined_reasons_contain_each_reason_once() -> None:
    assert combined([]) is None
    assert combined([None, NoLeader(), None, NoLeader()]) == NoLeader()
    assert combined([NoLeader(), denied("t"), NoLeader()]) == Several((NoLeader(), denied("t")))
    assert str(combined([NoLeader(), ErrorText("b")])) == "no leader; b"


def test_a_missing_permission_is_found_wherever_it_is_named() -> None:
    deep = Several((ErrorText("something"), NotAllRead(LogUnread(NESTED))))
    assert list(missing_permissions(deep)) == [NoPermission("vault", (DESCRIBE, READ))]
    assert is_denied(deep)
    assert not is_denied(ErrorText("no permission on topic t: grant READ on it")), (
        "the text of an error decides nothing"
    )
    assert not is_denied(None)
    assert list(parts(None)) == []


def test_a_missing_permission_has_the_smallest_grant() -> None:
    grant = grant_for(NESTED)
    assert grant is not None
    assert grant.text == "DESCRIBE and READ on topic vault"
    assert grant.acls == (Acl("--topic", "vault", "Read"),), "READ implies DESCRIBE"
    describes = grant_for(denied("t", DESCRIBE))
    assert describes is not None
    assert describes.acls == (Acl("--topic", "t", "Describe"),)
    assert grant_for(NoLeader()) is None
