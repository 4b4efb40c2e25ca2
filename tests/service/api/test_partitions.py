"""Tests of data partitions over REST: the LSO, unjudged partitions, the transaction that blocks a partition, and how
that transaction will end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.domain.partitions.facts import PartitionObservation, StalledRead
from service.domain.partitions.group_offsets import GroupOffset
from service.domain.reasons.unread import READ, NoBroker, NoPermission
from service.domain.transaction_log import states
from service.store.writers.groups import GroupWriter
from service.views.partitions import judged as judged_partitions
from tests.helpers.partitions import (
    END,
    LSO,
    PID,
    SINCE_MS,
    WithPartitions,
    entry,
    first,
    hanging_finding,
    moving_partition,
    owner,
    read,
    stalled_partition,
    unanswered_partition,
)
from tests.helpers.stores import INT64_MAX, NOW, NOW_MS, client_of
from tests.service.api.answers import get, pages

CLUSTER = "/api/v1/clusters/orders"
PATH = f"{CLUSTER}/partitions"
ONE = f"{PATH}/orders/0"
SINCE = "2026-09-21T14:13:30.123Z"


def test_a_partition_has_every_promised_field(cluster: WithPartitions) -> None:
    cluster.read([owner(b"pay\xff")])
    cluster.look(stalled_partition(), read(entry(records=9, bytes=900), is_whole=True, lag_bytes=1_000))
    cluster.look(at_ms=NOW_MS + 1_000)
    one = get(cluster, ONE)
    assert one.pop("as_of") == one["observed_at"] == "2026-09-21T14:13:51.123Z"
    (listed,) = get(cluster, PATH)["items"]
    assert listed == one
    blocker = one.pop("blocker")
    assert one.pop("open_transactions") == [blocker]
    assert blocker == {
        "producer_id": PID,
        "producer_epoch": 3,
        "transactional_id": "pay\\x{ff}",
        "transactional_id_b64": "cGF5_w",
        "application": None,
        "start_offset": LSO,
        "started_at": SINCE,
        "first_record_timestamp": "2026-09-21T14:13:31.123Z",
        "last_write_at": "2026-09-21T14:13:35.123Z",
        "records": 9,
        "bytes": 900,
        "blocking_now": True,
        "relation": "open",
        "why": None,
        "href": f"{CLUSTER}/transaction?id=pay%FF",
    }
    assert one == {
        "topic": "orders",
        "partition": 0,
        "leader": 1,
        "leader_epoch": 5,
        "log_start_offset": 10,
        "last_stable_offset": LSO,
        "high_watermark": END,
        "lso_lag_records": END - LSO,
        "lso_lag_bytes": 1_000,
        "lso_stalled_since": SINCE,
        "blocked_groups": [],
        "judged": True,
        "why": None,
        "observed_at": "2026-09-21T14:13:51.123Z",
        "href": f"{PATH}/orders/0",
    }


RELATIONS: dict[str, tuple[Any, ...]] = {
    "open": (owner(b"a"),),
    "overdue": (owner(b"a", timeout_ms=1_000, start_ms=SINCE_MS - 3_000),),
    "completing": (owner(b"a", state=states.PREPARE_COMMIT),),
    "adopted": (owner(b"a", start_ms=SINCE_MS + 7_000),),
    "hanging": (owner(b"a", state=states.COMPLETE_COMMIT, topics=()), hanging_finding(name=b"a")),
    "unknown": (owner(b"a", state=states.COMPLETE_COMMIT, topics=()),),
}


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_state_of_its_owner_determines_the_relation_of_a_blocker(cluster: WithPartitions, relation: str) -> None:
    """A transaction is overdue only after its coordinator had time to scan."""
    id_, *observations = RELATIONS[relation]
    cluster.look(stalled_partition(), read(entry()))
    cluster.see(*observations)
    now_ms = NOW_MS + (40_000 if relation == "overdue" else 0)
    cluster.read([id_], now_ms=now_ms)
    cluster.look(read(entry(), at_ms=now_ms), at_ms=now_ms)
    one = get(cluster, ONE)
    assert one["blocker"]["relation"] == relation
    assert one["blocker"]["transactional_id"] == "a"
    assert one["judged"]  # an entry that is still being confirmed is no gap
    owned = relation in ("open", "overdue", "completing")
    assert (one["blocker"]["started_at"] == get(cluster, one["blocker"]["href"])["started_at"]) == owned


def test_an_entry_older_than_the_transaction_of_its_owner_is_adopted(cluster: WithPartitions) -> None:
    """An entry is adopted if the LSO stalled before the owner's transaction began. The start of the stall counts,
    because the stall was sampled before the producers were read."""
    for at_ms in (SINCE_MS + 2_000, SINCE_MS + 12_000):
        cluster.look(stalled_partition(), read(entry(), at_ms=at_ms))
    cluster.read([owner(b"a", start_ms=SINCE_MS + 6_000)])
    assert get(cluster, ONE)["blocker"]["relation"] == "adopted"


def test_an_unowned_blocker_is_unknown_with_a_reason_until_confirmed(cluster: WithPartitions) -> None:
    cluster.read()
    cluster.look(stalled_partition(), read(entry()))
    cluster.see(hanging_finding(name=None, confirmed=False))
    one = get(cluster, ONE)
    assert (one["blocker"]["relation"], one["blocker"]["transactional_id"], one["blocker"]["href"]) == (
        "unknown",
        None,
        None,
    )
    assert "no owner of its producer id is known" in one["blocker"]["why"]
    assert one["why"].startswith(f"producer id {PID}: ")
    cluster.see(hanging_finding(name=None))
    one = get(cluster, ONE)
    assert (one["blocker"]["relation"], one["blocker"]["why"], one["judged"]) == ("hanging", None, True)
    cluster.see(now_ms=NOW_MS + 1)
    assert get(cluster, ONE)["blocker"]["relation"] == "unknown", "the finding about the hanging entry is resolved"


def test_a_finding_about_another_entry_changes_no_relation(cluster: WithPartitions) -> None:
    cluster.read()
    cluster.look(stalled_partition(), read(entry(), entry(8, LSO + 3)))
    cluster.see(hanging_finding(producer_id=8))
    assert [open_transaction["relation"] for open_transaction in get(cluster, ONE)["open_transactions"]] == [
        "unknown",
        "unknown",
    ]


def test_the_owner_is_named_though_its_id_expired(cluster: WithPartitions) -> None:
    cluster.read([owner(b"gone", state=states.COMPLETE_ABORT, topics=())])
    cluster.read([owner(b"gone", state=states.EXPIRED, topics=(), producer_id=-1)])
    cluster.look(stalled_partition(), read(entry()))
    cluster.see(hanging_finding(name=b"gone"))
    one = get(cluster, ONE)["blocker"]
    assert (one["transactional_id"], one["relation"]) == ("gone", "hanging")


def test_an_unreplicated_marker_is_no_named_blocker(cluster: WithPartitions) -> None:
    """The marker is not replicated yet, so the LSO is stalled. DescribeProducers no longer reports the transaction."""
    cluster.read([owner(b"a", state=states.COMPLETE_COMMIT, topics=())])
    cluster.look(stalled_partition(), read())
    one = get(cluster, ONE)
    assert one["blocker"] is None
    (closed,) = one["open_transactions"]
    assert (closed["relation"], closed["transactional_id"], closed["start_offset"]) == ("unreplicated_marker", "a", LSO)
    assert closed["blocking_now"]
    assert one["judged"]


@pytest.mark.parametrize(
    ("look", "shown"),
    [
        (stalled_partition(log_start=LSO), read(entry(), described=False)),
        (stalled_partition(), read(entry(), first=first(is_control=True))),
        (stalled_partition(), read(entry(), first=first(is_transactional=False))),
        (stalled_partition(), read(entry(), first=first(8))),
        (stalled_partition(), read(entry(), first=None, why="broker 1 does not answer")),
        (stalled_partition(last_stable_offset=LSO - 1), read(entry())),
    ],
    ids=["LSO at the log start", "a marker", "no transaction", "of another", "not read", "read elsewhere"],
)
def test_an_uncertain_blocker_is_not_named(
    cluster: WithPartitions, look: PartitionObservation, shown: StalledRead
) -> None:
    cluster.read([owner(b"a")])
    cluster.look(look, shown)
    one = get(cluster, ONE)
    assert one["blocker"] is None
    assert [each["relation"] for each in one["open_transactions"]] == ["open"]


def test_open_transactions_are_listed_by_offset(cluster: WithPartitions) -> None:
    cluster.read([owner(b"a"), owner(b"b", producer_id=8)])
    cluster.look(stalled_partition(), read(entry(), entry(9, LSO + 5), entry(8, LSO + 2, last_timestamp_ms=-1)))
    one = get(cluster, ONE)
    reported = [
        (each["transactional_id"], each["start_offset"], each["blocking_now"]) for each in one["open_transactions"]
    ]
    assert reported == [("a", LSO, True), ("b", LSO + 2, False), (None, LSO + 5, False)]
    assert one["open_transactions"][1]["last_write_at"] is None
    assert one["open_transactions"][1]["first_record_timestamp"] is None, "only the batch at the LSO was read"
    assert one["why"].startswith("producer id 9: "), "one entry without an owner leaves the whole partition unjudged"


@pytest.mark.parametrize("number", [0, 469_473_334, NOW_MS // 1_000, NOW_MS * 1_000, NOW_MS + 30 * 86_400_000])
def test_a_last_write_that_is_no_time_is_shown_as_a_raw_number(cluster: WithPartitions, number: int) -> None:
    """A broker may report its uptime, for example, in place of the time of the last write. Then only the raw number is
    shown."""
    cluster.read([owner(b"a")])
    cluster.look(stalled_partition(), read(entry(last_timestamp_ms=number)))
    (one,) = get(cluster, ONE)["open_transactions"]
    assert (one["last_write_at"], one["last_write_raw_ms"]) == (None, number)


def test_a_partition_that_stalled_a_moment_ago_counts_as_judged(cluster: WithPartitions) -> None:
    cluster.read()
    cluster.look(stalled_partition(stalled_since_ms=NOW_MS - 2_900))
    assert get(cluster, ONE)["judged"]
    cluster.look(at_ms=NOW_MS + 100)
    assert get(cluster, ONE)["why"] == "its open transactions have not been read yet"


@pytest.mark.parametrize(
    ("whole", "why"),
    [(True, None), (False, "not all of its open transactions could be read: no permission on topic orders")],
)
def test_without_describe_producers_a_partition_needs_a_complete_read(
    cluster: WithPartitions, whole: bool, why: str | None
) -> None:
    cluster.read([owner(b"a")])
    cluster.look(
        stalled_partition(), read(entry(), described=False, is_whole=whole, why="no permission on topic orders")
    )
    one = get(cluster, ONE)
    assert (one["judged"], one["why"]) == (why is None, why)
    assert one["blocker"]["relation"] == "open"


def test_an_unresponsive_partition_keeps_its_last_numbers(cluster: WithPartitions) -> None:
    cluster.read([owner(b"a")])
    cluster.look(stalled_partition(), moving_partition(1), read(entry()))
    cluster.look(unanswered_partition("no leader", at_ms=NOW_MS + 60_000), at_ms=NOW_MS + 60_000)
    one = get(cluster, ONE)
    assert (one["judged"], one["why"], one["leader"]) == (False, "no leader", None)
    assert (one["observed_at"], one["last_stable_offset"]) == (NOW, LSO)
    assert one["as_of"] == "2026-09-21T14:14:50.123Z"
    assert get(cluster, f"{PATH}/orders/1")["observed_at"] == one["as_of"], "the other partition was sampled later"


def test_a_partition_that_never_answered_has_no_numbers(cluster: WithPartitions) -> None:
    cluster.look(unanswered_partition("no leader"))
    one = get(cluster, ONE)
    numbers = ("log_start_offset", "last_stable_offset", "high_watermark", "lso_lag_records", "leader", "leader_epoch")
    assert {one[name] for name in (*numbers, "lso_stalled_since", "observed_at")} == {None}


def test_a_partition_names_its_blocked_groups(cluster: WithPartitions) -> None:
    cluster.read([owner(b"a")])
    cluster.look(stalled_partition(), moving_partition(1), read(entry()))
    waiting = [GroupOffset(name, "orders", 0, LSO, members, False) for name, members in (("b", 1), ("a", 2), ("i", 0))]
    GroupWriter(cluster.engine, cluster.lease).replace([*waiting, GroupOffset("x", "orders", 0, END, 1, False)], NOW_MS)
    assert get(cluster, ONE)["blocked_groups"] == ["a", "b"]
    assert get(cluster, f"{PATH}/orders/1")["blocked_groups"] == []


def test_wide_offsets_of_a_partition_have_digits_as_text(cluster: WithPartitions) -> None:
    cluster.look(moving_partition(high_watermark=INT64_MAX, last_stable_offset=INT64_MAX))
    assert get(cluster, ONE)["high_watermark_str"] == str(INT64_MAX)


def test_filters_hold_on_every_page_of_partitions(cluster: WithPartitions) -> None:
    cluster.look(
        *(stalled_partition(n) if n % 3 else moving_partition(n) for n in range(25)),
        *(moving_partition(n, "a") for n in range(5)),
    )
    with client_of(cluster.url) as client:

        def names(query: str) -> list[str]:
            *full, last = [page["items"] for page in pages(client, f"{PATH}?{query}")]
            assert all(len(page) == 4 for page in full)
            return [f"{one['topic']}-{one['partition']}" for page in (*full, last) for one in page]

        every = [f"a-{n}" for n in range(5)] + [f"orders-{n}" for n in range(25)]
        lagging = [f"orders-{n}" for n in range(25) if n % 3]
        assert names("limit=4") == every
        assert names("limit=4&lagging=true") == lagging
        assert names("limit=4&lagging=false") == [name for name in every if name not in lagging]
        assert names("limit=4&topic=a") == every[:5]
        assert names("limit=4&topic=nothing") == []
        cursor = client.get(f"{PATH}?limit=4").json()["next_cursor"]
        other = client.get(f"{PATH}?limit=4&topic=a&cursor={cursor}")
        assert (other.status_code, other.json()["type"]) == (400, "urn:txnscope:bad-cursor")


@pytest.mark.parametrize(
    ("path", "status", "type_"),
    [
        (f"{PATH}/orders/7", 404, "urn:txnscope:no-such-partition"),
        (f"{PATH}/nothing/0", 404, "urn:txnscope:no-such-partition"),
        (f"{PATH}/%00/0", 404, "urn:txnscope:no-such-partition"),
        (f"{PATH}/orders/x", 422, "urn:txnscope:bad-parameter"),
        (f"{PATH}/orders/-1", 422, "urn:txnscope:bad-parameter"),
        (f"{PATH}/orders/0?limit=1", 422, "urn:txnscope:unknown-parameter"),
        (f"{PATH}?laging=true", 422, "urn:txnscope:unknown-parameter"),
        (f"{PATH}?lagging=maybe", 422, "urn:txnscope:bad-parameter"),
        (f"{PATH}?cursor=x", 400, "urn:txnscope:bad-cursor"),
        (f"{CLUSTER}/hanging?status=resolved", 422, "urn:txnscope:unknown-parameter"),
        ("/api/v1/clusters/other/partitions", 404, "urn:txnscope:no-such-cluster"),
        ("/api/v1/clusters/other/partitions/orders/0", 404, "urn:txnscope:no-such-cluster"),
        ("/api/v1/clusters/other/hanging", 404, "urn:txnscope:no-such-cluster"),
    ],
)
def test_a_bad_request_about_partitions_is_a_problem_document(
    cluster: WithPartitions, path: str, status: int, type_: str
) -> None:
    cluster.look(moving_partition())
    with client_of(cluster.url) as client:
        answered = client.get(path)
    assert (answered.status_code, answered.json()["type"]) == (status, type_)


def test_a_deleted_partition_is_not_listed(cluster: WithPartitions) -> None:
    cluster.look(moving_partition(), moving_partition(1))
    cluster.look(moving_partition(is_gone=True, at_ms=NOW_MS + 1), at_ms=NOW_MS + 1)
    with client_of(cluster.url) as client:
        assert client.get(f"{PATH}/orders/0").status_code == 404
        assert [one["partition"] for one in client.get(PATH).json()["items"]] == [1]
        assert client.get(CLUSTER).json()["partitions"]["watched"] == 1


def test_the_list_of_hanging_transactions_has_the_confirmed_open_ones(cluster: WithPartitions) -> None:
    cluster.look(moving_partition())
    here = [hanging_finding(n, blocked_groups=("g",), decision="none", bootstrap="b:9092") for n in range(3)]
    cluster.see(*here, hanging_finding(3, confirmed=False), hanging_finding(4))
    cluster.see(*here, hanging_finding(3, confirmed=False), now_ms=NOW_MS + 1)
    with client_of(cluster.url) as client:
        page, rest = pages(client, f"{CLUSTER}/hanging?limit=2")
    items = page["items"] + rest["items"]
    assert sorted(one["subject"]["partition"] for one in items) == [0, 1, 2]
    assert page["as_of"] == NOW
    alone = get(cluster, items[0]["href"])
    assert {key: alone[key] for key in items[0]} == items[0]
    assert (items[0]["decision"], items[0]["blocked_groups"]) == ("none", ["g"])
    assert items[0]["command"].startswith("kafka-transactions.sh --bootstrap-server b:9092 abort --topic orders")
    assert get(cluster, CLUSTER)["hanging"] == 3


def test_a_cluster_counts_its_partitions_and_lists_those_it_cannot_judge(cluster: WithPartitions) -> None:
    cluster.read([owner(b"a")])
    denied = NoPermission("secret", (READ,))
    cluster.look(
        *(moving_partition(n) for n in range(4, 9)),
        *(stalled_partition(n) for n in range(3)),
        read(entry()),
        read(entry(), partition=1, described=False, why=denied),
        read(entry(99), partition=2),
        unanswered_partition("no leader", 3),
        unanswered_partition("no leader", 9),
        not_covered=11,
        trouble="2 of 10 partitions do not answer",
    )
    body = get(cluster, CLUSTER)
    assert body["partitions"] == {"watched": 10, "judged": 6, "unknown": 4, "blocked": 3, "not_covered": 11}
    source = next(source for source in body["sources"] if source["source"] == "partitions")
    assert source == {
        "source": "partitions",
        "position": None,
        "end": None,
        "lag": None,
        "caught_up": False,
        "coverage": {
            "watched": 10,
            "judged": 6,
            "unknown": 4,
            "why": "orders-3 and orders-9: no leader; 2 other reasons for other partitions",
        },
        "as_of": NOW,
        "error": "2 of 10 partitions do not answer",
        "stalled_since": None,
        "stalled_why": None,
    }
    unknown = {one["what"]: (one["why"], one["grant"]) for one in body["unknown"]}
    assert unknown["orders-3 and orders-9"] == ("no leader", None)
    assert unknown["orders-1"] == (f"not all of its open transactions could be read: {denied}", "READ on topic secret")
    assert "being checked again" in unknown["orders-2"][0]
    assert unknown["11 partitions"] == ("not watched: --topics or --mirrored excludes their topics", None)


def test_a_cluster_whose_partitions_all_answer_has_judged_all_of_them(cluster: WithPartitions) -> None:
    cluster.read([owner(b"a")])
    cluster.look(moving_partition(1), stalled_partition(), read(entry()))
    body = get(cluster, CLUSTER)
    assert body["partitions"] == {"watched": 2, "judged": 2, "unknown": 0, "blocked": 1, "not_covered": 0}
    source = next(source for source in body["sources"] if source["source"] == "partitions")
    assert (source["caught_up"], source["coverage"]["why"]) == (True, None)


def test_a_lagging_read_of_the_log_leaves_open_entries_unknown(cluster: WithPartitions) -> None:
    cluster.read([owner(b"a", state=states.COMPLETE_COMMIT, topics=())], behind=3)
    cluster.look(stalled_partition(), read(entry()))
    assert get(cluster, ONE)["why"] == f"producer id {PID}: the transaction log is not read to its end"
    assert get(cluster, CLUSTER)["partitions"]["judged"] == 0


def test_open_entries_beyond_the_bound_are_not_judged(cluster: WithPartitions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged_partitions, "MOST_ENTRIES", 4)
    cluster.read([owner(b"%d" % n, n % 3, 10 + n) for n in range(6)])
    both = (read(entry(10 + n), entry(13 + n, LSO + 1), partition=n) for n in range(3))
    cluster.look(*(stalled_partition(n) for n in range(3)), *both)
    assert [one["judged"] for one in get(cluster, PATH)["items"]] == [True, False, False]
    assert get(cluster, CLUSTER)["partitions"]["judged"] == 1


def test_only_the_longest_stalled_partitions_are_judged(
    cluster: WithPartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged_partitions, "MOST_JUDGED", 2)
    cluster.read([owner(b"%d" % n, n, 10 + n) for n in range(5)])
    cluster.look(
        *(stalled_partition(n) for n in range(5)),
        *(read(entry(10 + n), partition=n) for n in range(5)),
        moving_partition(9),
    )
    body = get(cluster, CLUSTER)
    assert body["partitions"] == {"watched": 6, "judged": 3, "unknown": 3, "blocked": 5, "not_covered": 0}
    assert "3 partitions" in [one["what"] for one in body["unknown"]]


def test_a_cluster_without_partitions_is_caught_up(tmp_path: Path) -> None:
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'empty.db'}", partitions=0)
    cluster.read_no_log()
    cluster.look()
    body = get(cluster, CLUSTER)
    cluster.close()
    assert len(body["sources"]) == 2
    for source in body["sources"]:
        assert source["as_of"] is not None
        assert (source["caught_up"], source["error"], source["coverage"]["why"]) == (True, None, None)
    assert [one["what"] for one in body["unknown"]] == ["broker configs"]


def test_before_the_first_sample_no_partition_is_watched(cluster: WithPartitions) -> None:
    cluster.partitions.report_trouble(NoBroker("b:9092"))
    body = get(cluster, CLUSTER)
    assert body["partitions"]["watched"] == 0
    source = next(source for source in body["sources"] if source["source"] == "partitions")
    assert (source["as_of"], source["caught_up"], source["coverage"]["why"]) == (
        None,
        False,
        "no broker of b:9092 answers",
    )
    assert get(cluster, PATH) == {"items": [], "next_cursor": None, "as_of": None}
    assert get(cluster, f"{CLUSTER}/hanging")["as_of"] is None


def test_500_stalled_partitions_are_all_judged(cluster: WithPartitions) -> None:
    cluster.read([owner(b"%d" % n, n, 1_000 + n) for n in range(500)])
    cluster.look(
        *(stalled_partition(n) for n in range(500)), *(read(entry(1_000 + n), partition=n) for n in range(500))
    )
    assert get(cluster, CLUSTER)["partitions"] == {
        "watched": 500,
        "judged": 500,
        "unknown": 0,
        "blocked": 500,
        "not_covered": 0,
    }
    page = get(cluster, f"{PATH}?limit=200&lagging=true")
    assert {one["blocker"]["transactional_id"] for one in page["items"]} <= {str(n) for n in range(500)}
