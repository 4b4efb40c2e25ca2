"""The records of runs on versions of Kafka: whole, in docs/compatibility.md, and the same as what the code claims."""

from __future__ import annotations

from service.cli.doctor.examination import read_records
from service.domain.releases import may_skip_markers, release_of
from tests.helpers.brokers import EVERY_VERSION, SKIPS_THE_LOST, WITH_TV2
from tests.helpers.compatibility_document import DOCUMENT, document


def test_the_document_is_what_the_records_show() -> None:
    made = document(read_records())
    assert DOCUMENT.read_text("utf-8") == made, "make it anew: python -m tests.helpers.compatibility_document"


def test_every_version_has_a_record_newest_first() -> None:
    assert [one.version for one in read_records()] == [*reversed(EVERY_VERSION)]


def test_versions_do_what_is_claimed_of_them() -> None:
    records = read_records()
    assert {one.version for one in records if one.skips_markers} == set(SKIPS_THE_LOST)
    assert {one.version for one in records if one.abilities["new_epoch_per_transaction"]} == set(WITH_TV2)


def test_a_broker_is_taken_for_the_release_that_it_is() -> None:
    """Brokers report no release, only levels of `metadata.version`: all that is claimed of a release hangs on them."""
    for one in read_records():
        newest, _ = one.features["metadata.version"]
        assert release_of(newest) == one.release
        assert may_skip_markers([newest]) == one.skips_markers
