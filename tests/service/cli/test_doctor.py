"""Tests of `txnscope doctor`: its flags, the principal in client.properties, and its records of tested releases."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from service.cli import main
from service.cli.doctor.examination import Wish, name_like, principal_of, read_records
from service.domain.releases import may_skip_markers, release_of
from service.kafka.settings import ClientSettings
from tests.helpers.brokers import EVERY_VERSION, SKIPS_THE_LOST, WITH_TV2
from tests.helpers.compatibility_document import DOCUMENT, document

LOGIN = (
    'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="scope" password="p";'
)


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("", "User:ANONYMOUS"),
        (f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{LOGIN}", "User:scope"),
        (f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n{LOGIN}", "User:scope"),
        # each broker has its own rules to derive the name of the user from a certificate or a ticket
        ("security.protocol=SSL", None),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
            "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required;",
            None,
        ),
    ],
)
def test_the_principal_is_known_where_the_file_names_it(
    text: str, principal: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gssapi.py").touch()  # a stub of the Kerberos library; nothing logs in
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "client.properties"
    file.write_text(text)
    assert principal_of(ClientSettings.load("h:1", file)) == principal


def test_without_topics_every_topic_is_watched_and_mirrored_ones_are_known() -> None:
    wish = Wish((), ("dr.*",))
    assert (wish.wants("orders"), wish.is_mirrored("dr.orders"), wish.is_mirrored("orders")) == (True, True, False)
    assert not Wish(("orders-*",), ()).wants("payments")


@pytest.mark.parametrize(
    ("glob", "name"),
    [
        ("orders-0", "orders-0"),
        ("*", "txnscope-doctor-asks"),
        ("orders-?.*", "orders-x.txnscope-doctor-asks"),
        ("[ab]*", "atxnscope-doctor-asks"),
        ("[!x][!a-z]", "aA"),
        ("[0-9]", "0"),
        ("[]a]", "a"),
    ],
)
def test_an_invented_name_matches_its_glob(glob: str, name: str) -> None:
    assert name_like(glob) == name
    assert fnmatchcase(name, glob)


@pytest.mark.parametrize("glob", ["a[", "[]", "[!]", "[z-a]"])
def test_no_name_is_invented_for_a_glob_that_no_topic_matches(glob: str) -> None:
    assert name_like(glob) == glob


@pytest.mark.parametrize(
    ("line", "code", "names"),
    [
        ("", 2, "--bootstrap-servers"),
        ("--bootstrap-servers nowhere", 2, "'nowhere'"),
        ("--bootstrap-servers h:1 --kafka-config missing.properties", 2, "missing.properties"),
        ("--bootstrap-servers h:1 --topics or/ders", 2, "'or/ders'"),
        ("--bootstrap-servers 127.0.0.1:1", 3, "127.0.0.1:1"),
    ],
)
def test_a_doctor_that_cannot_begin_prints_one_line(
    line: str, code: int, names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *line.split()]) == code
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert names in output.err


def test_the_committed_document_equals_that_of_the_records() -> None:
    made = document(read_records())
    assert DOCUMENT.read_text("utf-8") == made, "out of date, run python -m tests.helpers.compatibility_document"


def test_every_version_has_a_record_newest_first() -> None:
    assert [record.version for record in read_records()] == [*reversed(EVERY_VERSION)]


def test_versions_have_the_behaviour_that_the_code_assumes() -> None:
    records = read_records()
    assert {record.version for record in records if record.skips_markers} == set(SKIPS_THE_LOST)
    assert {record.version for record in records if record.abilities["new_epoch_per_transaction"]} == set(WITH_TV2)


def test_a_broker_shows_its_release_by_its_newest_metadata_version() -> None:
    """A broker does not report its release. Its newest supported `metadata.version` shows the release."""
    for record in read_records():
        newest, _ = record.features["metadata.version"]
        assert release_of(newest) == record.release
        assert may_skip_markers([newest]) == record.skips_markers
