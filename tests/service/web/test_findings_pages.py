"""Tests of the pages of findings: the list with its filters, and one finding of every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import unescape
from typing import NamedTuple

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from service.app import create_app
from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Finding, Observation, Subject
from service.domain.findings.kinds import Kind, Resolution, Severity
from service.domain.partitions.group_offsets import GroupOffset
from service.domain.reasons.unread import DESCRIBE, READ
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.facts import Participants
from service.store import clusters
from service.store.queries import findings as read_findings
from service.store.queries.findings import FindingSelection
from service.store.schema import findings
from service.store.writers.groups import GroupWriter
from tests.helpers.findings import finding_facts
from tests.helpers.partitions import LSO, PID, WithPartitions, entry, moving_partition, owner, read, stalled_partition
from tests.helpers.reasons import denied
from tests.helpers.stores import DESCRIPTION, NOW_MS, Id
from tests.service.web.every_kind import ABORT, EVERY, hanging

LIST = "/clusters/orders/findings"
ALL = FindingSelection()
KEYS: Mapping[str, str] = {"operator-ann": "the-key-of-ann-000"}


class Shown(NamedTuple):
    """A page: `text` is its text without tags, `html` its source."""

    status: int
    text: str
    html: str

    @property
    def title(self) -> str:
        return text_of(self.html[self.html.index("<h1") : self.html.index("</h1>")])

    @property
    def commands(self) -> list[str]:
        """Returns the texts that have a copy button."""
        return [text_of(one) for one in re.findall(r"<code id=.*?</code>", self.html, re.DOTALL)]


Look = Callable[..., Shown]


def stored(cluster: WithPartitions) -> None:
    """Stores two partitions. An open entry of `pay` stalls orders-0, although the transaction log has no open
    transaction of `pay`. The partition orders-1 is not stalled."""
    cluster.read([Id(b"pay", states.COMPLETE_ABORT, producer_id=PID)])
    cluster.look(stalled_partition(), read(entry()), moving_partition(1))


pytestmark = pytest.mark.cluster(stored=stored)


@pytest.fixture
def look(cluster: WithPartitions) -> Look:
    def look(path: str = LIST, *, operators: Mapping[str, str] | None = None, now_ms: int = NOW_MS + 1_000) -> Shown:
        app = create_app(cluster.url, "1.2.3", operators=operators, now_ms=lambda: now_ms)
        with TestClient(app, raise_server_exceptions=False) as client:
            answer = client.get(path)
        return Shown(answer.status_code, text_of(answer.text), answer.text)

    return look


def text_of(html: str) -> str:
    without_marks = re.sub(r"<wbr>|</?(?:b|a|code|span|time|bdi)\b[^>]*>", "", html)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", without_marks))).strip()


def the(cluster: WithPartitions, kind: str = Kind.HANGING) -> Finding:
    with cluster.engine.connect() as connection:
        found, _ = read_findings.read_page(connection, cluster.id, ALL, None, 200)
    (finding,) = (one for one in found if one.kind == kind)
    return finding


def address(finding: Finding) -> str:
    return f"{LIST}/{finding.id}"


SAID: Mapping[str, tuple[str, ...]] = {
    Kind.HANGING: ("orders-0 is blocked by a hanging transaction of pay", "No coordinator is set to end it", ABORT),
    Kind.ADOPTED: ("records of pay that begin at offset 100 are older", "ends with the id's present transaction"),
    Kind.UNREPLICATED: ("is written but not replicated", "read_committed consumers stop at 100", "replicas catch up"),
    Kind.OVERDUE: ("pay is overdue", "It may block orders-0.", "Look at its coordinator"),
    Kind.STUCK_COMPLETION: (
        "pay is stuck in PrepareCommit",
        "Missing: no marker yet on orders-0 (leader broker 3), orders-4 (leader none)",
        "Restarting the application",
    ),
    Kind.LONG_RUNNING: ("within its timeout", "ends by itself in 47 s", "The transaction's application has to"),
    Kind.BLOCKED_GROUP: ("settlement is blocked on orders-0", "the group to read on when the transaction has ended"),
    Kind.TIMED_OUT: ("aborted by the coordinator after transaction.timeout.ms", "Happened 3 times", "its timeline"),
    Kind.CORRELATED_TIMEOUTS: (
        "48 ids timed out together",
        "Broker 2 coordinates them all now; all were initialised again within 2 m of the start of their transactions.",
    ),
    Kind.FENCING_CONFLICT: ("two producers fence each other in turns", "goes on as long as its cause", "its timeline"),
    Kind.CHURN: ("new transactional ids keep coming", "those that begin with job-", "stays the same over restarts"),
    Kind.EXPIRING: ("pay expires at 2026-09-21 15:13:50 UTC", "any use renews it", "Expiring ids"),
    Kind.EXPIRED: ("pay expired", "INVALID_PRODUCER_ID_MAPPING"),
    Kind.EPOCH_EXHAUSTION: ("30,001 of the 32,767 epochs", "find out whether this id starts too often."),
    Kind.COORDINATOR_MISMATCH: (
        "TRANSACTIONAL_ID_NOT_FOUND",
        "The coordinator may have loaded its partition only in part",
    ),
    Kind.LOG_EXPANDED: (
        "the transaction log has 8 partitions now; 3 ids have records in a partition where no coordinator looks",
        "1 of them has a transaction open there, which a restarted coordinator does not end",
        "Restarting the application: the id gets a new producer id",
    ),
    Kind.UNDECODABLE: ("cannot be decoded", "The state of these ids is unknown.", "Pipeline"),
    Kind.DATA_GAP: ("records were deleted before they were read", "Reading went on after the gap."),
    Kind.COVERAGE_GAP: ("hr.payroll-0 and hr.payroll-1", "Grant READ on topic hr.payroll", "Pipeline"),
    Kind.LOST_RECORDS: (
        "among offsets 100 to 119 were committed",
        "stays until acknowledged",
        "when you acknowledge it",
    ),
    Kind.TORN: ("its part on orders-0 is aborted", "stays until acknowledged", "when you acknowledge it"),
}


@pytest.mark.parametrize("kind", tuple(Kind))
def test_a_page_of_each_kind_has_description_advice_and_evidence(
    cluster: WithPartitions, look: Look, kind: str
) -> None:
    cluster.see(EVERY[kind])
    page = look(address(the(cluster, kind)))
    assert page.status == 200
    for words in SAID[kind]:
        assert words in page.text
    for words in ("What to do", "Evidence", "__transaction_state-0@7", "confirmed 14:13:50", "Does it heal?"):
        assert words in page.text
    assert 'id="do"' in page.html
    assert f'href="/api/v1{address(the(cluster, kind))}"' in page.html
    assert page.commands == [] or kind in (Kind.HANGING, Kind.COVERAGE_GAP)
    listed = look()
    assert page.title in listed.text
    assert f'href="{address(the(cluster, kind))}"' in listed.html


@pytest.mark.parametrize("kind", sorted(UNTIL_ACKNOWLEDGED))
def test_a_lasting_finding_heads_the_cluster_and_can_be_acknowledged(
    cluster: WithPartitions, look: Look, kind: str
) -> None:
    cluster.see(EVERY[kind])
    finding = the(cluster, kind)
    assert f'txnscope acknowledge {finding.id} --reason "…"' in look(address(finding)).text
    overview = look("/clusters/orders")
    assert "Data were lost or torn: 1 finding awaits acknowledgement. Nothing is known to hang" in overview.text
    assert f'href="{address(finding)}#do"' in overview.html
    assert "Data were lost or torn" in look("/").text


def test_a_fencing_conflict_leads_to_the_timeline_of_the_id(cluster: WithPartitions, look: Look) -> None:
    odd = b"p\xff/&"
    cluster.see(EVERY[Kind.FENCING_CONFLICT]._replace(subject=Subject(transactional_id=odd)))
    assert (
        'href="/clusters/orders/transaction?id=p%FF%2F%26"' in look(address(the(cluster, Kind.FENCING_CONFLICT))).html
    )


def test_a_hanging_transaction_has_commands_a_ruler_and_blocked_groups(cluster: WithPartitions, look: Look) -> None:
    seen = [
        GroupOffset("settlement", "orders", 0, LSO, 3, False),
        GroupOffset("fraud", "orders", 0, LSO - 5, 2, False),
        GroupOffset("tail", "orders", 0, LSO + 9, 1, False),
    ]
    GroupWriter(cluster.engine, cluster.lease).replace(seen, NOW_MS)
    cluster.see(hanging())
    page = look(address(the(cluster)))
    describe = "kafka-transactions.sh --bootstrap-server broker-1:9092 describe-producers --topic orders --partition 0"
    assert page.commands == [describe, ABORT]
    assert "Expect producer id 7, epoch 3 or higher with CurrentTransactionStartOffset 100." in page.text
    assert "Written after the marker of its transaction, or without adding the partition to a transaction." in page.text
    assert "LSO stalled for 21 s since 14:13:30" in page.text
    assert "Groups waiting 2 groups judged by their progress; 1 may stop later" in page.text
    assert "Hidden from read_committed 10" in page.text
    assert "Waiting: the coordinator applies transaction.timeout.ms" in page.text
    ruler = page.text[page.text.index("Offsets of orders-0") :]
    assert "10 offsets beyond it, up to the high watermark 110, are hidden from read_committed consumers." in ruler
    for group in ("settlement probably stopped here", "fraud will probably stop, 5 offsets to go"):
        assert f"group {group}" in ruler
    assert "hanging: pay" in ruler
    assert "group tail not known to wait" in ruler
    assert "100 begins here hanging pay never no: the LSO is here" in ruler, "the table lists the spans of the ruler"
    assert "settlement orders-0 stopped likely: does not read on 100" in ruler
    assert 'href="/clusters/orders/partitions/orders/0?offset=100"' in page.html, (
        "the evidence has a hyperlink to its record"
    )


def test_a_committed_transaction_has_a_warning_against_abort_first(cluster: WithPartitions, look: Look) -> None:
    cluster.see(hanging("commit"))
    finding = the(cluster)
    page = look(address(finding))
    warning = "Do not abort this transaction: it was committed, and an ABORT marker discards a part of it."
    assert page.text.index(warning) < page.text.index("What to do")
    assert page.commands == [f"txnscope resolve {finding.id}", f"txnscope resolve {finding.id} --execute"]
    assert "kafka-transactions.sh abort: it writes an ABORT marker" in page.text
    assert "Switch resolving on: this service accepts no keys." in page.text
    assert "Remediation is off:" in page.text
    assert "do not abort it: it was committed" in look().text


def test_a_page_with_remediation_on_has_no_form_and_no_key(cluster: WithPartitions, look: Look) -> None:
    cluster.see(hanging("commit"))
    page = look(address(the(cluster)), operators=KEYS)
    assert "Remediation is on" in page.text
    assert "Switch resolving on" not in page.text
    assert 'method="post"' not in page.html.lower()
    assert not any(part in page.html for pair in KEYS.items() for part in pair)


def test_an_aborted_transaction_has_the_command_and_the_marker_type(cluster: WithPartitions, look: Look) -> None:
    cluster.see(hanging("abort"))
    page = look(address(the(cluster)))
    assert "No committed transaction can have written these records." in page.text
    assert "reports what it would write (ABORT)" in page.text
    assert page.commands[-1] == ABORT


def test_an_unknown_decision_has_a_reason_and_no_command(cluster: WithPartitions, look: Look) -> None:
    cluster.see(hanging("unknown"))
    page = look(address(the(cluster)))
    assert page.commands == []
    assert "kafka-transactions.sh" not in page.text
    assert "the transaction may have been committed, and the wrong marker loses data" in page.text
    assert "No command is offered: the decision is unknown: the transaction log may not be read." in page.text
    assert "find out from the application" in page.text


def test_a_candidate_has_no_critical_verdict_and_no_command(cluster: WithPartitions, look: Look) -> None:
    cluster.see(hanging(confirmed=False))
    finding = the(cluster)
    page = look(address(finding))
    assert page.title == "A transaction of pay may hang on orders-0"
    assert "candidate since 14:13:50" in page.text
    assert "verdict--critical" not in page.html
    assert page.commands == []
    assert address(finding) not in look().html, "by default the list contains confirmed findings, but no candidates"
    assert "Candidates 1" in look().text
    assert "being checked again" in look(f"{LIST}?status=candidate").text


def test_hanging_transactions_come_first_sorted_by_blocked_groups(cluster: WithPartitions, look: Look) -> None:
    others = [
        hanging(
            subject=Subject("orders", n, f"id-{n}".encode(), n, 3, LSO),
            blocked_groups=tuple(f"group-{k}" for k in range(n)),
        )
        for n in range(1, 4)
    ]
    cluster.see(EVERY[Kind.FENCING_CONFLICT], EVERY[Kind.LONG_RUNNING], *others)
    text = look().text
    at = [text.index(f"orders-{n} is blocked by a hanging transaction of id-{n}") for n in (3, 2, 1)]
    assert at == sorted(at)
    assert at[-1] < text.index("two producers fence") < text.index("pay has been open since")
    assert "Open 5" in text
    assert text.count("no coordinator is set to end it") == 3


def test_a_resolved_finding_keeps_its_address_and_shows_how_it_ended(cluster: WithPartitions, look: Look) -> None:
    cluster.see(hanging())
    finding = the(cluster)
    cluster.see(now_ms=NOW_MS + 60_000)
    page = look(address(finding), now_ms=NOW_MS + 61_000)
    assert page.title == "orders-0 was blocked by a hanging transaction of pay"
    assert "Resolved at 14:14:50 UTC, after 1 m: the transaction ended, but it is not known how (healed)." in page.text
    assert page.commands == []
    assert "Where: orders-0" not in page.text, "a resolved finding does not show the present state of the partition"
    listed = look(now_ms=NOW_MS + 61_000)
    assert "No open finding." in listed.text
    assert "Resolved in the last 24 hours 1 of 1" in listed.text
    assert address(finding) in look(f"{LIST}?status=resolved", now_ms=NOW_MS + 61_000).html


def test_all_findings_of_the_last_day_are_counted_also_those_opened_long_before(
    cluster: WithPartitions, look: Look
) -> None:
    day_ms, later_ms = 86_400_000, NOW_MS + 2 * 86_400_000
    several = [hanging(subject=Subject("orders", n, b"pay", n, 3, LSO)) for n in range(60)]
    cluster.see(several[0])
    cluster.see(*several, now_ms=NOW_MS + 1)
    cluster.see(several[0], now_ms=NOW_MS + 2)
    cluster.see(now_ms=later_ms)
    page = look(now_ms=later_ms + day_ms)
    assert "Resolved in the last 24 hours 1 of 1" in page.text, "59 that were opened later were resolved too long ago"
    assert address(the_first(cluster)) in page.html
    cluster.see(*several, now_ms=later_ms + day_ms)
    cluster.see(now_ms=later_ms + day_ms + 1)
    assert "Resolved in the last 24 hours 5 of 60" in look(now_ms=later_ms + day_ms + 2).text
    assert 'id="resolved"' not in look(now_ms=later_ms + 2 * day_ms + 2).html


def the_first(cluster: WithPartitions) -> Finding:
    with cluster.engine.connect() as connection:
        found, _ = read_findings.read_page(connection, cluster.id, ALL, None, 200)
    return min(found, key=lambda finding: finding.life.opened_at_ms)


ENDED: Mapping[str, str] = {
    Resolution.COORDINATOR_MARKER: "its coordinator wrote the marker",
    Resolution.OUR_MARKER: "txnscope resolve wrote the marker",
    Resolution.FOREIGN_COMMIT: "somebody wrote a COMMIT marker by hand",
    Resolution.FOREIGN_ABORT: "somebody wrote an ABORT marker by hand",
    Resolution.ADOPTION: "a later transaction of the same producer id includes the partition",
    Resolution.RETENTION: "the transaction's records were deleted",
    Resolution.TRUNCATED: "these records are lost",
    Resolution.TOPIC_DELETED: "the topic was deleted",
    Resolution.HEALED: "it is not known how",
    Resolution.NOT_HANGING: "did not hang",
    Resolution.ACKNOWLEDGED: "somebody acknowledged it",
}


@pytest.mark.parametrize("resolution", tuple(Resolution))
def test_every_resolution_has_a_description(cluster: WithPartitions, look: Look, resolution: str) -> None:
    cluster.see(hanging())
    cluster.see(now_ms=NOW_MS + 1)
    with cluster.engine.begin() as connection:
        connection.execute(update(findings).values(resolution=resolution))
    page = look(address(the(cluster)))
    assert ENDED[resolution] in page.text
    assert f"({resolution})" in page.text


def test_a_committed_transaction_that_was_manually_aborted_stays_critical(cluster: WithPartitions, look: Look) -> None:
    cluster.see(hanging("commit"))
    cluster.see(now_ms=NOW_MS + 1)
    with cluster.engine.begin() as connection:
        connection.execute(update(findings).values(resolution=Resolution.FOREIGN_ABORT))
    page = look(address(the(cluster)))
    assert "Committed records were lost:" in page.text
    assert "verdict--critical" in page.html
    assert "Find out from the application which records are missing." in page.text


@pytest.mark.parametrize(
    ("resolution", "is_done"),
    [
        (Resolution.FOREIGN_COMMIT, False),
        (Resolution.ADOPTION, False),
        (Resolution.HEALED, False),
        (Resolution.FOREIGN_ABORT, True),
        (Resolution.RETENTION, True),
    ],
)
def test_a_transaction_that_was_not_committed_is_done_if_nobody_read_it(
    cluster: WithPartitions, look: Look, resolution: Resolution, is_done: bool
) -> None:
    cluster.see(hanging("abort"))
    cluster.see(now_ms=NOW_MS + 1)
    with cluster.engine.begin() as connection:
        connection.execute(update(findings).values(resolution=resolution))
    page = look(address(the(cluster)))
    assert ("Nothing has to be done any more." in page.text) is is_done
    assert ("Ask the application" in page.text) is not is_done


def test_owner_mute_confidence_and_reopening_are_shown(cluster: WithPartitions, look: Look) -> None:
    muted = hanging(owner="team payments", muted_until_ms=NOW_MS + 3_600_000, confidence=Confidence.LIKELY)
    cluster.see(muted)
    cluster.see(now_ms=NOW_MS + 1)
    cluster.see(muted, now_ms=NOW_MS + 2)
    page = look(address(the(cluster)))
    assert "Owner: team payments." in page.text
    assert "Muted until 15:13:50 UTC" in page.text
    assert "It was resolved before, and came back." in page.text
    assert "likely" in page.text
    listed = look().text
    for words in ("owner team payments", "muted until 15:13:50", "reopened", "likely"):
        assert words in listed
    assert "muted" not in look(now_ms=NOW_MS + 3_700_000).text.lower(), "the mute has ended"


def test_the_partitions_of_an_overdue_transaction_are_shown(cluster: WithPartitions, look: Look) -> None:
    own = owner(b"late", producer_id=9)
    cluster.read([own._replace(topics=(Participants("orders", (0, 2)),))])
    cluster.look(stalled_partition(), read(entry(9)), stalled_partition(2), read(entry(9), partition=2))
    cluster.see(EVERY[Kind.OVERDUE]._replace(subject=Subject(transactional_id=b"late")))
    page = look(address(the(cluster, Kind.OVERDUE)))
    assert "What it holds 2 partitions in the transaction" in page.text
    for partition in (0, 2):
        assert f'href="/clusters/orders/partitions/orders/{partition}"' in page.html
    assert "State now Ongoing" in page.text


def test_filters_are_in_the_address_and_the_same_as_in_rest(cluster: WithPartitions, look: Look) -> None:
    odd = b"p\xff"
    cluster.see(
        hanging(),
        EVERY[Kind.FENCING_CONFLICT]._replace(subject=Subject(transactional_id=odd)),
        EVERY[Kind.EXPIRING],
    )
    hanging_id, fences, expires = (the(cluster, k).id for k in (Kind.HANGING, Kind.FENCING_CONFLICT, Kind.EXPIRING))

    def listed(query: str) -> set[str]:
        page = look(f"{LIST}?{query}")
        assert page.status == 200, page.text
        return {one for one in (hanging_id, fences, expires) if f'id="finding-{one}"' in page.html}

    assert listed("") == {hanging_id, fences, expires}
    assert listed("kind=hanging_transaction") == {hanging_id}
    assert listed("kind=fencing_conflict&kind=expiring_transactional_id") == {fences, expires}
    assert listed("severity=critical&severity=info") == {hanging_id, expires}
    assert listed("transactional_id=p%FF") == {fences}
    assert listed("topic=orders&partition=0") == {hanging_id}
    assert listed("topic=orders&partition=1") == set()
    assert listed("status=resolved") == set()
    assert listed("kind=&severity=&transactional_id=&topic=&partition=") == {hanging_id, fences, expires}, (
        "a form without input sends empty fields, which filter nothing"
    )
    page = look(f"{LIST}?status=candidate&status=confirmed&transactional_id=p%FF")
    assert 'href="/api/v1/clusters/orders/findings?status=candidate&amp;status=confirmed' in page.html
    assert 'value="p\\x{ff}"' in page.html
    assert listed("transactional_id=p%5Cx%7Bff%7D") == {fences}, (
        "the field shows the id escaped, and accepts the same text"
    )
    assert "No finding matches." in look(f"{LIST}?topic=nothing").text


@pytest.mark.parametrize("query", ["kind=nonsense", "partition=-1", "partition=x", "wrong=1", "status=open"])
def test_an_invalid_filter_is_refused(cluster: WithPartitions, look: Look, query: str) -> None:
    assert look(f"{LIST}?{query}").status == 422


def test_long_lists_have_pages_sorted_by_severity(cluster: WithPartitions, look: Look) -> None:
    def many(number: int, severity: Severity) -> list[Observation]:
        found = EVERY[Kind.OVERDUE]._replace(severity=severity)
        return [found._replace(subject=Subject(transactional_id=f"{severity}-{n}".encode())) for n in range(number)]

    cluster.see(*many(100, Severity.CRITICAL), *many(60, Severity.INFO))
    path, seen, severities = LIST, [], []
    while True:
        page = look(path)
        rows = re.findall(r'<tr id="finding-(\w+)"( class="is-critical")?', page.html)
        seen += [one for one, _ in rows]
        severities += [bool(critical) for _, critical in rows]
        following = re.search(r'<a href="([^"]*cursor=[^"]*)">Next', page.html)
        if following is None:
            break
        path = unescape(following[1])
    assert len(seen) == len(set(seen)) == 160
    assert severities == [True] * 100 + [False] * 60
    assert look(f"{path}&severity=critical").status == 400, "a cursor is refused with other filters than its own"
    assert look(f"{LIST}?cursor=nonsense").status == 400


def test_a_gap_names_the_permission_and_the_command_that_grants_it(cluster: WithPartitions, look: Look) -> None:
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)
    hidden = denied("__transaction_state", DESCRIBE, READ)
    cluster.see(
        EVERY[Kind.COVERAGE_GAP]._replace(
            subject=Subject(topic="__transaction_state"),
            facts=finding_facts(Kind.COVERAGE_GAP),
            reason=hidden,
        )
    )
    page = look(address(the(cluster, Kind.COVERAGE_GAP)))
    assert "Grant DESCRIBE and READ on topic __transaction_state to txnscope's principal." in page.text
    (line,) = page.commands
    assert line.startswith("kafka-acls.sh --bootstrap-server broker-1:9092")
    assert "--operation Read --topic __transaction_state" in line


def test_an_unknown_finding_or_cluster_is_404(look: Look) -> None:
    assert look(f"{LIST}/0000000000000000").status == 404
    assert look(LIST.replace("orders", "other")).status == 404


def test_without_findings_partitions_that_cannot_be_judged_are_named(cluster: WithPartitions, look: Look) -> None:
    cluster.look(stalled_partition(3), at_ms=NOW_MS)
    text = look().text
    assert "No open finding." in text
    assert "cannot be judged: whether anything is wrong there is not known." in text


def test_old_data_are_marked_as_last_known(cluster: WithPartitions, look: Look) -> None:
    cluster.see(hanging())
    page = look(address(the(cluster)), now_ms=NOW_MS + 60_000)
    assert page.title == "Last known: orders-0 is blocked by a hanging transaction of pay"


def test_names_are_escaped_and_never_cut(cluster: WithPartitions, look: Look) -> None:
    name = "<script>" + "wide-" * 40
    cluster.see(hanging(subject=Subject("orders", 0, name.encode(), PID, 3, LSO)))
    page = look(address(the(cluster)))
    assert name in page.title
    assert "<script>wide" not in page.html
    assert " style=" not in page.html
    assert name in look().text
